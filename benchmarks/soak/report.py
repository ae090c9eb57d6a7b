"""What the soak has found: figures, a table, and a verdict."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.soak.cuts import CutOff
from benchmarks.soak.processes import KEEP, Census
from benchmarks.soak.streams import FLAT, Held, shortened

COUNTS = ("tasks", "sockets", "threads", "runs", "journals", "objects", "memory")
OBJECTS_A_CUT = 0.1
"""Objects that may be left for each caller who hung up: a single leaked one is more."""
MEMORY = 32.0
"""Megabytes that the process may have grown by at rest: allocators give back what they like."""


@dataclass(slots=True)
class Report:
    """Everything that was seen.

    Attributes:
        arguments: of the soak.
        before: the gateway at rest, warmed up.
        held: the open streams.
        after_streams: the gateway at rest after them.
        cut_off: the callers who hung up.
        after_cuts: the gateway at rest after them.
        problems: what else was wrong.
    """

    arguments: dict[str, Any]
    before: Census
    held: Held | None = None
    after_streams: Census | None = None
    cut_off: CutOff | None = None
    after_cuts: Census | None = None
    problems: list[str] = field(default_factory=list)

    def failures(self) -> list[str]:
        """Why the soak has failed; nothing where it has not."""
        found = shortened(self.problems)
        if self.held is not None:
            found += self.held.failures()
            found += self._left(self.after_streams, "the streams", self.held.whole)
        if self.cut_off is not None:
            found += shortened(self.cut_off.wrong)
            found += self._left(self.after_cuts, "the cuts", self.cut_off.cuts.total())
        return found

    def _left(self, after: Census | None, what: str, number: int) -> list[str]:
        if after is None:
            return []
        more = after.more_than(self.before, objects=number * OBJECTS_A_CUT, memory=MEMORY)
        return [f"after {what} there are {one}" for one in more]

    def figures(self) -> dict[str, Any]:
        """All of it, for programs."""
        censuses = {"before": self.before, "after the streams": self.after_streams, "after the cuts": self.after_cuts}
        return {
            "arguments": {name: value for name, value in self.arguments.items() if name != "json"},
            "failures": self.failures(),
            "streams": None if self.held is None else _held_figures(self.held, self.before),
            "cuts": None
            if self.cut_off is None
            else {
                "seconds": self.cut_off.seconds,
                "cuts": self.cut_off.cuts,
                "ends": self.cut_off.ends,
                "wrong": len(self.cut_off.wrong),
            },
            "at_rest": {
                name: {one: getattr(census, one) for one in COUNTS} for name, census in censuses.items() if census
            },
            "grown_at_rest": {
                name: (census.kinds - self.before.kinds).most_common(20) for name, census in censuses.items() if census
            },
        }

    def markdown(self) -> str:
        """The same in short, for people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.held is not None:
            yield from _held_lines(_held_figures(self.held, self.before))
        if self.cut_off is not None:
            yield ""
            yield f"{self.cut_off.cuts.total():,} cuts in {self.cut_off.seconds:.0f} s"
            yield ""
            yield from _table(("what callers did", "times"), [*self.cut_off.cuts.items(), *self.cut_off.ends.items()])
        yield ""
        yield from self._counts()
        yield ""
        yield from self.failures() or ["Nothing is wrong."]

    def _counts(self) -> Iterator[str]:
        columns = {"before": self.before, "after the streams": self.after_streams, "after the cuts": self.after_cuts}
        seen = {name: census for name, census in columns.items() if census is not None}
        rows = [(one, *(f"{getattr(census, one):.0f}" for census in seen.values())) for one in COUNTS]
        yield from _table(("at rest", *seen), rows)


def _held_figures(held: Held, before: Census) -> dict[str, Any]:
    by_minute = [held.samples[-1]]
    minutes = int(held.minutes)
    by_minute = [
        next((one for one in held.samples if one.at >= at * 60), held.samples[-1]) for at in range(1, minutes + 1)
    ]
    steady = statistics.fmean(sample.memory for sample in held.counted)
    return {
        "whole": held.whole,
        "wrong": len(held.wrong),
        "kept": KEEP,
        "open": [held.fewest, max(sample.open for sample in held.counted)],
        "memory_by_minute": [round(sample.memory, 1) for sample in by_minute],
        "memory_slope": held.slope,
        "memory_slope_allowed": FLAT,
        "bytes_a_stream": round((steady - before.memory) * 2**20 / held.streams),
        "held_by_minute": held.held,
        "cpu": held.cpu,
        "delay": _percentiles(held.delays),
        "callers_lag": _percentiles(held.lags),
        "grown": held.grown,
    }


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=1000)
    return {"p50": cuts[499], "p99": cuts[989], "p99.9": cuts[998], "most": max(seconds)}


def _held_lines(figures: dict[str, Any]) -> Iterator[str]:
    delay, lag = figures["delay"], figures["callers_lag"]
    yield from _table(
        ("open streams", ""),
        [
            ("open at once", " to ".join(map(str, figures["open"]))),
            ("read whole", figures["whole"]),
            ("memory by the minute, MB", " ".join(map(str, figures["memory_by_minute"]))),
            ("memory's slope, MB a minute", f"{figures['memory_slope']:+.2f}"),
            ("bytes a stream, with the runs that are kept", f"{figures['bytes_a_stream']:,}"),
            ("CPU", ", ".join(f"{name} {share:.0%}" for name, share in figures["cpu"].items())),
            ("delay of a word, ms", f"p50 {delay['p50'] * 1e3:.1f}, p99 {delay['p99'] * 1e3:.1f}"),
            ("of it the callers' own, ms", f"p50 {lag['p50'] * 1e3:.1f}, p99 {lag['p99'] * 1e3:.1f}"),
        ],
    )
    yield ""
    rows = [(number, *one.values()) for number, one in enumerate(figures["held_by_minute"], 1)]
    yield from _table(("minute", *figures["held_by_minute"][0]), rows)
    yield ""
    yield from _table(("more than after the warm-up", "objects"), list(figures["grown"].items()))


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"
