"""What was found, measurement by measurement."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from benchmarks.speed.figures import Spread


@dataclass(frozen=True, slots=True)
class Sample:
    """What one measurement has found: figures by name, with their units in it."""

    round: int
    server: str
    scenario: str
    values: dict[str, float]


@dataclass(slots=True)
class Samples:
    """All of them."""

    taken: list[Sample] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """How many there were."""
        return len({one.round for one in self.taken})

    def spread(self, server: str, scenario: str, figure: str) -> Spread | None:
        """A figure over the rounds; None where it was not measured."""
        values = [
            one.values[figure]
            for one in self.taken
            if (one.server, one.scenario) == (server, scenario) and figure in one.values
        ]
        return Spread.of(values) if values else None

    def median(self, server: str, scenario: str, figure: str) -> float | None:
        """The middle of a figure over the rounds; None where it was not measured."""
        spread = self.spread(server, scenario, figure)
        return spread.median if spread else None

    def least(self, server: str, scenario: str, figure: str) -> float | None:
        """The least of a figure over the rounds; None where it was not measured."""
        spread = self.spread(server, scenario, figure)
        return spread.least if spread else None

    def least_median(self, servers: Collection[str], scenario: str, figure: str) -> float | None:
        """The middle of a figure at the server where it is least; None where it was not measured."""
        medians = [self.median(server, scenario, figure) for server in servers]
        return min((one for one in medians if one is not None), default=None)


def point_name(sweep: str, number: int) -> str:
    """The scenario of one point of a sweep, in samples."""
    return f"{sweep}={number}"
