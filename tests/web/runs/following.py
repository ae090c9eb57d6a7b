"""Runs as callers have them: begun by any door, left, and come back to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

import httpx
import pytest

from tests.support.gates import PATIENCE
from tests.support.web import ENDPOINTS, events_in

RETRY = "retry: 1000\n"
"""How every stream that is come back to begins."""

PING = ": ping\n"

Door: TypeAlias = Literal["call", "background", "stream"]

every_door = pytest.mark.parametrize("door", ["call", "background", "stream"])

both_ways = pytest.mark.parametrize("by", ["after", "Last-Event-ID"])

AT_ONCE = {"stream": {"commit_after": 0}}
"""Settings with which a stream begins before the model has said anything."""


def named(number: int | str, by: str) -> dict[str, Any]:
    """How a request names the event it has."""
    return {"params": {"after": number}} if by == "after" else {"headers": {"Last-Event-ID": str(number).encode()}}


async def begun_and_left(client: httpx.AsyncClient, door: Door, here: Callable[[], Awaitable[object]]) -> str:
    """Begin a run that goes on without a reader, and leave it when the work is where it is wanted.

    Returns:
        The run's id.
    """
    body = {"message": "Hello", "on_disconnect": "continue"}
    if door == "background":
        run_id = str((await client.post("/chat", json={"message": "Hello", "background": True})).json()["id"])
        async with asyncio.timeout(PATIENCE):
            await here()
        await written(client, run_id, 2)
        return run_id
    asking = asyncio.create_task(client.post(ENDPOINTS[door == "stream"], json=body))
    async with asyncio.timeout(PATIENCE):
        await here()
    await hung_up(asking)
    run_id = await newest(client)
    await written(client, run_id, 2)  # that the model is asked
    return run_id


async def written(client: httpx.AsyncClient, run_id: str, number: int) -> None:
    """Wait until a run that goes on without a reader has so many events."""
    status = 422
    async with asyncio.timeout(PATIENCE):
        while status == 422:
            async with client.stream("GET", f"/runs/{run_id}/events", params={"after": number}) as response:
                status = response.status_code
    assert status == 200


async def hung_up(asking: asyncio.Task[Any]) -> None:
    """Go away without an answer; return when the gateway has seen it."""
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()


async def newest(client: httpx.AsyncClient) -> str:
    """The id of the run that was begun last."""
    listed = (await client.get("/runs", params={"limit": 1})).json()
    return str(listed["runs"][0]["id"])


async def ended(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    """What is told of a run when it has ended."""
    async with asyncio.timeout(PATIENCE):
        while (run := (await client.get(f"/runs/{run_id}")).json())["ended_at"] is None:
            pass
    return dict(run)


async def read(client: httpx.AsyncClient, run_id: str, after: int = 0) -> list[str]:
    """A run's events with a number above `after`, to its last, byte for byte."""
    response = await client.get(f"/runs/{run_id}/events", headers=last_event_id(after))
    assert response.status_code == 200, response.text
    assert response.text.startswith(RETRY)
    return blocks(response.text)


def last_event_id(number: int) -> Mapping[str, str]:
    """How a browser names the last event it has: not at all where it has none."""
    return {"Last-Event-ID": str(number)} if number else {}


def blocks(text: str) -> list[str]:
    """The whole events in what was read so far, byte for byte."""
    whole = text[: text.rfind("\n\n") + 2] if "\n\n" in text else ""
    events = whole.replace(PING, "").removeprefix(RETRY)
    events_in(events)  # which takes nothing but whole events
    return [f"{event}\n\n" for event in events.split("\n\n")[:-1]]


def problem_of(response: httpx.Response) -> tuple[int, str]:
    """The status and the kind of what was refused."""
    return response.status_code, response.json()["type"].removeprefix("urn:advisor-gateway:")


def name_of(block: str) -> str:
    """The name of an event."""
    return events_in(block)[0].name


def data_of(block: str) -> dict[str, Any]:
    """The data of an event, without what only events have."""
    return {key: value for key, value in events_in(block)[0].data.items() if key not in {"run_id", "round"}}


class Following:
    """One reader of a stream, who can stop in the middle and read on.

    Attributes:
        text: what was read so far.
    """

    def __init__(self, response: httpx.Response) -> None:
        self.text = ""
        self._writes = response.aiter_text()

    @property
    def events(self) -> list[str]:
        """The events so far, byte for byte."""
        return blocks(self.text)

    async def more(self) -> bool:
        """Read what is written next; False at the end."""
        written = await anext(self._writes, None)
        self.text += written or ""
        return written is not None

    async def until(self, enough: Callable[[str], bool]) -> None:
        """Read on until the text is enough."""
        async with asyncio.timeout(PATIENCE):
            while not enough(self.text):
                assert await self.more(), self.text

    async def until_events(self, count: int) -> None:
        """Read on until so many events are there."""
        await self.until(lambda text: len(blocks(text)) >= count)

    async def rest(self) -> list[str]:
        """Read to the end; all events, byte for byte."""
        async with asyncio.timeout(PATIENCE):
            while await self.more():
                pass
        return self.events


@asynccontextmanager
async def following(client: httpx.AsyncClient, run_id: str, after: int = 0) -> AsyncIterator[Following]:
    """Read a run's events as they come; hang up at the end of the block."""
    async with client.stream("GET", f"/runs/{run_id}/events", headers=last_event_id(after)) as response:
        assert response.status_code == 200
        yield Following(response)
