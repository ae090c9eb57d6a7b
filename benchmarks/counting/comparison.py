"""What was counted beside the baseline: which figures grew, and by which functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.counting.calls import Calls, folded

ALLOWED = 0.1
"""The part by which a figure may grow."""
_SLIGHT = 0.05
"""Calls that are none: by so many a figure may grow whatever it was, even if it was 0."""
_HARDLY = 0.01
"""The part of what was added of which a function makes so little that it explains nothing."""
_SHOWN = 15
"""Rows of a table of functions."""
_WITHIN = 3
"""Functions that are named of a file of others."""


class Row(NamedTuple):
    """A function of ours, or a file of others with the functions in it that are called most now."""

    name: str
    before: float
    now: float

    @property
    def more(self) -> float:
        """How many calls were added."""
        return self.now - self.before


@dataclass(frozen=True, slots=True)
class Change:
    """A figure then and now.

    Attributes:
        figure: its name.
        before: in the baseline, folded.
        now: as it was counted.
    """

    figure: str
    before: Calls
    now: Calls

    @property
    def more(self) -> float:
        """How many calls were added."""
        return self.now.total - self.before.total

    @property
    def part(self) -> float:
        """By which part it grew; negative where it fell."""
        return self.more / self.before.total if self.before.total else float(self.more > 0)

    @property
    def is_growth(self) -> bool:
        """Whether that is too much."""
        return self.now.total > self.before.total * (1 + ALLOWED) + _SLIGHT

    @property
    def is_fall(self) -> bool:
        """Whether it fell by so much that it could grow back unseen."""
        return self.now.total < self.before.total * (1 - ALLOWED) - _SLIGHT

    def most_grown(self) -> Sequence[Row]:
        """The functions of which most calls were added, those first, and none of which hardly any were."""
        within = _within(self.now)
        after = self.now.folded()
        names = dict.fromkeys((*after.by_function, *self.before.by_function))
        rows = [Row(f"{name}{within.get(name, '')}", self.before.of(name), after.of(name)) for name in names]
        return sorted(
            (row for row in rows if row.more > max(0, self.more) * _HARDLY), key=lambda row: (-row.more, row.name)
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """All figures then and now.

    Attributes:
        before: the baseline; None = there is none.
        now: as they were counted.
    """

    before: Mapping[str, Calls] | None
    now: Mapping[str, Calls]

    @property
    def changes(self) -> list[Change]:
        """Of the figures that the baseline has."""
        known = self.before or {}
        return [Change(figure, known[figure], calls) for figure, calls in self.now.items() if figure in known]

    @property
    def unknown(self) -> list[str]:
        """Figures that the baseline does not have."""
        return [figure for figure in self.now if figure not in (self.before or {})]

    @property
    def is_passed(self) -> bool:
        """Whether all figures were compared, and none has grown too much."""
        return not self.unknown and not any(change.is_growth for change in self.changes)

    def table(self) -> Iterator[str]:
        """The figures."""
        rows = {
            change.figure: (_told(change.before.total), _told(change.now.total), _percent(change.part), _mark(change))
            for change in self.changes
        }
        rows |= {figure: ("", _told(self.now[figure].total), "", "NOT CHECKED") for figure in self.unknown}
        yield from _table(("calls of", "baseline", "now", "", ""), [(figure, *rows[figure]) for figure in self.now])

    def growth(self) -> Iterator[str]:
        """Where each figure has grown that has grown too much."""
        for change in self.changes:
            if change.is_growth:
                yield ""
                yield f"{change.figure}: {_told(change.more)} calls more, {_percent(change.part)}. Most were added to:"
                yield ""
                shown = change.most_grown()[:_SHOWN]
                yield from _table(
                    ("more", "baseline", "now", "function, or others' file"),
                    [(f"+{_told(row.more)}", _told(row.before), _told(row.now), row.name) for row in shown],
                )


def _within(calls: Calls) -> Mapping[str, str]:
    """For each file of others the functions that are called most."""
    files: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for name, number in calls.by_function.items():
        if folded(name) != name:
            files[folded(name)].append((-number, name.partition(" ")[2]))
    return {
        file: f" ({', '.join(function for _, function in sorted(functions)[:_WITHIN])})"
        for file, functions in files.items()
    }


def _mark(change: Change) -> str:
    if change.is_growth:
        return "GROWN"
    return "fallen" if change.is_fall else ""


def _percent(part: float) -> str:
    return f"{round(part, 3) + 0.0:+.1%}"  # adding zero takes the sign from it


def _told(number: float) -> str:
    return f"{number:,.2f}".removesuffix(".00")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    yield _line(head, widths)
    yield _line(["-" * width for width in widths], widths)
    for row in rows:
        yield _line(row, widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))} |"
