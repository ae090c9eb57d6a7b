"""A gateway on loopback whose model tells one story, and a bad line to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import httpx
from httpx_sse import aconnect_sse
from starlette.routing import Route

from app.main import create_app
from app.settings import Settings
from tests.support.bad_line import BadLine
from tests.support.model_server import ModelServer
from tests.support.served import served
from tests.support.storyteller import AFTER, BEFORE, PACE, Storyteller, look_up

STREAMED = [
    *["run.started", "round.started", "text.delta", "tool_call.started", "tool_call.arguments", "tool_call.ready"],
    *["tool_call.progress", "tool_call.result", "round.completed"],
    *["round.started", "text.delta", "round.completed", "run.completed"],
]
"""The events of a told story, those that follow each other under one name as one."""


class Event(NamedTuple):
    """One event as a reader was told it."""

    id: str
    name: str
    data: str


@dataclass(frozen=True, slots=True)
class Telling:
    """What is needed for a story to be told.

    Attributes:
        client: asks the gateway over a good line.
        line: the bad one.
        model: the server that tells the story.
        story: what it says.
    """

    client: httpx.AsyncClient
    line: BadLine
    model: ModelServer
    story: Storyteller

    async def end_after_cuts(self, times: int) -> None:
        """Let the story come to its end when the line was cut so many more times."""
        await self.line.cuts.more(times)
        self.story.may_end.set()

    async def run(self) -> dict[str, Any]:
        """The only run that there is."""
        (run,) = (await self.client.get("/runs")).json()["runs"]
        document: dict[str, Any] = (await self.client.get(f"/runs/{run['id']}")).json()
        return document

    async def events(self, run_id: str) -> list[Event]:
        """A run's events, read over the good line."""
        async with aconnect_sse(self.client, "GET", f"/runs/{run_id}/events") as source:
            return [Event(told.id, told.event, told.data) async for told in source.aiter_sse()]

    async def assert_told(self, events: list[Event]) -> None:
        """The events are the run's, each once and in order, and hold the whole story, which was told once."""
        run = await self.run()
        told = [name for name, _ in groupby(event.name for event in events)]

        assert_in_order(events)
        assert told == STREAMED, told
        assert texts(events) == ["".join(BEFORE), "".join(AFTER)], texts(events)
        assert json.loads(events[-1].data)["content"] == run["answer"]["content"] == "".join(AFTER), run
        assert events == await self.events(run["id"]), events
        assert len(self.model.exchanges) == 2, self.model.exchanges


def assert_in_order(events: list[Event]) -> None:
    """Each number is there once, from 1, with no gaps."""
    numbers = [event.id for event in events]
    assert numbers == [str(number) for number in range(1, len(events) + 1)], numbers


def texts(events: list[Event]) -> list[str]:
    """The text deltas of each round, joined."""
    deltas = [json.loads(event.data) for event in events if event.name == "text.delta"]
    return ["".join(delta["text"] for delta in of_round) for _, of_round in groupby(deltas, lambda told: told["round"])]


@asynccontextmanager
async def telling(
    *,
    pace: float = PACE,
    life: float = 1.0,
    tears: bool = True,
    cors_origins: Sequence[str] = (),
    pages: Sequence[Route] = (),
) -> AsyncIterator[Telling]:
    """A gateway that is ready to have the story told.

    Args:
        pace: seconds between two pieces of the story.
        life: seconds after which the bad line is cut.
        tears: whether it is cut in the middle of an event.
        cors_origins: pages from there may ask the gateway.
        pages: what the gateway's origin serves beside it.
    """
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ModelServer())
        model.always(story := Storyteller(pace))
        settings = Settings(
            model={"base_url": model.base_url, "name": "probe"}, server={"cors_origins": list(cors_origins)}
        )
        app = create_app(settings, tools=[look_up])
        app.router.routes.extend(pages)
        address = await stack.enter_async_context(served(app))
        line = await stack.enter_async_context(BadLine(address, life, tears=tears))
        client = httpx.AsyncClient(base_url="http://{}:{}".format(*address), trust_env=False)
        yield Telling(await stack.enter_async_context(client), line, model, story)
