"""Callers of a gateway: they ask, some by a key, read a stream as it comes, and go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import httpx
import pytest

from app.chat import Prompt, ToolMessage
from tests.support.gates import PATIENCE
from tests.support.web import ENDPOINTS, Event, Reply, events_in, reply_of

AT_ONCE = {"commit_after": 0}
"""Streams that begin before the model has said anything: whoever has the headers is a reader."""

each_way = pytest.mark.parametrize(
    ("first", "then"),
    list(product([False, True], repeat=2)),
    ids=["call, call", "call, stream", "stream, call", "stream, stream"],
)
"""By which endpoint the first request comes, and by which the next one."""


def keyed(key: str | None) -> dict[str, str]:
    """The headers of a request with this key."""
    return {} if key is None else {"Idempotency-Key": key}


async def send(
    client: httpx.AsyncClient, message: str = "Hello", *, stream: bool, key: str | None = None, **body: Any
) -> Reply:
    """Ask by the endpoint of a mode, and wait for the end."""
    return reply_of(await client.post(ENDPOINTS[stream], json={"message": message, **body}, headers=keyed(key)))


def replayed(headers: Mapping[str, str]) -> str | None:
    """What the response says of who began its run."""
    return headers.get("idempotency-replayed")


class Listener:
    """One who reads a stream as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.events: list[Event] = []
        self._pieces = response.aiter_raw()

    async def write(self) -> str | None:
        """What the gateway writes next, None at the end."""
        piece = await anext(self._pieces, None)
        if piece is None:
            return None
        text = piece.decode()
        self.events += events_in(text)
        return text

    async def until(self, name: str) -> None:
        """Read on until an event of this name has come."""
        while name not in [event.name for event in self.events]:
            assert await self.write() is not None, f"the stream ended without {name}"

    async def end(self) -> Event:
        """Read to the end. Returns the last event."""
        while await self.write() is not None:
            pass
        return self.events[-1]


@asynccontextmanager
async def listening(
    client: httpx.AsyncClient, message: str = "Hello", *, key: str | None = None, **body: Any
) -> AsyncIterator[Listener]:
    """Ask for a stream that is read as it comes. Whoever leaves the block hangs up."""
    sent = {"message": message, **body}
    async with client.stream("POST", "/chat/stream", json=sent, headers=keyed(key)) as response:
        yield Listener(response)


async def leave(asking: asyncio.Task[Any]) -> None:
    """Go away while asking, and wait until the gateway has seen it."""
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()


async def line(client: httpx.AsyncClient, *statuses: str, conversation_id: str = "c") -> list[str]:
    """Wait until the runs of a conversation, the oldest first, are that far. Returns their ids."""
    found: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        while [run["status"] for run in found] != list(statuses):
            response = await client.get("/runs", params={"conversation_id": conversation_id})
            found = response.json()["runs"][::-1]
    return [run["id"] for run in found]


def said(prompt: Prompt) -> list[str]:
    """What was said in a prompt; results of tools are not."""
    return [message.content for message in prompt.messages if not isinstance(message, ToolMessage)]
