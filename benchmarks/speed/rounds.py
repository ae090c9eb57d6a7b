"""All measurements: round after round, and in each round server after server, so that all have the same machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.speed import processes
from benchmarks.speed.figures import Spread
from benchmarks.speed.measuring import Bench
from benchmarks.speed.resting import resting
from benchmarks.speed.scenarios import SCENARIOS
from benchmarks.speed.servers import GATEWAY, MODEL_SERVER, Server, model_server, starts

RESTING = "resting"
"""What is measured of a gateway that does little; see `resting`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one measurement has found: figures by name."""

    round: int
    server: str
    scenario: str
    values: dict[str, float]


@dataclass(slots=True)
class Samples:
    """All of them."""

    taken: list[Sample] = field(default_factory=list)

    def spread(self, server: str, scenario: str, name: str) -> Spread | None:
        """A figure over the rounds; None where it was not measured."""
        values = [
            one.values[name]
            for one in self.taken
            if (one.server, one.scenario) == (server, scenario) and name in one.values
        ]
        return Spread.of(values) if values else None

    def median(self, server: str, scenario: str, name: str) -> float | None:
        """The middle of a figure over the rounds; None where it was not measured."""
        spread = self.spread(server, scenario, name)
        return spread.median if spread else None


def measured(rounds: int, chosen: Collection[str], peers: Sequence[str], tell: Callable[[str], None]) -> Samples:
    """Measure.

    Args:
        rounds: how often.
        chosen: names of scenarios.
        peers: those that are measured too.
        tell: is told what goes on.
    """
    samples = Samples()
    server_core, load_core = processes.cores()
    with ExitStack() as stack:
        with processes.on_core(load_core):
            model = stack.enter_context(model_server())
        servers: dict[str, Server] = {MODEL_SERVER: model}
        with processes.on_core(server_core):
            for name, start in starts(peers).items():
                tell(f"starting {name}")
                servers[name] = stack.enter_context(start(model.port))
        bench = Bench(model, load_core)
        for number in range(rounds):
            for scenario in SCENARIOS:
                if scenario.name not in chosen:
                    continue
                mine = [name for name in scenario.servers if name in servers]
                for name in random.sample(mine, len(mine)):
                    tell(f"round {number + 1}: {scenario.title}: {name}")
                    values = bench.measure(servers[name], scenario).values()
                    samples.taken.append(Sample(number, name, scenario.name, values))
            if RESTING in chosen:
                tell(f"round {number + 1}: start and memory")
                samples.taken.append(Sample(number, GATEWAY, RESTING, resting(bench, server_core)))
    return samples
