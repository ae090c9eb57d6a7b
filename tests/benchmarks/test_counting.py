"""The count of calls: it misses none, tells what was added and by which functions, and is the same every time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.counting.__main__ import Count, main
from benchmarks.counting.baseline import FOLDER, read, write
from benchmarks.counting.calls import CallCounter, Calls
from benchmarks.counting.comparison import Change, Comparison
from benchmarks.counting.exchanges import Exchange, Setup, WrongAnswer
from benchmarks.counting.figures import FIGURES, Figure
from benchmarks.counting.line import Line
from benchmarks.counting.loop import Loop
from benchmarks.counting.worker import CountingFailed, counted_apart

OURS, THEIRS = "app/web/sse.py frame", "json/decoder.py JSONDecoder.decode"


def called(**numbers: float) -> Calls:
    """Calls of functions of ours."""
    return Calls({f"app/web/sse.py {name}": number for name, number in numbers.items()})


@pytest.fixture(autouse=True)
def threads_of_other_tests_are_left_alone() -> Iterator[None]:
    yield
    threading.setprofile(None)


@pytest.fixture
def counter() -> CallCounter:
    """Counts all that is called."""
    return CallCounter([])


def of_this_file(calls: Calls) -> dict[str, float]:
    """Calls by the names of functions of this file."""
    here = f"tests/benchmarks/{Path(__file__).name} "
    return {
        name.removeprefix(here).rpartition(".")[2]: number
        for name, number in calls.by_function.items()
        if name.startswith(here)
    }


def three_calls() -> None:
    len("")
    len("")


def test_a_call_counts_with_the_function_that_is_called_and_of_c_with_the_one_that_calls(counter: CallCounter) -> None:
    with counter:
        three_calls()
    three_calls()

    assert of_this_file(counter.calls()) == {"three_calls": 3}


def test_to_go_on_with_a_generator_is_a_call(counter: CallCounter) -> None:
    def two() -> Iterator[int]:
        yield from (1, 2)

    generator = two()

    with counter:
        for _ in generator:
            pass

    assert of_this_file(counter.calls()) == {"two": 3}


def test_a_count_begins_with_nothing(counter: CallCounter) -> None:
    for _ in range(2):
        with counter:
            three_calls()

    assert of_this_file(counter.calls()) == {"three_calls": 3}


def test_calls_in_threads_are_counted(counter: CallCounter) -> None:
    with counter:
        thread = threading.Thread(target=three_calls)
        thread.start()
        thread.join()

    assert of_this_file(counter.calls()) == {"three_calls": 3}


def test_what_code_that_stands_apart_does_within_itself_does_not_count(tmp_path: Path) -> None:
    source = """
def outer(back):
    inner()
    len("")
    back()

def inner():
    len("")
"""
    apart: dict[str, Callable[[Callable[[], None]], None]] = {}
    exec(compile(source, tmp_path / "apart.py", "exec"), apart)  # noqa: S102 - our own text
    counter = CallCounter([tmp_path])

    with counter:
        apart["outer"](three_calls)

    assert of_this_file(counter.calls()) == {"three_calls": 3}
    names = {name.rpartition(" ")[2]: number for name, number in counter.calls().by_function.items()}
    assert names["outer"] == 1
    assert "inner" not in names


def calls_twice(deeper: bool = True) -> None:
    three_calls()
    if deeper:
        calls_twice(deeper=False)


def test_calls_beneath_a_function_are_counted_once_with_each_function_that_they_are_beneath() -> None:
    counter = CallCounter([], beneath=True)

    with counter:
        calls_twice()

    counted = of_this_file(counter.calls())
    assert (counted["calls_twice"], counted["three_calls"]) == (8, 6)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop(patience=0)
    yield loop
    loop.close()


def test_time_moves_only_where_there_is_nothing_else_to_do(loop: Loop) -> None:
    async def waits() -> tuple[float, float]:
        began = loop.time()
        await asyncio.sleep(0)
        busy = loop.time() - began
        hour = loop.create_future()
        loop.call_later(3600, hour.set_result, None)
        await hour
        return busy, loop.time() - began

    assert loop.run_until_complete(waits()) == (0, 3600)


def test_a_step_is_taken_when_all_is_done_that_the_one_before_has_caused(loop: Loop) -> None:
    done: list[str] = []

    def step(name: str, causes: int) -> None:
        done.append(f"{name}{causes}")
        if causes:
            loop.call_soon(step, name, causes - 1)

    begin = partial(loop.paced, [partial(step, "a", 2), partial(step, "b", 1), partial(step, "c", 0)])
    loop.run_to_rest(begin, is_at_rest=lambda: len(done) == 6)

    assert done == ["a2", "a1", "a0", "b1", "b0", "c0"]


def test_timers_that_are_near_go_off_before_the_next_step_and_time_outs_never(loop: Loop) -> None:
    done: list[str] = []

    def begin() -> None:
        loop.call_later(0.005, done.append, "near")
        loop.call_later(15, done.append, "time-out")
        loop.paced([partial(done.append, "step")])

    loop.run_to_rest(begin, is_at_rest=lambda: len(done) == 2)

    assert done == ["near", "step"]


def test_a_loop_in_which_nothing_happens_any_more_says_so(loop: Loop) -> None:
    with pytest.raises(TimeoutError):
        loop.run_to_rest(lambda: None, is_at_rest=lambda: False)


def test_a_thread_is_waited_for() -> None:
    loop = Loop()
    done = threading.Event()

    def begin() -> None:
        threading.Thread(target=loop.call_soon_threadsafe, args=[done.set]).start()

    loop.run_to_rest(begin, is_at_rest=done.is_set)
    loop.close()

    assert done.is_set()


class Reader(asyncio.Protocol):
    """Keeps what it reads, and pauses after each read."""

    def __init__(self) -> None:
        self.reads: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, Line)
        self.line = transport

    def data_received(self, data: bytes) -> None:
        self.reads.append(len(data))
        self.line.pause_reading()


class BufferedReader(asyncio.BufferedProtocol):
    """Takes a few bytes at a time."""

    def __init__(self) -> None:
        self.data = b""

    def get_buffer(self, sizehint: int) -> bytearray:
        self.buffer = bytearray(7)
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]


def fed(loop: Loop, protocol: asyncio.BaseProtocol, data: bytes) -> Line:
    """A line from which the protocol has read what it wanted of the data."""
    line = Line(loop, protocol, lambda _: SimpleNamespace(received=len))
    loop.run_to_rest(partial(line.feed, data), is_at_rest=lambda: True)
    return line


def test_much_data_is_read_in_pieces_and_none_while_reading_is_paused(loop: Loop) -> None:
    reader = Reader()

    line = fed(loop, reader, bytes(100_000))
    assert reader.reads == [65_536]

    loop.run_to_rest(line.resume_reading, is_at_rest=lambda: True)
    assert reader.reads == [65_536, 34_464]


def test_protocols_with_buffers_of_their_own_read_all(loop: Loop) -> None:
    reader = BufferedReader()

    fed(loop, reader, b"all of it, and more")

    assert reader.data == b"all of it, and more"


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        (b'{"content": " word", "finish_reason": "length", "tool_runs": []}', 1),
        (b'{"content": "", "finish_reason": "stop", "tool_runs": []}', 1),
        (b'{"content": " word", "finish_reason": "stop", "tool_runs": [{"result": "another"}]}', 1),
        (b'{"content": " word", "finish_reason": "stop", "tool_runs": []}', 2),
    ],
    ids=["another reason", "no text", "a tool run", "the model was asked twice"],
)
def test_what_is_not_the_right_answer_is_not_counted(answer: bytes, asked: int) -> None:
    with pytest.raises(WrongAnswer):
        Exchange().check(200, answer, [b'{"stream": false, "tools": [{}], "messages": [{}]}'] * asked)


@pytest.mark.parametrize("numbers", [(1, 3), (2, 3), (1,)], ids=["a gap", "no first", "half of it"])
def test_a_stream_that_is_not_whole_is_not_counted(numbers: tuple[int, ...]) -> None:
    events = [b'id: %d\nevent: text.delta\ndata: {"text": " word"}\n\n' % number for number in numbers]

    with pytest.raises(WrongAnswer):
        Exchange(stream=True, words=2).check(200, b"".join(events), [])


def test_a_figure_of_one_thing_more_is_the_difference_in_equal_parts() -> None:
    few, many = Exchange(), Exchange(Setup(tools=11))
    counted = {few: called(check=3, offer=10), many: called(check=3, offer=60, write=5)}

    assert Figure.further("a tool", many, few, 10).of(counted) == called(offer=5, write=0.5)


def test_a_baseline_is_read_as_it_was_written_with_the_calls_of_others_by_file(tmp_path: Path) -> None:
    file = tmp_path / "baselines" / "python.json"

    write(file, {"one": Calls({OURS: 2, THEIRS: 3, "json/decoder.py scan": 0.5}), "two": Calls({OURS: 1})})

    assert read(file) == {"one": Calls({OURS: 2, "json/decoder.py": 3.5}), "two": Calls({OURS: 1})}


@pytest.mark.parametrize(
    ("before", "now", "is_growth", "is_fall"),
    [
        (100, 100, False, False),
        (100, 110, False, False),
        (100, 111, True, False),
        (100, 91, False, False),
        (100, 89, False, True),
        (0, 0, False, False),
        (0, 1, True, False),
        (2, 2.3, True, False),
    ],
)
def test_more_than_a_tenth_is_too_much(before: float, now: float, is_growth: bool, is_fall: bool) -> None:
    change = Change("a token", called(frame=before), called(frame=now))

    assert (change.is_growth, change.is_fall) == (is_growth, is_fall)


def test_the_functions_that_grew_most_are_told_first_and_those_of_others_within_their_file() -> None:
    before = Calls({OURS: 10, "app/web/sse.py gone": 5, "app/web/sse.py same": 7})
    now = Calls({OURS: 12, "app/web/sse.py same": 7, THEIRS: 20, "json/decoder.py scan": 1})

    rows = Change("a token", before, now).most_grown()

    assert [(row.name, row.more) for row in rows] == [("json/decoder.py (JSONDecoder.decode, scan)", 21), (OURS, 2)]


def test_a_figure_that_the_baseline_lacks_was_not_checked() -> None:
    comparison = Comparison({"one": called(frame=1)}, {"one": called(frame=1), "two": called(frame=1)})

    assert comparison.unknown == ["two"]
    assert not comparison.is_passed


def counting(*times: float) -> Count:
    """Counts so many calls of everything, one number after the other."""
    left = iter(times)

    def count(names: Sequence[str], *, beneath: bool = False) -> Mapping[str, Calls]:
        number = next(left)
        return dict.fromkeys(names, called(frame=number, beneath=number) if beneath else called(frame=number))

    return count


def test_the_command_fails_without_a_baseline_and_passes_when_it_has_written_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "python.json"

    assert main([], counting(100), file) == 1
    assert "NOT CHECKED" in capsys.readouterr().out
    assert main(["--write"], counting(100), file) == 0
    assert main([], counting(105), file) == 0
    assert capsys.readouterr().out.endswith("Passed.\n")


def test_the_command_fails_where_calls_grew_and_says_of_which_function(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "python.json"
    main(["--write"], counting(100), file)
    capsys.readouterr()

    assert main([], counting(120), file) == 1

    told = capsys.readouterr().out
    assert "an answer: 20 calls more, +20.0%." in told
    assert f"| +20  | 100      | 120 | {OURS}" in told
    assert "FAILED" in told


def test_the_command_says_when_calls_fell_so_far_that_they_could_grow_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "python.json"
    main(["--write"], counting(100), file)

    assert main([], counting(80), file) == 0
    assert "fell by more than a tenth" in capsys.readouterr().out


def test_the_command_tells_whether_it_counted_the_same_every_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--times", "3"], counting(100, 103, 101), tmp_path / "python.json")

    assert "an answer: 3 times from 100.00 to 103.00" in capsys.readouterr().out


@pytest.mark.parametrize(("option", "is_beneath"), [("--top", False), ("--beneath", True)])
def test_the_command_shows_where_calls_are(
    option: str, is_beneath: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([option, "1", "--only", "history"], counting(12), tmp_path / "python.json")

    told = capsys.readouterr().out
    assert told.startswith("a further message of history:\n     12.00  app/web/sse.py ")
    assert ("app/web/sse.py beneath" in told) == is_beneath


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--only", "token", "--write"]])
def test_the_command_refuses_what_makes_no_sense(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(arguments, counting(1), tmp_path / "python.json")


def test_the_committed_baselines_have_all_figures() -> None:
    files = list(FOLDER.glob("python*.json"))

    assert files
    assert [file.name for file in files if list(read(file)) != [figure.name for figure in FIGURES]] == []


def test_the_gateway_calls_the_same_functions_every_time() -> None:
    names = ["a streamed answer after a round of tools"]

    first, again = counted_apart(names), counted_apart(names)

    assert first == again
    assert any(name.startswith("app/web/") for name in first[names[0]].by_function)


def test_a_count_that_breaks_says_why() -> None:
    with pytest.raises(CountingFailed, match="no such figure"):
        counted_apart(["no such figure"])
