"""The soak sees what it is there to see: a stream that is not whole, memory that grows, and what is left over."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from benchmarks.soak.account import Account
from benchmarks.soak.caller import Event, Wrong, event_of, events_of
from benchmarks.soak.cuts import CutOff
from benchmarks.soak.processes import Census
from benchmarks.soak.report import Report
from benchmarks.soak.scripts import Script
from benchmarks.soak.streams import WARM_UP, Held, Sample

SCRIPT = Script(run=1, words=2, quickest=0.0, slowest=0.0, tool="wait", seconds=0.5)
WORDS = ("0@1.5 ", "1@1.6 ")
ANSWER = {"finish_reason": "stop", "content": "".join(WORDS), "tool_runs": [{"result": "wait 0.5"}]}


def event(name: str, seq: int | None, **data: Any) -> Event:
    return Event(name, seq, {"run_id": "run_1", **data})


def whole(answer: dict[str, Any] | None = None, end: str = "run.completed") -> list[Event]:
    return [
        event("run.started", 1),
        *(event("text.delta", seq, text=word) for seq, word in enumerate(WORDS, 2)),
        event(end, 4, **(ANSWER if answer is None else answer)),
    ]


def census(**counted: float) -> Census:
    given = dict.fromkeys(("tasks", "sockets", "threads", "runs", "journals", "objects", "memory", "model_calls"), 0)
    return Census(**{**given, **counted}, kinds=Counter())  # type: ignore[arg-type] # numbers, all of them


def held(growth: float, *, minutes: float = 5, fewest: int = 1000) -> Held:
    """Streams of which memory grew by so much a minute, after a warm-up in which it doubled."""
    samples = [
        Sample(at, 100 + growth * at / 60 if at >= WARM_UP else 50, fewest)
        for at in map(float, range(int(minutes * 60)))
    ]
    return Held(1000, minutes, min(WARM_UP, minutes * 20), samples=samples)


def test_a_whole_stream_is_taken_for_one() -> None:
    account = Account(SCRIPT)

    for one in whole():
        account.take(one)

    assert account.is_over
    assert len(account.delays) == 2


@pytest.mark.parametrize(
    "events",
    [
        [event("run.started", 1), event("round.started", 3)],
        [event("run.started", 1), event("run.started", 1)],
        [event("stream.cut_off", None)],
        [event("run.started", 1), Event("round.started", 2, {"run_id": "run_2"})],
        [event("run.started", 1), event("text.delta", 2, text=WORDS[1])],
        [*whole(), event("text.delta", 5, text="2@1.7 ")],
        whole(end="run.cancelled"),
        whole({**ANSWER, "finish_reason": "deadline"}),
        whole({**ANSWER, "content": WORDS[0]}),
        whole({**ANSWER, "tool_runs": []}),
        whole({**ANSWER, "tool_runs": ANSWER["tool_runs"] * 2}),  # type: ignore[operator] # a list
        [event("run.started", 1), event("run.completed", 2, **{**ANSWER, "content": ""})],
    ],
    ids=[
        "a gap",
        "an event twice",
        "cut off",
        "another run",
        "a word is missing",
        "more after the end",
        "cancelled",
        "another reason",
        "half the answer",
        "a tool not run",
        "a tool run twice",
        "no words",
    ],
)
def test_a_stream_that_is_not_whole_is_wrong(events: list[Event]) -> None:
    account = Account(SCRIPT)

    with pytest.raises(Wrong):
        for one in events:
            account.take(one)


def reader(*pieces: bytes) -> asyncio.StreamReader:
    """A connection over which these pieces came, and then its end."""
    given = asyncio.StreamReader()
    for piece in pieces:
        given.feed_data(piece)
    given.feed_eof()
    return given


async def test_events_are_read_however_they_are_cut_into_chunks() -> None:
    data = b": ping\nretry: 1000\n" + b"".join(
        b'id: %d\nevent: text.delta\ndata: {"text": %b}\n\n' % (seq, json.dumps(word).encode())
        for seq, word in enumerate(WORDS, 1)
    )
    chunks = (
        b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (data[:30], data[30:31], data[31:])) + b"0\r\n\r\n"
    )

    events = [one async for one in events_of(reader(chunks[:40], chunks[40:]))]

    assert [(one.seq, one.data["text"]) for one in events] == list(enumerate(WORDS, 1))


async def test_a_stream_without_its_last_chunk_is_wrong() -> None:
    with pytest.raises(Wrong):
        await anext(events_of(reader(b"5\r\n: he\n\r\n")))


def test_an_event_without_a_number_has_none() -> None:
    assert event_of(b'event: stream.cut_off\ndata: {"run_id": "run_1"}') == event("stream.cut_off", None)


@pytest.mark.parametrize(
    ("seen", "failures"),
    [
        (held(0.1), 0),
        (held(-3), 0),
        (held(3), 1),
        (held(3, minutes=1), 0),
        (held(0, fewest=850), 1),
        (held(3, fewest=850), 2),
    ],
    ids=["flat", "falling", "growing", "too short to tell", "too few streams", "both"],
)
def test_memory_that_grows_and_streams_that_are_missing_fail_the_soak(seen: Held, failures: int) -> None:
    assert len(seen.failures()) == failures
    assert len(Report(census(), held=seen).failures()) == failures


@pytest.mark.parametrize("name", ["tasks", "sockets", "threads", "runs", "journals", "model_calls"])
def test_a_single_thing_that_is_left_over_fails_the_soak(name: str) -> None:
    report = Report(census(), held=held(0), after_streams=census(**{name: 1}))

    assert report.failures() == [f"LEFT OVER: 1 more {name} after the streams"]


@pytest.mark.parametrize(("streams", "cuts", "failures"), [(100, 110, 0), (50, 80, 1)], ids=["as much", "more"])
def test_memory_that_cuts_leave_behind_is_what_the_streams_did_not_have(
    streams: float, cuts: float, failures: int
) -> None:
    report = Report(
        census(memory=50),
        held=held(0),
        after_streams=census(memory=streams),
        cut_off=CutOff(),
        after_cuts=census(memory=cuts),
    )

    assert len(report.failures()) == failures


def test_what_the_log_complains_of_fails_the_soak() -> None:
    assert len(Report(census(), wrong=["a warning"] * 30).failures()) == 11
