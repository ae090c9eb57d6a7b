"""A caller as the documentation has it: it comes back when the line is cut, and asks again when it is told to."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import Counter
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
from httpx_sse import EventSource

from tests.scale.stack import PATIENCE

ENDS = {"run.completed", "run.cancelled", "run.failed"}
_AGAIN = {
    "unreachable",  # the proxy says so
    "gateway-full",
    "shutting-down",
    "shared-state-unavailable",
    "memory-unavailable",
}
"""Problems after which the same is asked again, by the last part of their type."""
_PAUSE = 0.2
"""Seconds until a line that was cut is opened again."""
_WHOLE = 200
_NOTHING_MORE = 204


@dataclass(frozen=True, slots=True)
class Script:
    """What the model server is asked to say.

    Attributes:
        name: nobody else's.
        words: how many it says.
        pace: seconds after each.
        tool: whether it calls a tool before.
    """

    words: int = 40
    pace: float = 0.1
    tool: bool = False
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @property
    def message(self) -> str:
        """It, as a message."""
        return json.dumps({"name": self.name, "words": self.words, "pace": self.pace, "tool": self.tool})

    def answer(self, *before: Script) -> str:
        """What the answer is, after other scripts of the same conversation."""
        words = [f"after {one.name} " for one in before] + [f"{self.name}-{number} " for number in range(self.words)]
        return "".join(words)

    @property
    def calls(self) -> dict[str, int]:
        """What the model server counts where it was told once, to its end."""
        rounds = 2 if self.tool else 1
        return {"begun": rounds, "answered": rounds, "left": 0}


class Heard(NamedTuple):
    """An event, and when it came."""

    id: int
    name: str
    data: dict[str, Any]
    at: float


class Caller:
    """Asks for one script, or follows the run of one, over as many connections as it takes.

    Args:
        url: of the gateway; may be changed in between.
        script: what is asked for.
        location: of the events of a run that is there; None = it is begun.
        leaves: whether it leaves as soon as its run has begun, and comes back to whichever replica.
        fields: more of the body.

    Attributes:
        heard: the events, in the order they came.
        told: what the answers were that were no stream: the last parts of problem types, and statuses.
        cuts: how many times a line was cut.
        location: of the run's events, once it is known.
        problem: the document that it got instead of a stream, and that is the end of it.
    """

    def __init__(
        self, url: str, script: Script, *, location: str | None = None, leaves: bool = False, **fields: Any
    ) -> None:
        self.url = url
        self.script = script
        self.location = location
        self.heard: list[Heard] = []
        self.told: Counter[str] = Counter()
        self.cuts = 0
        self.problem: dict[str, Any] | None = None
        self._leaves = leaves
        self._body = {"message": script.message, "on_disconnect": "continue", **fields}
        self._key = f"key-{script.name}"
        self._more = asyncio.Condition()

    @property
    def end(self) -> Heard | None:
        """The last event of the run."""
        return self.heard[-1] if self.heard and self.heard[-1].name in ENDS else None

    @property
    def run_id(self) -> str:
        """The run's id."""
        assert self.location is not None, "the run is not known yet"
        return self.location.split("/")[2]

    @property
    def text(self) -> str:
        """The text of the last round, as it came."""
        begun = [place for place, event in enumerate(self.heard) if event.name == "round.started"]
        return "".join(event.data["text"] for event in self.heard[begun[-1] :] if event.name == "text.delta")

    async def hear(self) -> Caller:
        """Until there is an end."""
        async with asyncio.timeout(3 * PATIENCE), httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            while self.end is None and self.problem is None:
                try:
                    await self._ask(client)
                except httpx.TransportError:
                    self.cuts += 1
                    await asyncio.sleep(_PAUSE)
        return self

    async def begin(self) -> None:
        """Begin the run, and leave it."""
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client, self._asked(client) as response:
            assert response.status_code == _WHOLE, await response.aread()
            self.location = response.headers["Location"]

    async def has(self, events: int) -> None:
        """Wait until it has heard so many events, or the end."""
        async with asyncio.timeout(PATIENCE), self._more:
            await self._more.wait_for(lambda: len(self.heard) >= events or self.end or self.problem)

    def assert_in_order(self) -> None:
        """Each event came once, none is missing, and there is one end."""
        numbers = [event.id for event in self.heard]
        assert numbers == list(range(1, len(numbers) + 1)), (self.script.name, numbers)
        assert [event.name for event in self.heard if event.name in ENDS] == [self.heard[-1].name], self.heard[-3:]

    def assert_whole(self, *before: Script) -> None:
        """It got its whole answer, once."""
        assert self.problem is None, self.problem
        self.assert_in_order()
        last = self.heard[-1]
        assert last.name == "run.completed", last
        assert self.text == last.data["content"] == self.script.answer(*before)

    async def _ask(self, client: httpx.AsyncClient) -> None:
        async with self._asked(client) as response:
            if response.status_code != _WHOLE:
                await self._told(response)
                return
            if self.location is None:
                self.location = response.headers["Location"]
                if self._leaves:
                    return
            async for event in EventSource(response).aiter_sse():
                assert event.id, (self.script.name, self.location, event)
                heard = Heard(int(event.id), event.event, json.loads(event.data), time.monotonic())
                async with self._more:
                    self.heard.append(heard)
                    self._more.notify_all()
        if self.end is None:
            self.cuts += 1

    def _asked(self, client: httpx.AsyncClient) -> AbstractAsyncContextManager[httpx.Response]:
        if self.location is None:
            key = {"Idempotency-Key": self._key}
            return client.stream("POST", f"{self.url}/chat/stream", json=self._body, headers=key)
        last = {"Last-Event-ID": str(self.heard[-1].id)} if self.heard else {}
        return client.stream("GET", f"{self.url}{self.location}", headers=last)

    async def _told(self, response: httpx.Response) -> None:
        assert response.status_code != _NOTHING_MORE, f"{self.script.name}: the end was not told"
        document = json.loads(await response.aread())
        kind = document["type"].rpartition(":")[2]
        self.told[kind] += 1
        if kind in _AGAIN and "Retry-After" in response.headers:
            await asyncio.sleep(float(response.headers["Retry-After"]))
            return
        async with self._more:
            self.problem = document
            self._more.notify_all()
