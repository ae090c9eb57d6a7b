"""The two processes, and what they hold and use, seen from outside."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.processes import memory_kib
from benchmarks.soak.caller import asked
from tests.support.gateway_process import GatewayProcess, LoggedProcess, free_port, running_gateway

KEEP = 10.0
"""Seconds for which ended runs are kept in the soak. Ten minutes is the default, and memory would grow for as long."""
REST = 150.0
"""Seconds after which the gateway must be at rest. Runs are kept for ten, threads for tools for thirty, and for 75 what
uvicorn holds of a connection that was reset while it was idle."""
COUNTS = ("tasks", "sockets", "threads", "runs", "journals", "model_calls", "objects", "memory")


@dataclass(frozen=True, slots=True)
class Census:
    """What the gateway's process holds.

    Attributes:
        runs: those in memory, whoever holds them; as with journals.
        memory: megabytes that are resident.
        model_calls: answers that the model server is writing.
        kinds: objects by type.
    """

    tasks: int
    sockets: int
    threads: int
    runs: int
    journals: int
    objects: int
    memory: float
    model_calls: int
    kinds: Counter[str] = field(repr=False)

    def more_than(self, before: Census, *, objects: float, memory: float) -> list[str]:
        """What there is more of than before, of objects and megabytes of memory more than so many."""
        allowed = {"objects": objects, "memory": memory}
        grown = {name: getattr(self, name) - getattr(before, name) for name in COUNTS}
        return [f"{more:.0f} more {name}" for name, more in grown.items() if more > allowed.get(name, 0)]


class Soaked:
    """A gateway that is soaked, and the model server behind it."""

    def __init__(self, gateway: GatewayProcess, model: LoggedProcess, model_port: int) -> None:
        self.gateway = gateway
        self.model = model
        self._model_port = model_port
        self.port = int(gateway.url.rpartition(":")[2])

    @property
    def memory(self) -> float:
        """Megabytes of the gateway's process that are resident."""
        return memory_kib([self.gateway.pid]) / 1024

    async def held(self) -> dict[str, int]:
        """Tasks, sockets and threads, and the longest pause to collect garbage; cheap enough for while it works."""
        counted: dict[str, int] = await self._count(collect=False, kinds=False)
        return counted

    async def census(self, *, collect: bool = True) -> Census:
        """Count everything there is, after the garbage was collected, if it is to be."""
        counted = await self._count(collect=collect, kinds=True)
        kinds: Counter[str] = Counter(counted["kinds"])
        return Census(
            tasks=counted["tasks"],
            sockets=counted["sockets"],
            threads=counted["threads"],
            runs=kinds["app.runs.local_run.LocalRun"],
            journals=kinds["app.runs.in_memory_journal.InMemoryJournal"],
            objects=counted["objects"],
            memory=self.memory,
            model_calls=(await self.model_calls())["answering"],
            kinds=kinds,
        )

    async def model_calls(self) -> dict[str, int]:
        """How many answers the model server is writing, and how many were left by the gateway."""
        counted: dict[str, int] = await asked(self._model_port, "GET", "/")
        return counted

    async def warmed_up(self, fresh: Census) -> Census:
        """The census once the first runs are forgotten. Some tasks that they began stay.

        Args:
            fresh: what there was before.
        """
        return await self._census_when(
            lambda now, last: not now.runs and now.threads <= fresh.threads and now.objects == last.objects
        )

    async def at_rest(self, before: Census, *, objects: float) -> Census:
        """The census once nothing is more than before.

        Args:
            before: what there was; of memory there may be more.
            objects: how many more there may be.
        """
        return await self._census_when(lambda now, _: not now.more_than(before, objects=objects, memory=float("inf")))

    async def _census_when(self, is_at_rest: Callable[[Census, Census], bool]) -> Census:
        """The census once it is as it must be, given the one before, or when the gateway had all the time it needs."""
        deadline = time.monotonic() + REST
        last, now = None, await self.census()
        while time.monotonic() < deadline and (last is None or not is_at_rest(now, last)):
            await asyncio.sleep(1)
            last, now = now, await self.census()
        return now

    def complaints(self) -> list[str]:
        """Lines of the gateway's log that are worse than a note."""
        marks = (" WARNING ", " ERROR ", " CRITICAL ", "Traceback")
        return [line for line in self.gateway.log.splitlines() if any(mark in line for mark in marks)]

    async def _count(self, **arguments: bool) -> dict[str, Any]:
        call = {"id": "census", "name": "census", "arguments": json.dumps(arguments)}
        body = {"messages": [{"role": "assistant", "tool_calls": [call]}], "tools": ["census"]}
        answer = await asked(self.port, "POST", "/tool-calls", body)
        counted: dict[str, Any] = json.loads(answer["messages"][-1]["content"])
        return counted


@contextmanager
def soaked(at_once: int) -> Iterator[Soaked]:
    """A gateway and a model server, each a process of its own, with room for so many runs at once."""
    port = free_port()
    model = LoggedProcess([sys.executable, "-m", "benchmarks.soak.model_server", str(port)], name="the model server")
    room = str(2 * at_once + 100)  # a run is over a moment after its reader, who begins the next one at once
    settings = {
        "GATEWAY_MODEL__BASE_URL": f"http://127.0.0.1:{port}/v1",
        "GATEWAY_MODEL__MAX_CONNECTIONS": room,
        "GATEWAY_RUNS__MAX_ACTIVE": room,
        "GATEWAY_RUNS__KEEP": str(KEEP),
        "GATEWAY_RUNS__MAX_KEPT": "100000",
        "GATEWAY_MEMORY__MAX_CONVERSATIONS": "100",
        "GATEWAY_TOOL_CALLING__THREADS": str(max(32, at_once)),
        "GATEWAY_TOOLS__PACKAGES": '["benchmarks.soak.tools"]',
    }
    try:
        model.wait_until_answering(f"http://127.0.0.1:{port}/")
        with running_gateway(settings) as gateway:
            yield Soaked(gateway, model, port)
    finally:
        model.close()
