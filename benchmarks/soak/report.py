"""What the soak has found: a verdict, figures for programs, and tables for people."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.soak.cuts import CutOff
from benchmarks.soak.processes import COUNTS, KEEP, Census
from benchmarks.soak.streams import FLAT, Held

OBJECTS_A_RUN = 0.1
"""Objects that may be left for each run: a single leaked one is more."""
MEMORY = 16.0
"""Megabytes that the cuts may leave behind, over what the process had at rest before them. Allocators do not give back
all they ever had, so what the open streams took at most is no leak."""
_TOLD = 10
"""Lines of each list of what is wrong."""


@dataclass(slots=True)
class Report:
    """Everything that was seen.

    Attributes:
        before: the gateway at rest, warmed up.
        held: the open streams.
        after_streams: the gateway at rest after them.
        cut_off: the callers who hung up.
        after_cuts: the gateway at rest after them.
        wrong: what was wrong with the gateway's log, and while it was warmed up.
    """

    before: Census
    held: Held | None = None
    after_streams: Census | None = None
    cut_off: CutOff | None = None
    after_cuts: Census | None = None
    wrong: list[str] = field(default_factory=list)

    @property
    def rests(self) -> dict[str, Census]:
        """The gateway at rest, in the order it was seen."""
        seen = {"before": self.before, "after the streams": self.after_streams, "after the cuts": self.after_cuts}
        return {name: census for name, census in seen.items() if census is not None}

    def failures(self) -> list[str]:
        """Why the soak has failed; nothing where it has not."""
        found = list(_shortened(self.wrong))
        if self.held is not None:
            found += [*_shortened(self.held.wrong), *self.held.failures()]
            found += self._left("after the streams", self.held.whole, memory=float("inf"))
        if self.cut_off is not None:
            had = max(census.memory for name, census in self.rests.items() if name != "after the cuts")
            found += _shortened(self.cut_off.wrong)
            found += self._left("after the cuts", self.cut_off.ends.total(), memory=had + MEMORY - self.before.memory)
        return found

    def _left(self, when: str, runs: int, memory: float) -> list[str]:
        after = self.rests.get(when)
        more = [] if after is None else after.more_than(self.before, objects=runs * OBJECTS_A_RUN, memory=memory)
        return [f"LEFT OVER: {one} {when}" for one in more]

    def figures(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "failures": self.failures(),
            "kept": KEEP,
            "streams": self.held and _held_figures(self.held, self.before),
            "cuts": self.cut_off and _cut_figures(self.cut_off),
            "at_rest": {
                name: {
                    **{one: getattr(census, one) for one in COUNTS},
                    "grown": dict((census.kinds - self.before.kinds).most_common(12)),
                }
                for name, census in self.rests.items()
            },
        }

    def markdown(self) -> str:
        """The same in short, for people."""
        parts: list[Iterable[str]] = []
        figures = self.figures()
        if figures["streams"]:
            parts += _held_tables(figures["streams"])
        if figures["cuts"]:
            parts += _cut_tables(figures["cuts"])
        counts = [(one, *(f"{getattr(census, one):,.0f}" for census in self.rests.values())) for one in COUNTS]
        parts += [_table(("at rest", *self.rests), counts), figures["failures"] or ["Nothing is wrong."]]
        return "\n\n".join("\n".join(part) for part in parts)


def _held_figures(held: Held, before: Census) -> dict[str, Any]:
    minutes = range(1, int(held.minutes) + 1)
    last = held.samples[-1]
    return {
        "open": [held.fewest, max(sample.open for sample in held.counted)],
        "whole": held.whole,
        "wrong": len(held.wrong),
        "memory": [next((one for one in held.samples if one.at >= 60 * at), last).memory for at in minutes],
        "memory_slope": held.slope,
        "memory_slope_allowed": FLAT,
        "bytes_a_stream": (statistics.fmean(one.memory for one in held.counted) - before.memory) * 2**20 / held.streams,
        "cpu": held.cpu,
        "delay": _percentiles(held.delays),
        "callers_lag": _percentiles(held.lags),
        "held": held.held,
        "grown": held.grown,
    }


def _cut_figures(cut_off: CutOff) -> dict[str, Any]:
    return {
        "seconds": cut_off.seconds,
        "cuts": dict(cut_off.cuts),
        "ends": dict(cut_off.ends),
        "wrong": len(cut_off.wrong),
        "model_calls_left": cut_off.model_calls,
        "memory": cut_off.memory,
    }


def _held_tables(figures: Mapping[str, Any]) -> Iterator[Iterator[str]]:
    delay, lag = figures["delay"], figures["callers_lag"]
    yield _table(
        ("open streams", ""),
        [
            ("open at once", " to ".join(map(str, figures["open"]))),
            ("read whole", f"{figures['whole']:,}"),
            ("memory by the minute, MB", _numbers(figures["memory"])),
            ("its slope after the warm-up, MB a minute", f"{figures['memory_slope']:+.2f}"),
            ("bytes a stream, kept runs included", f"{figures['bytes_a_stream']:,.0f}"),
            ("CPU", ", ".join(f"{name} {share:.0%}" for name, share in figures["cpu"].items())),
            ("delay of a word, ms", f"p50 {delay['p50'] * 1e3:.1f}, p99 {delay['p99'] * 1e3:.1f}"),
            ("lag of the callers' loop, ms", f"p50 {lag['p50'] * 1e3:.1f}, p99 {lag['p99'] * 1e3:.1f}"),
        ],
    )
    rows = [(number, *one.values()) for number, one in enumerate(figures["held"], 1)]
    yield _table(("minute", *figures["held"][0]), rows)
    yield _table(("more than after the warm-up", "objects"), list(figures["grown"].items()))


def _cut_tables(figures: Mapping[str, Any]) -> Iterator[Iterator[str]]:
    yield _table(
        ("cuts", ""),
        [
            *((f"hung up {point}", f"{number:,}") for point, number in figures["cuts"].items()),
            *((f"meant to {end}", f"{number:,}") for end, number in figures["ends"].items()),
            ("model calls that the gateway left", f"{figures['model_calls_left']:,}"),
            ("memory by the tenth, MB", _numbers(figures["memory"])),
            ("seconds", f"{figures['seconds']:.0f}"),
        ],
    )


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=1000)
    return {"p50": cuts[499], "p99": cuts[989], "p99.9": cuts[998], "most": max(seconds)}


def _numbers(given: Sequence[float]) -> str:
    return ", ".join(f"{one:.1f}" for one in given)


def _shortened(told: Sequence[str]) -> Iterator[str]:
    yield from (f"WRONG: {one[:300]}" for one in told[:_TOLD])
    if len(told) > _TOLD:
        yield f"WRONG: and {len(told) - _TOLD} more"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"
