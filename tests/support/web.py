"""The gateway over HTTP without a socket: asking it by either endpoint, and reading its streams byte by byte."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from asgi_lifespan import LifespanManager
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from app.chat import ChatModel
from app.main import create_app
from app.settings import Settings
from app.web import Gateway
from tests.support.gates import PATIENCE
from tests.support.streaming import StreamingTransport

ENDPOINTS = {False: "/chat", True: "/chat/stream"}
"""The path of either mode, by `stream`."""

_EVENT = re.compile(r"id: ([1-9][0-9]*)\nevent: ([a-z_.]+)\ndata: ([^\r\n\u0085\u2028\u2029]*)\n\n")
_COMMENT = ": ping\n"


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    id: int
    name: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What either endpoint answered.

    Attributes:
        status: the HTTP status.
        document: the body; of a stream the data of its last event, without what only events have.
        events: the events of a stream.
        headers: of the response.
    """

    status: int
    document: dict[str, Any]
    events: Sequence[Event] = ()
    headers: httpx.Headers = field(default_factory=httpx.Headers)

    @property
    def names(self) -> list[str]:
        """The names of the events."""
        return [event.name for event in self.events]

    def of(self, name: str) -> list[dict[str, Any]]:
        """The data of all events of a name."""
        return [event.data for event in self.events if event.name == name]


def events_in(text: str) -> list[Event]:
    """The events of a stream, or of a single write of it. Anything but whole events and pings is an error."""
    events: list[Event] = []
    position = 0
    while position < len(text):
        if text.startswith(_COMMENT, position):
            position += len(_COMMENT)
            continue
        match = _EVENT.match(text, position)
        assert match, f"no event at {text[position : position + 80]!r}"
        events.append(Event(int(match[1]), match[2], json.loads(match[3], parse_constant=_refuse)))
        position = match.end()
    return events


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a running application; it sees streams as they come, and can hang up."""
    async with (
        LifespanManager(app) as running,
        httpx.AsyncClient(transport=StreamingTransport(running.app), base_url="http://gateway") as client,
    ):
        yield client


@asynccontextmanager
async def opened(app: FastAPI, patience: float = PATIENCE) -> AsyncIterator[tuple[httpx.AsyncClient, Gateway]]:
    """A client of a running application, and what its routes work with. See `StreamingTransport` for the patience."""
    async with app.router.lifespan_context(app) as state:

        async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "state": dict(state or {})}, receive, send)

        line = StreamingTransport(with_state, patience)
        async with httpx.AsyncClient(transport=line, base_url="http://gateway") as client:
            yield client, (state or {})["gateway"]


@asynccontextmanager
async def gateway(
    model: ChatModel | None = None, tools: Iterable[Any] = (), *, settings: dict[str, Any] | None = None, **parts: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway that is put together for one test.

    Args:
        model: answers; None = the demo model.
        tools: instead of those in `tools/`.
        settings: sections by name.
        **parts: further arguments of `create_app`.
    """
    async with serving(create_app(Settings(**settings or {}), model=model, tools=tools, **parts)) as client:
        yield client


async def ask(client: httpx.AsyncClient, message: str | None = "Hello", /, *, stream: bool, **body: Any) -> Reply:
    """Ask by the endpoint of a mode. `message=None` leaves the message out."""
    sent = body if message is None else {"message": message, **body}
    return reply_of(await client.post(ENDPOINTS[stream], json=sent))


def reply_of(response: httpx.Response) -> Reply:
    """A response as it is the same for both endpoints."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        events = events_in(response.text)
        assert [event.id for event in events] == list(range(1, len(events) + 1))
        document = {key: value for key, value in events[-1].data.items() if key not in {"run_id", "round"}}
        return Reply(response.status_code, document, events, response.headers)
    return Reply(response.status_code, response.json(), headers=response.headers)
