"""What is computed from many measurements: percentiles, the middle and the spread, slopes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

ALLOWED_EXCESS = 0.15
"""How much more than by a straight line the last point may cost, as a share of its cost: so uncertain is measuring."""


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share (0 to 1) of the values lies, between two of them by weight.

    Args:
        ordered: the values, the smallest first; one at least.
        share: 0.5 is the median.
    """
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one thing: the median, the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of one value at least."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Growth:
    """How a cost grows with a number.

    Attributes:
        base: the cost at none, by the line that fits best.
        slope: what each one more costs, by the same line.
        excess: what the last point costs more than by the line through the nearer half, as a share of its cost.
    """

    base: float
    slope: float
    excess: float

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]]) -> Growth:
        """By points of number and cost, in the order of the numbers; three at least."""
        fitted = _line(points)
        slope, base = _line(nearer := points[: (len(points) + 1) // 2])
        if slope < 0:  # nothing is cheaper for being more: what was measured there was disturbed
            slope, base = 0.0, statistics.fmean(cost for _, cost in nearer)
        last, cost = points[-1]
        return cls(fitted[1], fitted[0], (cost - (slope * last + base)) / cost)

    @property
    def is_linear_at_most(self) -> bool:
        """Whether it grows no worse than by a straight line, as far as that can be told."""
        return self.excess <= ALLOWED_EXCESS


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    line = statistics.linear_regression([number for number, _ in points], [cost for _, cost in points])
    return line.slope, line.intercept
