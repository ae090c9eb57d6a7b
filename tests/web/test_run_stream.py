"""The response that follows a run, under servers and clients that misbehave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from sse_starlette.sse import AppStatus
from starlette.types import Message

from app.chat import ChatRequest, ChatResponse, Prompt
from app.client import ChatClient
from app.providers.scripted import ScriptedModel
from app.runs import Entry, InMemoryJournal, LocalRun, Runs
from app.web import sse
from app.web.sse import PING, RunStream
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.web import Event, events_in

SCOPE = {"type": "http", "method": "POST", "path": "/chat/stream", "headers": []}
HEARTBEAT = 0.001


class Wire:
    """The server's side of one response: keeps what is sent, and can fail, stall or hang up."""

    def __init__(self, send: Any = None) -> None:
        self.sent: list[Message] = []
        self.hung_up = asyncio.Event()
        self._send = send

    async def receive(self) -> Message:
        """Nothing, until the client hangs up."""
        await self.hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Keep a message."""
        if self._send is not None:
            await self._send(message)
        self.sent.append(message)

    @property
    def text(self) -> str:
        """The body so far."""
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    @property
    def events(self) -> list[Event]:
        """The events so far."""
        return events_in(self.text)


def document(response: ChatResponse) -> dict[str, Any]:
    """A short answer."""
    return {"content": response.content}


def broken(_: ChatResponse) -> dict[str, Any]:
    """An answer that cannot be made."""
    raise ZeroDivisionError("secret inner state")


async def start(model: ScriptedModel) -> tuple[Runs, LocalRun]:
    """A run of its own."""
    runs = Runs(ChatClient(model))
    return runs, await runs.start(ChatRequest(Prompt.of("Hello"), stream=True))


def stream_of(
    runs: Runs, run: LocalRun, answer: Any = document, *, drain_time: float = 0.0, heartbeat: float | None = None
) -> RunStream:
    """The response that follows the run."""

    async def drain() -> None:
        await runs.drain(drain_time)

    return RunStream(run, run.readers.enter(), answer, heartbeat=heartbeat, drain=drain)


async def test_an_event_that_cannot_be_made_ends_the_stream_with_a_problem(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()
    runs, run = await start(ScriptedModel("Hi"))

    await stream_of(runs, run, broken)(SCOPE, wire.receive, wire.send)

    assert [event.id for event in wire.events] == [1, 2, 3, 4, 5]
    last = wire.events[-1]
    assert (last.name, last.data["type"]) == ("run.failed", "urn:advisor-gateway:internal")
    assert (last.data["run_id"], last.data["round"]) == (run.id, 1)
    assert "secret" not in wire.text
    assert [bool(record.exc_info) for record in caplog.records if record.levelno >= logging.ERROR] == [True]
    assert wire.sent[-1]["more_body"] is False


async def test_a_client_that_reads_nothing_is_given_up_and_its_run_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sse, "_STALLED", 0.001)
    reply = Hesitant()

    async def stall(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    runs, run = await start(ScriptedModel(reply))
    async with asyncio.timeout(PATIENCE):
        await stream_of(runs, run)(SCOPE, Wire().receive, Wire(stall).send)
        await reply.cancelled.wait()

    assert "it has read nothing" in caplog.text


async def test_a_client_that_does_not_even_read_the_comments_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sse, "_STALLED", 10 * HEARTBEAT)
    reply = Hesitant()

    async def stall(message: Message) -> None:
        if message.get("body") == PING:
            await asyncio.Event().wait()

    runs, run = await start(ScriptedModel(reply))
    async with asyncio.timeout(PATIENCE):
        await stream_of(runs, run, heartbeat=HEARTBEAT)(SCOPE, Wire().receive, Wire(stall).send)
        await reply.cancelled.wait()

    assert "it has read nothing" in caplog.text


async def test_while_the_server_stops_a_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AppStatus, "should_exit", True)
    reply, alive = Hesitant("At last."), asyncio.Event()

    async def note(message: Message) -> None:
        if message.get("body") == PING and runs.draining:
            alive.set()

    wire = Wire(note)
    runs, run = await start(ScriptedModel(reply))
    stream = stream_of(runs, run, drain_time=PATIENCE, heartbeat=HEARTBEAT)
    sending = asyncio.create_task(stream(SCOPE, wire.receive, wire.send))
    async with asyncio.timeout(PATIENCE):
        await alive.wait()
        reply.go_on.set()
        await sending

    assert wire.events[-1].data["content"] == "At last."


async def test_a_server_that_reports_a_lost_client_as_an_error_is_understood() -> None:
    reply = Hesitant()

    async def lost(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise OSError("connection lost")

    runs, run = await start(ScriptedModel(reply))
    async with asyncio.timeout(PATIENCE):
        await stream_of(runs, run)(SCOPE, Wire().receive, Wire(lost).send)
        await reply.cancelled.wait()


async def test_a_client_that_is_gone_before_the_first_byte_ends_the_run() -> None:
    reply, wire = Hesitant(), Wire()
    wire.hung_up.set()
    runs, run = await start(ScriptedModel(reply))

    async with asyncio.timeout(PATIENCE):
        await stream_of(runs, run)(SCOPE, wire.receive, wire.send)
        await run.task

    assert runs.active == 0


async def test_when_the_server_stops_the_stream_ends_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AppStatus, "should_exit", True)
    reply, wire = Hesitant(), Wire()
    runs, run = await start(ScriptedModel(reply))

    async with asyncio.timeout(PATIENCE):
        await stream_of(runs, run)(SCOPE, wire.receive, wire.send)

    assert wire.events[-1].name == "run.failed"
    assert wire.events[-1].data["type"] == "urn:advisor-gateway:shutting-down"
    assert runs.draining


async def test_when_the_server_stops_a_client_that_reads_nothing_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AppStatus, "should_exit", True)
    monkeypatch.setattr(sse, "_FAREWELL", 0.001)

    async def stall(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    runs, run = await start(ScriptedModel(Hesitant()))
    async with asyncio.timeout(PATIENCE):
        await stream_of(runs, run)(SCOPE, Wire().receive, Wire(stall).send)

    assert runs.draining


async def test_when_the_server_stops_a_run_may_still_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AppStatus, "should_exit", True)
    reply, wire = Hesitant("At last."), Wire()
    runs, run = await start(ScriptedModel(reply))
    sending = asyncio.create_task(stream_of(runs, run, drain_time=PATIENCE)(SCOPE, wire.receive, wire.send))
    await reply.asked.wait()
    reply.go_on.set()
    async with asyncio.timeout(PATIENCE):
        await sending

    assert wire.events[-1].data["content"] == "At last."


async def test_a_run_that_is_ended_from_outside_ends_its_stream_with_what_was_done() -> None:
    reply, wire = Hesitant(), Wire()
    runs, run = await start(ScriptedModel(reply))
    sending = asyncio.create_task(stream_of(runs, run)(SCOPE, wire.receive, wire.send))
    await reply.asked.wait()
    run.cancel()
    async with asyncio.timeout(PATIENCE):
        await sending

    assert wire.events[-1].name == "run.cancelled"
    assert wire.events[-1].data == {"content": "", "run_id": run.id, "round": 1}


async def later() -> None:
    """Wait for longer than the heartbeats of these tests."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(20 * HEARTBEAT, over.set)
    await over.wait()


async def test_a_write_that_takes_long_is_no_silence() -> None:
    reply = Hesitant()
    runs, run = await start(ScriptedModel(reply))

    async def slow(message: Message) -> None:
        if message["type"] == "http.response.body" and not run.task.done():
            await later()
            reply.go_on.set()
            await asyncio.wait([run.task])

    wire = Wire(slow)
    async with asyncio.timeout(PATIENCE):
        await stream_of(runs, run, heartbeat=HEARTBEAT)(SCOPE, wire.receive, wire.send)

    _, first, *others = wire.sent
    assert PING not in [message["body"] for message in others]
    assert first["body"]
    assert wire.events[-1].name == "run.completed"


async def test_the_end_of_a_response_waits_for_the_write_before_it() -> None:
    sent: list[Message] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(message: Message) -> None:
        if message.get("body"):
            begun.set()
            await go_on.wait()
        sent.append(message)

    line = sse._Line(slow, None, lambda: False)
    await line({"type": "http.response.start", "status": 200, "headers": []})
    writing = asyncio.create_task(line({"type": "http.response.body", "body": b"first", "more_body": True}))
    await begun.wait()
    ending = [asyncio.create_task(line.end()) for _ in range(2)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(writing, *ending)

    assert [message.get("body") for message in sent] == [None, b"first", b""]


class Broken(InMemoryJournal):
    """A journal that cannot be read."""

    async def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """See `Journal.follow`."""
        async for batch in super().follow(after):
            yield batch
            raise ZeroDivisionError


async def test_what_nobody_expects_reaches_the_server_as_it_is() -> None:
    client = ChatClient(ScriptedModel("Hi"))
    run = LocalRun(client.run(ChatRequest(Prompt.of("Hello"), stream=True)), journal=Broken()).begin()

    with pytest.raises(ZeroDivisionError):
        await stream_of(Runs(client), run)(SCOPE, Wire().receive, Wire().send)


class LateToEnd(InMemoryJournal):
    """A journal whose readers learn a while after its last entry that it was the last."""

    async def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """See `Journal.follow`."""
        async with aclosing(super().follow(after)) as batches:
            async for batch in batches:
                yield batch
        await later()


async def test_nothing_is_written_behind_the_end_of_the_run() -> None:
    wire, client = Wire(), ChatClient(ScriptedModel("Hi"))
    run = LocalRun(client.run(ChatRequest(Prompt.of("Hello"), stream=True)), journal=LateToEnd()).begin()

    async with asyncio.timeout(PATIENCE):
        await stream_of(Runs(client), run, heartbeat=HEARTBEAT)(SCOPE, wire.receive, wire.send)

    *_, last, end = wire.sent
    assert events_in(last["body"].decode())[-1].name == "run.completed"
    assert not last["body"].endswith(PING)
    assert end["body"] == b""
