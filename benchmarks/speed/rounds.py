"""All measurements: round after round, and in each round server after server, so that all have the same machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack

from benchmarks import processes
from benchmarks.speed.measuring import Bench
from benchmarks.speed.resting import resting
from benchmarks.speed.samples import Sample, Samples, point_name
from benchmarks.speed.scenarios import RESTING, SCENARIOS
from benchmarks.speed.servers import GATEWAY, MODEL_SERVER, Server, Start, model_server, starts
from benchmarks.speed.sweeps import SWEEPS

NAMES = (*(scenario.name for scenario in SCENARIOS), RESTING, *(sweep.name for sweep in SWEEPS))
"""All that can be measured."""


class Rounds:
    """Measures what was chosen, as often as it is told to.

    Args:
        chosen: of `NAMES`.
        peers: frameworks that are measured too.
        tell: is told what goes on.
    """

    def __init__(self, chosen: Collection[str], peers: Sequence[str], tell: Callable[[str], None]) -> None:
        self.samples = Samples()
        self._chosen = chosen
        self._peers = peers
        self._tell = tell
        self._server_core, load_core = processes.cores()
        self._stack = ExitStack()
        with processes.on_core(load_core):
            model = self._stack.enter_context(model_server())
        self._bench = Bench(model, load_core)
        self._servers: dict[str, Server] = {MODEL_SERVER: model}

    def __enter__(self) -> Rounds:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def make(self, number: int) -> None:
        """Measure everything once.

        Raises:
            Wrong: an answer was.
        """
        self._compare(number)
        if RESTING in self._chosen:
            self._tell(f"round {number}: start and memory")
            self._note(number, GATEWAY, RESTING, resting(self._bench, self._server_core))
        self._sweep(number)

    def _compare(self, number: int) -> None:
        known = starts(self._peers)
        for scenario in SCENARIOS:
            mine = [name for name in scenario.servers if name in known or name == MODEL_SERVER]
            if scenario.name in self._chosen:
                for name in random.sample(mine, len(mine)):
                    self._tell(f"round {number}: {scenario.title}: {name}")
                    server = self._started(name, known.get(name))
                    self._note(number, name, scenario.name, self._bench.measure(server, scenario).values())

    def _sweep(self, number: int) -> None:
        for sweep in SWEEPS:
            if sweep.name in self._chosen:
                self._tell(f"round {number}: {sweep.title}")
                points = random.sample(sweep.points, len(sweep.points))
                for point in (*points, *reversed(points)):  # what the machine does meanwhile falls on all alike
                    server = self._started(point.key, point.start)
                    bodies = point.bodies(server, self._bench) if point.bodies else ()
                    values = self._bench.measure(server, point.scenario, bodies).values()
                    self._note(number, GATEWAY, point_name(sweep.name, point.number), values)

    def _started(self, key: str, start: Start | None) -> Server:
        """The server of a key, which is started once and stays."""
        if key not in self._servers and start is not None:
            with processes.on_core(self._server_core):
                self._servers[key] = self._stack.enter_context(start(self._bench.model.port))
        return self._servers[key]

    def _note(self, number: int, server: str, scenario: str, values: dict[str, float]) -> None:
        self.samples.taken.append(Sample(number, server, scenario, values))
