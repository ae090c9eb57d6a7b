"""The benchmark of speed computes rightly, counts what processes use, and its parts work together."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from benchmarks import processes
from benchmarks.speed.figures import Growth, Spread, percentile
from benchmarks.speed.measuring import Bench
from benchmarks.speed.model_server import Asked, ModelServer
from benchmarks.speed.pacing import Pacer
from benchmarks.speed.report import figures, markdown
from benchmarks.speed.samples import Sample, Samples, point_name
from benchmarks.speed.scenarios import Scenario
from benchmarks.speed.servers import GATEWAY, MODEL_SERVER, NGINX, PASSTHROUGH, PEERS, model_server
from benchmarks.speed.sweeps import SWEEPS
from benchmarks.speed.tables import number, spread
from benchmarks.speed.verdicts import added_delays, growth_of, verdicts
from benchmarks.speed.wrong import Wrong


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([7.0], 0.99, 7.0), ([1.0, 2.0, 3.0], 0.5, 2.0), ([1.0, 2.0], 0.5, 1.5), ([0.0, 10.0], 0.99, 9.9)],
)
def test_a_percentile_lies_between_its_neighbours_by_weight(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == pytest.approx(expected)


def test_a_spread_has_the_middle_and_both_ends() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)


@pytest.mark.parametrize(
    ("costs", "linear"),
    [
        ([1, 2, 3, 4, 5], True),
        ([1, 1, 1, 1, 1], True),
        ([5, 5.2, 5.3, 5.6, 5.7], True),
        ([1, 4, 6, 7, 7.5], True),
        ([4.8, 2.6, 3.1, 3.2, 2.7], True),
        ([1, 4, 9, 16, 25], False),
        ([1, 1.1, 1.3, 2, 4], False),
    ],
    ids=["a line", "flat", "nearly flat", "slower than a line", "disturbed", "a square", "a bend"],
)
def test_growth_that_is_worse_than_a_line_is_seen(costs: list[float], linear: bool) -> None:
    growth = Growth.of(list(zip(map(float, range(5)), costs, strict=True)))

    assert growth.is_linear_at_most is linear


def test_growth_has_the_slope_of_the_line_that_fits() -> None:
    growth = Growth.of([(0, 10), (100, 30), (200, 50)])

    assert (growth.base, growth.slope, growth.excess) == pytest.approx((10, 0.2, 0))


@pytest.mark.parametrize(
    ("told", "seconds"), [("0:01.50", 1.5), ("  02:03:04", 7384), ("1-00:00:01", 86_401), ("12:34", 754)]
)
def test_processor_time_is_read_as_ps_tells_it(told: str, seconds: float) -> None:
    assert processes.seconds_of(told) == pytest.approx(seconds)


def test_the_processor_time_of_a_process_is_what_the_process_itself_counts() -> None:
    before = time.process_time()
    seen = processes.cpu_seconds([os.getpid()])
    after = time.process_time()

    assert before <= seen <= after


def test_what_a_process_has_started_counts_too() -> None:
    deep = f"import subprocess, sys; subprocess.run([{sys.executable!r}, '-c', 'print(1, flush=True); input()'])"
    command = [sys.executable, "-c", deep]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own
        assert process.stdout is not None
        process.stdout.readline()
        pids = processes.tree(process.pid)
        used, held = processes.cpu_seconds(pids), processes.memory_kib(pids)
        process.communicate(b"\n")

    assert len(pids) == 2
    assert used > 0
    assert held > 2_000


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system binds no process to a core")
def test_a_core_is_given_back() -> None:
    before = os.sched_getaffinity(0)
    with processes.on_core(min(before)):
        assert os.sched_getaffinity(0) == {min(before)}
    with processes.on_core(None):
        assert os.sched_getaffinity(0) == before

    assert os.sched_getaffinity(0) == before


MESSAGES = [
    {"role": "user", "content": 'I say "role":"tool", "stream":true and "tools":[{'},
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "tool", "content": "sunny"},
]


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "with spaces"])
def test_the_model_server_reads_what_its_answer_depends_on(separators: tuple[str, str]) -> None:
    def read(**body: object) -> Asked:
        return Asked.read(json.dumps(body, separators=separators).encode())

    assert read(messages=MESSAGES[:1]) == Asked(streamed=False, usage=False, tools=False, results=0)
    assert read(
        messages=[*MESSAGES, MESSAGES[0], *MESSAGES[1:], MESSAGES[2]],
        tools=[{}],
        stream=True,
        stream_options={"include_usage": True},
    ) == Asked(streamed=True, usage=True, tools=True, results=2)
    assert read(messages=MESSAGES, tools=[]).tools is False


async def test_the_model_server_asks_for_tools_in_so_many_rounds_where_there_are_any() -> None:
    server = ModelServer(asyncio.get_running_loop())
    server.set(tokens=1, rounds=2, pace=0)

    rounds = [server.round_of(Asked(False, False, tools=True, results=results)) for results in range(4)]

    assert rounds == [0, 1, 2, 2]
    assert server.round_of(Asked(False, False, tools=False, results=0)) == 2


async def test_calls_are_made_in_the_order_in_which_they_are_due_and_not_before() -> None:
    loop = asyncio.get_running_loop()
    pacer, made, done = Pacer(loop), list[tuple[str, bool]](), loop.create_future()
    now = time.monotonic_ns()

    def call(name: str, after: int) -> None:
        pacer.call_at(now + after, lambda: made.append((name, time.monotonic_ns() >= now + after)))

    call("last", 3_000_000)
    call("first", 1_000_000)
    call("second", 1_100_000)
    pacer.call_at(now + 3_100_000, lambda: done.set_result(None))
    await done

    assert made == [("first", True), ("second", True), ("last", True)]


def samples(**medians: float) -> Samples:
    """Samples in which every promise is just kept, but for the gateway's figures that are given."""
    kept: dict[str, dict[str, float]] = {
        "answer-32": {"cpu_ms_per_answer": 0.8, "answers_per_cpu_second": 1250},
        "answer-256": {"answers_per_cpu_second": 1000},
        "burst": {"cpu_us_per_token": 10},
        "paced-5": {"delay_p50_ms": 0.15},
        "paced-20": {"delay_p50_ms": 0.15},
        "first-event": {"first_event_p50_ms": 2},
        "resting": {"idle_mb": 70, "kib_per_stream_without_journal": 90, "start_s": 1},
    }
    others: dict[str, dict[str, dict[str, float]]] = {
        PASSTHROUGH: {"answer-32": {"cpu_ms_per_answer": 0.5}},
        NGINX: {name: {"delay_p50_ms": 0.1} for name in ("paced-5", "paced-20")},
        MODEL_SERVER: {name: {"delay_p50_ms": 0.05} for name in ("paced-5", "paced-20")},
        next(iter(PEERS)): {"answer-32": {"cpu_ms_per_answer": 8}, "burst": {"cpu_us_per_token": 200}},
    }
    ours = {
        scenario: {figure: medians.get(figure, value) for figure, value in values.items()}
        for scenario, values in kept.items()
    }
    return Samples(
        [
            Sample(1, server, scenario, {figure: float(value) for figure, value in values.items()})
            for server, scenarios in {GATEWAY: ours, **others}.items()
            for scenario, values in scenarios.items()
        ]
    )


def test_all_promises_are_kept_where_they_are() -> None:
    assert [one.promise for one in verdicts(samples()) if not one.is_kept] == []


@pytest.mark.parametrize(
    ("figure", "value", "broken"),
    [
        ("cpu_ms_per_answer", 1.1, 3),
        ("cpu_us_per_token", 16, 2),
        ("delay_p50_ms", 0.2, 2),
        ("first_event_p50_ms", 3.1, 1),
        ("idle_mb", 76, 1),
        ("kib_per_stream_without_journal", 101, 1),
        ("start_s", 1.6, 1),
    ],
)
def test_a_promise_that_is_broken_is_seen(figure: str, value: float, broken: int) -> None:
    assert [one.is_kept for one in verdicts(samples(**{figure: value}))].count(False) == broken


def test_what_was_not_measured_is_neither_kept_nor_broken() -> None:
    assert {one.is_kept for one in verdicts(Samples())} == {None}
    assert all(growth_of(Samples(), sweep) is None for sweep in SWEEPS)


def test_the_harness_s_own_delay_can_be_taken_away() -> None:
    assert dict(added_delays(samples())) == pytest.approx({"paced-5": 2, "paced-20": 2})


def test_the_middle_of_the_rounds_counts_and_for_growth_the_least() -> None:
    sweep = SWEEPS[0]
    taken = [
        Sample(round_, GATEWAY, point_name(sweep.name, point.number), {sweep.figure: 1 + point.number + disturbed})
        for point in sweep.points
        for round_, disturbed in enumerate((0.0, 2.0 * point.number, 9.0))
    ]
    found = Samples(taken)

    assert found.median(GATEWAY, point_name(sweep.name, 0), sweep.figure) == 1
    growth = growth_of(found, sweep)
    assert growth is not None
    assert (growth.base, growth.slope) == pytest.approx((1, 1))


def test_the_report_says_all_of_it_for_people_and_for_programs() -> None:
    found = samples(idle_mb=76)

    told = markdown(found)

    assert "| tool loop, 32 connections | ms CPU an answer | 0.8 | 0.5 |" in told
    assert "| memory when idle, MB | at most 75 | 76 | **no** |" in told
    assert "| start to ready, s | at most 1.5 | 1 | yes |" in told
    assert len(json.loads(json.dumps(figures(found)))["samples"]) == len(found.taken)


@pytest.mark.parametrize(
    ("value", "told"), [(0.01234, "0.0123"), (1.0, "1"), (99.96, "100"), (123.4, "123"), (12_345.6, "12,346")]
)
def test_numbers_are_told_with_three_figures_or_whole(value: float, told: str) -> None:
    assert number(value) == told


def test_a_spread_is_told_where_there_is_one() -> None:
    assert [spread(Spread(2, 1, 3)), spread(Spread(2, 2, 2)), spread(None)] == ["2 (1 to 3)", "2", ""]


@pytest.mark.server
@pytest.mark.parametrize("pace", [0, 1000], ids=["burst", "paced"])
@pytest.mark.parametrize("stream", [False, True], ids=["answer", "stream"])
def test_callers_find_the_model_server_s_answers_right_and_count_them(stream: bool, pace: int) -> None:
    scenario = Scenario("probe", "", (), 3, stream=stream, seconds=0, least=2, tokens=5, pace=pace if stream else 0)
    with model_server() as model:
        values = Bench(model, None).measure(model, scenario).values()

    assert values["answers"] == 6
    assert values["cpu_us_per_token"] > 0
    assert values["whole_p50_ms"] >= values["first_token_p50_ms"] >= values["first_byte_p50_ms"] > 0
    assert ("delay_p50_ms" in values) is bool(scenario.pace)


@pytest.mark.server
def test_a_measurement_with_wrong_answers_is_none() -> None:
    with model_server() as model:
        asked_wrongly = replace(model, name="probe", answer=replace(model.answer, check="gateway_answer"))

        with pytest.raises(Wrong, match="probe"):
            Bench(model, None).measure(asked_wrongly, Scenario("", "", (), 1, stream=False, seconds=0))
