"""Many open streams for minutes: whenever one has ended another is begun, and memory must not grow."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from benchmarks.processes import cpu_seconds
from benchmarks.soak.account import Account
from benchmarks.soak.caller import Line, Wrong
from benchmarks.soak.processes import Soaked
from benchmarks.soak.scripts import Script

WARM_UP = 60.0
"""Seconds before memory is looked at: by then as many runs end as begin, and as many are forgotten. Soaks of less than
three minutes have a third of their time, and no verdict on memory."""
FLAT = 1.0
"""Megabytes a minute that memory may grow by afterwards."""
FEWEST = 0.9
"""Share of the streams that must be open all the time: between two of them a caller has to connect, and may meet the
gateway while it collects garbage."""
PATIENCE = 180.0
"""Seconds after which a stream is taken for hung; none takes a minute."""
_RAMP = 1 / 6
"""Share of the warm-up in which the streams are begun."""
_TOOLS = 0.25
"""Share of the runs that call a tool."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A second of the soak: when, megabytes resident, streams that are open."""

    at: float
    memory: float
    open: int


@dataclass(slots=True)
class Held:
    """What was seen while the streams were open.

    Attributes:
        streams: how many there were to be.
        minutes: for how long.
        warm_up: seconds that do not count.
        whole: streams that came to their end as they should.
        wrong: what was wrong with others.
        samples: one a second.
        held: tasks, sockets, threads and the longest pause to collect garbage, by the minute.
        cpu: seconds of processor time for each second, by process.
        delays: seconds that words took from the model server through the gateway to their caller.
        lags: seconds that the callers' event loop was late: what they see later than that is not the gateway's.
        grown: objects there were more of at the end than after the warm-up, by type.
    """

    streams: int
    minutes: float
    warm_up: float
    whole: int = 0
    wrong: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    held: list[dict[str, int]] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)
    delays: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    grown: dict[str, int] = field(default_factory=dict)

    @property
    def counted(self) -> list[Sample]:
        """The samples after the warm-up."""
        return [sample for sample in self.samples if sample.at >= self.warm_up]

    @property
    def slope(self) -> float:
        """Megabytes a minute, by a straight line through the samples after the warm-up."""
        times = [sample.at / 60 for sample in self.counted]
        return statistics.linear_regression(times, [sample.memory for sample in self.counted]).slope

    @property
    def fewest(self) -> int:
        """Streams that were open at least, after the warm-up."""
        return min(sample.open for sample in self.counted)

    def failures(self) -> list[str]:
        """Why the soak has failed; nothing where it has not."""
        found: list[str] = []
        if self.slope > FLAT and self.warm_up >= WARM_UP:
            found.append(f"memory grows by {self.slope:.2f} MB a minute; {FLAT} is the most")
        if self.fewest < FEWEST * self.streams:
            found.append(f"only {self.fewest} of {self.streams} streams were open")
        return found


class Streams:
    """The callers.

    Args:
        soaked: the gateway.
        streams: how many are open.
        minutes: for how long.
        seed: of everything that is drawn.
    """

    def __init__(self, soaked: Soaked, streams: int, minutes: float, seed: int) -> None:
        self._soaked = soaked
        self._held = Held(streams, minutes, min(WARM_UP, minutes * 60 / 3))
        self._chance = random.Random(f"{seed}/streams")
        self._began = time.monotonic()
        self._until = self._began + minutes * 60
        self._open = 0
        self._begun = 0

    async def hold(self) -> Held:
        """Hold them open."""
        processes = {
            "gateway": self._soaked.gateway.pid,
            "model server": self._soaked.model.pid,
            "callers": os.getpid(),
        }
        used = {name: cpu_seconds([pid]) for name, pid in processes.items()}
        lagging = asyncio.create_task(self._watch_own_lag())
        async with asyncio.TaskGroup() as group:
            for number in range(self._held.streams):
                group.create_task(self._caller(number))
            await self._watch()
            took = time.monotonic() - self._began
            self._held.cpu = {name: (cpu_seconds([pid]) - used[name]) / took for name, pid in processes.items()}
        lagging.cancel()
        return self._held

    async def _watch(self) -> None:
        held, kinds = self._held, Counter[str]()
        while (now := time.monotonic()) < self._until:
            at = now - self._began
            held.samples.append(Sample(at, self._soaked.memory, self._open))
            if at >= (len(held.held) + 1) * 60:
                held.held.append(await self._soaked.held())
            if not kinds and at >= held.warm_up:
                kinds = (await self._soaked.census(collect=False)).kinds
            await asyncio.sleep(1)
        held.held.append(await self._soaked.held())
        grown = (await self._soaked.census(collect=False)).kinds - kinds
        held.grown = dict(grown.most_common(12))

    async def _watch_own_lag(self) -> None:
        while True:
            due = time.monotonic() + 0.1
            await asyncio.sleep(0.1)
            self._held.lags.append(time.monotonic() - due)

    async def _caller(self, number: int) -> None:
        await asyncio.sleep(self._held.warm_up * _RAMP * number / self._held.streams)
        while time.monotonic() < self._until:
            self._begun += 1
            run = self._begun
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._read(Account(self._script(run)))
                self._held.whole += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is counted and printed
                self._held.wrong.append(f"stream {run}: {type(error).__name__}: {error}")
                await asyncio.sleep(1)

    async def _read(self, account: Account) -> None:
        line = await Line.open(self._soaked.port)
        try:
            line.send("POST", "/chat/stream", {"message": account.script.message()})
            head = await line.head()
            if head.status != 200:  # noqa: PLR2004 - HTTP
                raise Wrong(f"answered by {head.status}: {await line.body(head)!r}")
            self._open += 1
            try:
                async with aclosing(line.events()) as events:
                    async for event in events:
                        account.take(event)
            finally:
                self._open -= 1
        finally:
            await line.cut()
        if not account.is_over:
            raise Wrong("the stream ended before its run")
        self._held.delays.extend(account.delays)

    def _script(self, run: int) -> Script:
        tool: Any = self._chance.choice(["wait", "block"]) if self._chance.random() < _TOOLS else None
        return Script(
            run=run,
            words=self._chance.randint(10, 50),
            quickest=0.25,
            slowest=1.0,
            tool=tool,
            seconds=round(self._chance.uniform(0.1, 2.0), 3) if tool else 0.0,
        )
