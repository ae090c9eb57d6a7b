"""One measurement: a load is put on a server, and what that took is read from the operating system."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from typing import Any

from benchmarks import processes
from benchmarks.speed.loading import loading
from benchmarks.speed.scenarios import Scenario
from benchmarks.speed.seen import Figures, Order
from benchmarks.speed.servers import QUESTION, Server
from benchmarks.speed.wrong import Wrong

_WARM_UP = 0.4
"""Seconds for which a server is asked before it is measured for the first time."""
_CONVERSATIONS = 64
"""Conversations that each connection takes in turn."""
_MARKS = ("whole", "first_byte", "first_event", "first_token", "delay")


@dataclass(frozen=True, slots=True)
class Measured:
    """What one measurement has found.

    Attributes:
        figures: what the callers saw.
        cpu: seconds of processor time of the server, with all it has started.
        model_cpu: of the model server.
        load_cpu: of the callers.
    """

    figures: Figures
    cpu: float
    model_cpu: float
    load_cpu: float

    def values(self) -> dict[str, float]:
        """The figures by name, with their units in it."""
        figures, cpu = self.figures, self.cpu
        found = {
            "answers": float(figures.answers),
            "cpu_ms_per_answer": cpu * 1e3 / figures.answers,
            "cpu_us_per_token": cpu * 1e6 / figures.tokens,
            "answers_per_cpu_second": figures.answers / cpu,
            "answers_per_second": figures.answers / figures.seconds,
            "tokens_per_second": figures.tokens / figures.seconds,
            "cpu_share": cpu / figures.seconds,
            "model_server_cpu_share": self.model_cpu / figures.seconds,
            "load_cpu_share": self.load_cpu / figures.seconds,
        }
        for mark in _MARKS:
            found |= {f"{mark}_{share}_ms": value for share, value in getattr(figures, mark).items()}
        return found


class Bench:
    """Puts load on servers.

    Args:
        model: the model server.
        load_core: where the load comes from; None = anywhere.
    """

    def __init__(self, model: Server, load_core: int | None) -> None:
        self.model = model
        self.load_core = load_core
        self._warm: set[tuple[int, bool, bool]] = set()

    def measure(self, server: Server, scenario: Scenario, bodies: Sequence[str] = ()) -> Measured:
        """Measure a server, which is warmed up before if it was not.

        Args:
            server: what is measured.
            scenario: how it is asked.
            bodies: what is asked, in place of the usual question.

        Raises:
            Wrong: an answer was.
        """
        way = server.process.pid, scenario.stream, scenario.remembered  # what it takes is loaded when it is first gone
        if way not in self._warm:
            self._warm.add(way)
            self._taken(server, replace(scenario, pace=0, pause=0, seconds=_WARM_UP, connections=8), ())
        return self._taken(server, scenario, bodies)

    def set_model(self, scenario: Scenario) -> None:
        """Tell the model server how to answer."""
        given = f"tokens={scenario.tokens}&rounds={scenario.rounds}&pace={scenario.pace}"
        asked(self.model.port, f"/settings?{given}")

    def _taken(self, server: Server, scenario: Scenario, bodies: Sequence[str]) -> Measured:
        self.set_model(scenario)
        with loading(order_of(server, scenario, bodies), self.load_core) as load:
            watched = processes.tree(server.process.pid), [self.model.process.pid], [load.pid]
            before = [processes.cpu_seconds(pids) for pids in watched]
            load.begin()
            load.wait()
            after = [processes.cpu_seconds(pids) for pids in watched]
            try:
                figures = load.figures()
            except Wrong as error:
                raise Wrong(f"{server.name}, {scenario.name}: {error}") from error
        return Measured(figures, *(now - then for then, now in zip(before, after, strict=True)))


def order_of(server: Server, scenario: Scenario, bodies: Sequence[str] = ()) -> Order:
    """What a scenario asks of a server."""
    door = server.stream if scenario.stream else server.answer
    if scenario.remembered:
        bodies = _conversations(scenario.connections * _CONVERSATIONS)
    return Order(
        port=server.port,
        path=door.path,
        bodies=tuple(bodies or (door.body,)),
        check=door.check,
        tokens=scenario.tokens,
        rounds=scenario.rounds if server.runs_tools else 0,
        paced=bool(scenario.pace),
        connections=scenario.connections,
        seconds=scenario.seconds,
        least=scenario.least,
        before=0 if scenario.pace or bodies else 1,
        pause=scenario.pause,
        ramp=scenario.ramp,
    )


def asked(port: int, target: str, body: object = None) -> Any:
    """What a server answers to a GET, or to a POST of a body, as JSON.

    Raises:
        Wrong: by no success.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        if body is None:
            connection.request("GET", target)
        else:
            connection.request("POST", target, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        told = response.read()
    finally:
        connection.close()
    if response.status >= 300:  # noqa: PLR2004 - HTTP
        raise Wrong(f"{target} was answered by {response.status}: {told!r}")
    return json.loads(told)


def _conversations(count: int) -> list[str]:
    """Questions in conversations that were not there before."""
    batch = secrets.token_hex(4)
    return [json.dumps({**QUESTION, "conversation_id": f"{batch}-{number}"}) for number in range(count)]
