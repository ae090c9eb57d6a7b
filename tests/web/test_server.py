"""The contract on a real socket: what arrives when, how bodies are bounded, and what hanging up does."""

from __future__ import annotations

import asyncio
import json

import pytest

from app.main import create_app
from app.providers.scripted import ScriptedModel, tool_calls
from app.settings import Settings
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.served import Connection, served
from tests.support.tools import Held
from tests.support.web import ENDPOINTS, events_in

pytestmark = pytest.mark.server

HELLO = json.dumps({"message": "Hello"}).encode()


@pytest.mark.fault("S07")
async def test_events_arrive_as_they_happen_each_in_one_chunk_and_the_connection_goes_on() -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {})), "Done.", "Next.")
    async with served(create_app(Settings(), model=model, tools=[held.tool])) as address, Connection(address) as line:
        line.post("/chat/stream", HELLO)
        status, headers = await line.head()
        first = await line.chunk()
        await held.begun()
        held.let_go.set()
        chunks = [first]
        while chunk := await line.chunk():
            chunks.append(chunk)
        line.post("/chat", HELLO)
        again, _ = await line.head()

    assert (status, again) == (200, 200)
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-cache", "no")
    assert all(events_in(chunk.decode()) for chunk in chunks)
    assert "tool_call.started" in chunks[0].decode()
    assert "run.completed" not in chunks[0].decode()
    assert events_in(chunks[-1].decode())[-1].name == "run.completed"


@pytest.mark.fault("S06")
async def test_a_silent_model_is_bridged_by_comments() -> None:
    reply = Hesitant()
    settings = Settings(stream={"commit_after": 0, "heartbeat": 0.001})
    app = create_app(settings, model=ScriptedModel(reply), tools=[])
    async with served(app) as address, Connection(address) as line:
        line.post("/chat/stream", HELLO)
        assert (await line.head())[0] == 200
        assert events_in((await line.chunk()).decode())
        assert [await line.chunk() for _ in range(2)] == [b": ping\n"] * 2
        reply.go_on.set()
        while b"run.completed" not in await line.chunk():
            pass


@pytest.mark.fault("D03")
@both_modes
async def test_hanging_up_cancels_the_tools(*, stream: bool) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {})))
    async with served(create_app(Settings(), model=model, tools=[held.tool])) as address:
        async with Connection(address) as line:
            line.post(ENDPOINTS[stream], HELLO)
            await held.begun()
        async with asyncio.timeout(PATIENCE):
            await held.ended.wait()

    assert held.cancelled == 1


@pytest.mark.fault("D03")
@both_modes
async def test_hanging_up_before_the_model_says_anything_cancels_it(*, stream: bool) -> None:
    reply = Hesitant()
    settings = Settings(stream={"commit_after": PATIENCE})
    async with served(create_app(settings, model=ScriptedModel(reply), tools=[])) as address:
        async with Connection(address) as line:
            line.post(ENDPOINTS[stream], HELLO)
            await reply.asked.wait()
        async with asyncio.timeout(PATIENCE):
            await reply.cancelled.wait()


@pytest.mark.fault("X06")
@both_modes
async def test_a_chunked_body_is_refused_as_soon_as_it_is_too_large(*, stream: bool) -> None:
    settings = Settings(server={"max_body_bytes": 1000})
    app = create_app(settings, model=ScriptedModel(), tools=[])
    async with served(app) as address, Connection(address) as line:
        line.post(ENDPOINTS[stream], b"", "transfer-encoding: chunked")
        line.write(b"320\r\n" + b" " * 800 + b"\r\n")
        line.write(b"320\r\n" + b" " * 800 + b"\r\n")  # and no end
        status, headers = await line.head()
        problem = json.loads(await line.body(headers))

    assert (status, headers["content-type"]) == (413, "application/problem+json")
    assert problem["type"] == "urn:advisor-gateway:body-too-large"


async def test_a_body_that_breaks_off_asks_the_model_nothing() -> None:
    model = ScriptedModel("Hi")
    async with served(create_app(Settings(), model=model, tools=[])) as address:
        async with Connection(address) as line:
            line.post("/chat", HELLO[:5], f"content-length: {len(HELLO)}")
        async with Connection(address) as line:
            line.post("/chat", HELLO)
            assert (await line.head())[0] == 200

    assert len(model.prompts) == 1


async def test_a_client_that_reads_nothing_does_not_hold_up_its_run_and_is_cut_off() -> None:
    piece = "x" * 250_000
    reply = Hesitant(" ".join([piece] * 100))  # more than any socket takes
    settings = Settings(stream={"commit_after": 0}, runs={"max_bytes": 1_000_000})
    app = create_app(settings, model=ScriptedModel(reply), tools=[])
    async with served(app) as address, Connection(address) as slow, Connection(address) as other:
        slow.post("/chat/stream", json.dumps({"message": "Hello", "on_disconnect": "continue"}).encode())
        _, headers = await slow.head()
        run = headers["location"].removesuffix("/events")
        reply.go_on.set()
        status = "running"
        while status == "running":
            other.get(run)
            _, described = await other.head()
            status = json.loads(await other.body(described))["status"]
        chunk = written = await slow.chunk()
        while chunk:
            written, chunk = chunk, await slow.chunk()

    assert status == "completed"
    assert written.startswith(b"event: stream.cut_off\n")
