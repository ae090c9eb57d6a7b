"""Callers who hang up at random points. Some come back for what they lack; of the others nothing must be left."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from benchmarks.soak.account import Account
from benchmarks.soak.caller import Line, Wrong
from benchmarks.soak.processes import Soaked
from benchmarks.soak.scripts import Script, ToolName

AT_ONCE = 100
"""Callers at a time."""
PATIENCE = 120.0
"""Seconds after which a caller takes a run for hung."""
_WHAT_THEN = {"cancel": 0.6, "continue": 0.1, "resume": 0.3}
_MOST_CUTS = 4
"""Times that one caller comes back."""
_HARD = 0.5
"""Share of the cuts that reset the connection."""
_REMEMBERED = 0.5
"""Share of the runs that are turns of a conversation."""

Point: TypeAlias = Literal["in the request", "before the first byte", "in text", "in a call", "in a tool"]
_UNTIL = {"in text": "text.delta", "in a call": "tool_call.arguments", "in a tool": "tool_call.ready"}
"""The event after which a caller hangs up."""


@dataclass(slots=True)
class CutOff:
    """What became of the callers.

    Attributes:
        cuts: by the point at which they were.
        ends: by what the callers did then, and what came of it.
        wrong: what was wrong.
        memory: megabytes resident, after each tenth of the callers.
        model_calls: those that the gateway left before their end.
        seconds: how long it took.
    """

    cuts: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    model_calls: int = 0
    seconds: float = 0.0


class Cuts:
    """The callers.

    Args:
        soaked: the gateway.
        cuts: how many of them.
        seed: of everything that is drawn.
    """

    def __init__(self, soaked: Soaked, cuts: int, seed: int | str) -> None:
        self._soaked = soaked
        self._cuts = cuts
        self._seed = seed
        self._seen = CutOff()
        self._places = asyncio.Semaphore(AT_ONCE)

    async def make(self) -> CutOff:
        """Begin all runs, hang up on them, and read those to their end that somebody comes back to."""
        began, left = time.monotonic(), (await self._soaked.model_calls())["left"]
        async with asyncio.TaskGroup() as group:
            for number in range(self._cuts):
                await self._places.acquire()
                group.create_task(self._judge(number)).add_done_callback(lambda _: self._places.release())
                if (number + 1) * 10 // self._cuts > number * 10 // self._cuts:
                    self._seen.memory.append(self._soaked.memory)
        self._seen.seconds = time.monotonic() - began
        self._seen.model_calls = (await self._soaked.model_calls())["left"] - left
        return self._seen

    async def _judge(self, number: int) -> None:
        caller = _Caller(self._soaked.port, number, f"{self._seed}/{number}", self._seen.cuts)
        try:
            async with asyncio.timeout(PATIENCE):
                end = await caller.call()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted and printed
            self._seen.wrong.append(f"caller {number}, {caller.told}: {type(error).__name__}: {error}")
            end = "wrong"
        self._seen.ends[f"{caller.then}: {end}"] += 1


class _Caller:
    """One who begins a run and hangs up."""

    def __init__(self, port: int, number: int, name: str, cuts: Counter[str]) -> None:
        self._port = port
        self._chance = chance = random.Random(name)
        self._counted = cuts
        self._cuts: list[str] = []
        point: Point = chance.choice(["in the request", "before the first byte", "in text", "in a call", "in a tool"])
        [self.then] = chance.choices(list(_WHAT_THEN), list(_WHAT_THEN.values()))
        self._point = point
        self._account = Account(_script(number, point, chance))
        self._body: dict[str, Any] = {
            "message": self._account.script.message(),
            "on_disconnect": "cancel" if self.then == "cancel" else "continue",
        }
        if chance.random() < _REMEMBERED:
            self._body["conversation_id"] = name
        self._headers = {"Idempotency-Key": name} if self.then == "resume" else {}

    @property
    def told(self) -> str:
        """What it has done, for messages."""
        return f"{self.then}, hung up {self._cuts}, had {self._account.last} of {self._account.run_id}"

    async def call(self) -> str:
        """Begin, hang up, and come back if that is meant. Returns what came of it."""
        await self._connect(self._point)
        while self.then == "resume" and not self._account.is_over:
            await asyncio.sleep(self._chance.uniform(0, 0.5))
            again = len(self._cuts) < _MOST_CUTS and self._chance.random() < 0.5  # noqa: PLR2004 - a coin
            await self._connect(self._chance.choice(["before the first byte", "in text"]) if again else None)
        return "read whole" if self._account.is_over else "left"

    async def _connect(self, point: str | None) -> None:
        line = await Line.open(self._port)
        try:
            await self._follow(line, point)
        finally:
            await line.cut(hard=point is not None and self._chance.random() < _HARD)
        if not self._account.is_over:
            if point is None:
                raise Wrong("the stream ended before its run")
            self._cuts.append(point)
            self._counted[point] += 1

    async def _follow(self, line: Line, point: str | None) -> None:
        account, chance = self._account, self._chance
        share = chance.random() if point == "in the request" else 1
        if account.run_id is None:  # by the key it comes back to what it has begun
            line.send("POST", "/chat/stream", self._body, self._headers, share)
        else:
            line.send("GET", f"/runs/{account.run_id}/events", headers={"Last-Event-ID": str(account.last)})
        if point in {"in the request", "before the first byte"}:
            await asyncio.sleep(chance.uniform(0, account.script.silence) * chance.choice([0, 1]))
            return
        head = await line.head()
        if head.status != 200:  # noqa: PLR2004 - HTTP
            raise Wrong(f"answered by {head.status}: {await line.body(head)!r}")
        left = chance.randint(1, account.script.words)
        async with aclosing(line.events()) as events:
            async for event in events:
                account.take(event)
                left -= event.name == _UNTIL.get(point or "")
                if left == 0 or (point == "in a tool" and event.name == _UNTIL[point]):
                    return


def _script(number: int, point: Point, chance: random.Random) -> Script:
    tool: ToolName | None = None
    if point in {"in a call", "in a tool"} or chance.random() < 0.25:  # noqa: PLR2004 - a share
        tool = chance.choice(["wait", "block"])
    return Script(
        run=number,
        words=chance.randint(4, 30) if point != "in a call" else 4,
        quickest=0.005,
        slowest=0.05,
        silence=round(chance.uniform(0, 1.5), 3) if point == "before the first byte" else 0.0,
        tool=tool,
        seconds=round(chance.uniform(0.1, 0.6), 3) if tool else 0.0,
    )
