"""What the gateway promises of its speed, and whether a run has found it so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.speed.figures import Growth
from benchmarks.speed.samples import Samples, point_name
from benchmarks.speed.scenarios import RESTING
from benchmarks.speed.servers import GATEWAY, MODEL_SERVER, NGINX, PASSTHROUGH, PEERS
from benchmarks.speed.sweeps import SWEEPS, Sweep

_ANSWER, _TOKEN = "cpu_ms_per_answer", "cpu_us_per_token"
_DELAY = "delay_p50_ms"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A promise, and what was measured.

    Attributes:
        promise: what is promised, with its unit.
        limit: the number in it.
        at_most: whether the number is the most that may be; or else the least.
        value: what was measured; None where it was not.
    """

    promise: str
    limit: float
    at_most: bool
    value: float | None

    @property
    def is_kept(self) -> bool | None:
        """Whether the promise is kept; None where that was not measured."""
        if self.value is None:
            return None
        return self.value <= self.limit if self.at_most else self.value >= self.limit


def verdicts(samples: Samples) -> list[Verdict]:
    """All promises but those of growth; see `growth_of`."""

    def ours(scenario: str, figure: str) -> float | None:
        return samples.median(GATEWAY, scenario, figure)

    def times(others: Sequence[str], scenario: str, figure: str) -> float | None:
        return _ratio(samples.least_median(others, scenario, figure), ours(scenario, figure))

    def delays(scenario: str) -> float | None:
        return _ratio(ours(scenario, _DELAY), samples.median(NGINX, scenario, _DELAY))

    peers = tuple(PEERS)
    return [
        Verdict("tool loop, ms CPU", 1.0, True, ours("answer-32", _ANSWER)),
        Verdict("tool loop, times cheaper than the cheapest framework", 8, False, times(peers, "answer-32", _ANSWER)),
        Verdict(
            "tool loop of two calls, times the CPU of one call passed through by FastAPI + aiohttp",
            1.6,
            True,
            _ratio(ours("answer-32", _ANSWER), samples.median(PASSTHROUGH, "answer-32", _ANSWER)),
        ),
        Verdict(
            "answers a CPU second at 256 connections, as a share of those at 32",
            0.75,
            False,
            _ratio(ours("answer-256", "answers_per_cpu_second"), ours("answer-32", "answers_per_cpu_second")),
        ),
        Verdict("stream in a burst, µs CPU a token", 15, True, ours("burst", _TOKEN)),
        Verdict("stream, times cheaper than the cheapest framework", 14, False, times(peers, "burst", _TOKEN)),
        Verdict("5 paced streams, delay at p50, times nginx's (2 at the very most)", 1.5, True, delays("paced-5")),
        Verdict("20 paced streams, delay at p50, times nginx's (2 at the very most)", 1.5, True, delays("paced-20")),
        Verdict("first event of an idle gateway, ms at p50", 3, True, ours("first-event", "first_event_p50_ms")),
        Verdict("memory when idle, MB", 75, True, ours(RESTING, "idle_mb")),
        Verdict(
            "memory of each of 1,000 open streams, journal apart, KiB",
            100,
            True,
            ours(RESTING, "kib_per_stream_without_journal"),
        ),
        Verdict("start to ready, s", 1.5, True, ours(RESTING, "start_s")),
    ]


def added_delays(samples: Samples) -> Iterator[tuple[str, float]]:
    """Delays without what the model server and the callers take among themselves, by scenario: times nginx's."""
    for scenario in ("paced-5", "paced-20"):
        found = [samples.median(server, scenario, _DELAY) for server in (GATEWAY, NGINX, MODEL_SERVER)]
        gateway, nginx, alone = found
        if gateway is not None and nginx is not None and alone is not None and nginx > alone:
            yield scenario, (gateway - alone) / (nginx - alone)


def growth_of(samples: Samples, sweep: Sweep) -> Growth | None:
    """How a sweep's figure grows; None where not all of its points were measured.

    Of each point the least counts: whatever disturbs a measurement adds to it.
    """
    found = [
        (float(point.number), samples.least(GATEWAY, point_name(sweep.name, point.number), sweep.figure))
        for point in sweep.points
    ]
    points = [(number, cost) for number, cost in found if cost is not None]
    return Growth.of(points) if len(points) == len(found) else None


def all_growth(samples: Samples) -> Iterator[tuple[Sweep, Growth]]:
    """The sweeps that were measured, and how their figures grow."""
    for sweep in SWEEPS:
        growth = growth_of(samples, sweep)
        if growth is not None:
            yield sweep, growth


def _ratio(value: float | None, other: float | None) -> float | None:
    return None if value is None or not other else value / other
