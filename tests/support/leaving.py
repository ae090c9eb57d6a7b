"""A gateway process before a scripted model server, brought to some stage and told to stop there."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.chunks import call, calls, chunk, completion, event, stream, text_stream
from tests.support.gates import PATIENCE
from tests.support.gateway_process import SERVE, GatewayProcess
from tests.support.model_server import HANG, Answer, AnswerTo, Exchange, ModelServer
from tests.support.visits import Door
from tests.support.web import Event, events_in

LONG = 600.0
"""A drain that no test waits for."""

_MORE = 2.0
"""Seconds after the drain in which the process is promised to have left."""

_RETRY = re.compile(r"\Aretry: [0-9]+\n")


def silence(_: Exchange) -> Answer:
    """Nothing, not even a status."""
    return Answer(HANG)


def beginning(exchange: Exchange) -> Answer:
    """The beginning of an answer, and no more."""
    if exchange.body.get("stream"):
        return Answer(event(chunk({"content": "Once upon"})), HANG)
    return Answer(b'{"id": "cmpl', HANG, content_type="application/json")


def using(tool: str, door: Door) -> AnswerTo:
    """A call of a tool that comes to the door, and "Done." when it has its result."""
    return partial(_using, tool, json.dumps({"port": door.port}))


def _using(tool: str, arguments: str, exchange: Exchange) -> Answer:
    done = any(message["role"] == "tool" for message in exchange.body["messages"])
    if exchange.body.get("stream"):
        asked = stream(calls(call(tool, arguments, call_id="call_1")), chunk(finish="tool_calls"))
        return Answer(text_stream("Done.") if done else asked)
    message = {"content": None, "tool_calls": [{"id": "call_1", "function": {"name": tool, "arguments": arguments}}]}
    return Answer.json(completion("Done.") if done else completion(message, "tool_calls"))


class Reading:
    """One who reads a stream as it comes.

    Attributes:
        events: what has come so far.
        headers: of the response, once it has begun.
    """

    headers: httpx.Headers

    def __init__(self, sending: AbstractAsyncContextManager[httpx.Response]) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Event()
        self._reading = asyncio.create_task(self._read(sending))
        self._reading.add_done_callback(lambda _: self._changed.set())

    async def saw(self, name: str) -> None:
        """Wait for an event of a name."""
        async with asyncio.timeout(PATIENCE):
            while name not in [event.name for event in self.events]:
                assert not self._reading.done(), f"the stream ended without {name}"
                self._changed.clear()
                await self._changed.wait()

    async def end(self) -> Event:
        """The last event of a body that is whole.

        Raises:
            httpx.TransportError: it is not.
        """
        await self._reading
        return self.events[-1]

    async def cut(self) -> str | None:
        """The last event of a body that is cut, None where the response had not begun."""
        with pytest.raises(httpx.TransportError):
            await self._reading
        return self.events[-1].name if self.events else None

    async def _read(self, sending: AbstractAsyncContextManager[httpx.Response]) -> None:
        text = ""
        async with sending as response:
            assert response.status_code == httpx.codes.OK
            self.headers = response.headers
            async for piece in response.aiter_text():
                whole, end, text = _RETRY.sub("", text + piece).rpartition("\n\n")
                self.events += events_in(whole + end)
                self._changed.set()


@dataclass(frozen=True, slots=True)
class Left:
    """How a process has left: its exit code, and the seconds since it was told to."""

    code: int
    seconds: float


def assert_in_time(left: Left, drain: float) -> None:
    """The process has left as it should."""
    assert left.code == 0
    assert left.seconds <= drain + _MORE


def assert_refused(response: httpx.Response) -> None:
    """The response says that the gateway is shutting down."""
    assert response.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert int(response.headers["Retry-After"]) > 0
    assert response.json()["type"] == "urn:advisor-gateway:shutting-down"


def assert_told(last: Event) -> None:
    """The event says that the gateway is shutting down."""
    assert last.name == "run.failed"
    assert (last.data["type"], last.data["status"]) == ("urn:advisor-gateway:shutting-down", 503)


class Stage:
    """A gateway process with all that is around it.

    Attributes:
        process: the gateway.
        client: a client of it.
        model: the model server behind it.
        door: where its tools come to.
    """

    def __init__(self, process: GatewayProcess, client: httpx.AsyncClient, model: ModelServer, door: Door) -> None:
        self.process = process
        self.client = client
        self.model = model
        self.door = door
        self._told = 0.0

    def ask(self, path: str = "/chat", headers: Mapping[str, str] | None = None, /, **body: Any) -> asyncio.Task[Any]:
        """Send a request, and have its response later."""
        sent = body if "messages" in body else {"message": "Hello", **body}
        return asyncio.create_task(self.client.post(path, json=sent, headers=headers))

    def follow(self, headers: Mapping[str, str] | None = None, /, **body: Any) -> Reading:
        """Begin a run and read its stream."""
        sent = {"message": "Hello", **body}
        return Reading(self.client.stream("POST", "/chat/stream", json=sent, headers=headers))

    def come_back(self, path: str) -> Reading:
        """Read the stream of a run that goes on."""
        return Reading(self.client.stream("GET", path))

    async def drains(self) -> None:
        """Wait until the gateway has heard of its end."""
        async with asyncio.timeout(PATIENCE):
            while (await self.client.get("/readyz")).status_code == httpx.codes.OK:
                pass

    def tell(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Tell it to stop."""
        self._told = time.monotonic()
        self.process.signal(number)

    async def left(self) -> Left:
        """Wait until it has left, without a fault that it does not know."""
        code = await asyncio.to_thread(self.process.wait)
        seconds = time.monotonic() - self._told
        assert "Traceback" not in self.process.log, self.process.log
        return Left(code, seconds)


@asynccontextmanager
async def stage(
    drain: float, answer: AnswerTo | None = None, *, arguments: Sequence[str] = SERVE, **settings: str
) -> AsyncIterator[Stage]:
    """A gateway that is ready to serve, with tools that are hard to stop.

    Args:
        drain: seconds that its runs have when it is told to stop.
        answer: what the model server always answers.
        arguments: see `GatewayProcess`.
        **settings: further variables.
    """
    async with ModelServer() as model, Door() as door:
        if answer is not None:
            model.always(answer)
        process = GatewayProcess(
            {
                "GATEWAY_MODEL__BASE_URL": model.base_url,
                "GATEWAY_MODEL__NAME": "probe",
                "GATEWAY_TOOLS__PACKAGES": '["tests.support.stuck_tools"]',
                "GATEWAY_SERVER__DRAIN": str(drain),
                **settings,
            },
            arguments=arguments,
        )
        try:
            await asyncio.to_thread(process.wait_until_answering, f"{process.url}/readyz")
            async with httpx.AsyncClient(base_url=process.url, trust_env=False, timeout=PATIENCE * 3) as client:
                yield Stage(process, client, model, door)
        finally:
            process.close()
