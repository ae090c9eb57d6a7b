"""A memory that cannot be asked: callers are told before the model is asked, and no turn is lost in silence."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest

from app.main import create_app
from app.memory.sql import Database, SqlChatMemory, migrate
from app.providers.scripted import ScriptedModel
from app.settings import Settings
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.openapi import Page
from tests.support.postgres_server import PostgresServer
from tests.support.web import Reply, ask, gateway
from tests.web.conversations import problem, say
from tests.web.runs.asking import AT_ONCE, line

TRIP = {"conversation_id": "trip"}
UNAVAILABLE = "urn:advisor-gateway:memory-unavailable"

Outage: TypeAlias = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Remembering:
    """A memory, and how it is made to fail.

    Attributes:
        memory: a store.
        unreadable: a block in which it can neither be read nor written.
        unwritable: a block in which it cannot be written.
    """

    memory: SqlChatMemory
    unreadable: Outage
    unwritable: Outage


@pytest.fixture(params=["SQLite", *(pytest.param(how, marks=pytest.mark.server) for how in ("stopped", "frozen"))])
async def remembering(request: pytest.FixtureRequest, tmp_path: Path) -> Remembering:
    if request.param == "SQLite":
        file = tmp_path / "gateway.db"
        return Remembering(
            SqlChatMemory(Database(str(file), timeout=0.2)), lambda: without_turns(file), lambda: locked(file)
        )
    server: PostgresServer = request.getfixturevalue("postgres")
    database = Database(str(request.getfixturevalue("postgres_url")), timeout=1.0)
    await migrate(database)
    down = stopped if request.param == "stopped" else frozen
    return Remembering(SqlChatMemory(database), lambda: down(server), lambda: down(server))


def _another(file: Path) -> sqlite3.Connection:
    """A connection of somebody else's; an outage may end in another thread than it began in."""
    return sqlite3.connect(file, isolation_level=None, timeout=PATIENCE, check_same_thread=False)


@contextmanager
def without_turns(file: Path) -> Iterator[None]:
    """A file that lacks a table for a while."""
    with closing(_another(file)) as other:
        other.execute("ALTER TABLE turns RENAME TO hidden")
        try:
            yield
        finally:
            other.execute("ALTER TABLE hidden RENAME TO turns")


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """A file that another process is writing to."""
    with closing(_another(file)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    """A server that is restarted."""
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def frozen(server: PostgresServer) -> Iterator[None]:
    """A server that does not answer."""
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


@asynccontextmanager
async def during(outage: Outage) -> AsyncIterator[None]:
    """A block of an outage, which begins and ends beside the event loop."""
    down = outage()
    await asyncio.to_thread(down.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(down.__exit__, None, None, None)


@asynccontextmanager
async def asking(remembering: Remembering, model: ScriptedModel) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway(model, memory=remembering.memory, settings={"stream": AT_ONCE}) as client:
        yield client


def turns(document: dict[str, list[dict[str, list[dict[str, str]]]]]) -> list[list[str]]:
    return [[message["content"] for message in turn["messages"]] for turn in document["turns"]]


async def remembered(client: httpx.AsyncClient) -> list[list[str]]:
    """What is remembered of the conversation."""
    response = await client.get("/conversations/trip")
    assert response.status_code == 200, response.text
    return turns(response.json())


def told(reply: Reply, *, stream: bool) -> None:
    """The caller was told what is wrong, and when to come back."""
    assert reply.document["type"] == UNAVAILABLE
    assert reply.document["status"] == 503
    assert reply.document["retry_after"] == 2
    assert reply.document["detail"] == "the memory of conversations cannot be asked right now; try again in a moment"
    if stream and reply.status == 200:
        assert reply.names[-1] == "run.failed"
        assert "run.completed" not in reply.names
    else:
        assert (reply.status, reply.headers["retry-after"]) == (503, "2")


@both_modes
async def test_where_the_memory_cannot_be_read_the_model_is_not_asked(
    remembering: Remembering, *, stream: bool
) -> None:
    model = ScriptedModel("Fine.", "Here again.")
    async with asking(remembering, model) as client:
        await say(client, "One")
        async with during(remembering.unreadable):
            refused = await ask(client, "Two", stream=stream, **TRIP)
        told(refused, stream=stream)
        assert len(model.prompts) == 1
        answered = await ask(client, "Three", stream=stream, **TRIP)

        assert (answered.status, answered.document["content"]) == (200, "Here again.")
        assert await remembered(client) == [["One", "Fine."], ["Three", "Here again."]]


@both_modes
async def test_a_turn_that_cannot_be_stored_is_an_error_to_its_caller(
    remembering: Remembering, *, stream: bool
) -> None:
    reply = Hesitant("Lost.")
    model = ScriptedModel("Fine.", reply, "Here again.")
    async with asking(remembering, model) as client:
        await say(client, "One")
        waiting = asyncio.create_task(ask(client, "Two", stream=stream, **TRIP))
        await reply.asked.wait()
        async with during(remembering.unwritable):
            reply.go_on.set()
            failed = await waiting
        told(failed, stream=stream)
        if stream:
            assert "".join(delta["text"] for delta in failed.of("text.delta")) == "Lost."
        assert await remembered(client) == [["One", "Fine."]]
        await say(client, "Three")

        assert await remembered(client) == [["One", "Fine."], ["Three", "Here again."]]
        assert [message.content for message in model.prompts[-1].messages] == ["One", "Fine.", "Three"]  # type: ignore[union-attr] # there are no results


async def test_a_run_without_readers_tells_that_its_turn_was_not_stored(remembering: Remembering) -> None:
    reply = Hesitant("Lost.")
    async with asking(remembering, ScriptedModel(reply)) as client:
        begun = await client.post("/chat", json={"message": "One", "background": True, **TRIP})
        await reply.asked.wait()
        async with during(remembering.unwritable):
            reply.go_on.set()
            await line(client, "failed", conversation_id="trip")
        run = (await client.get(begun.headers["location"])).json()

    assert (run["status"], run["problem"]["type"], run["answer"]) == ("failed", UNAVAILABLE, None)


async def test_who_wants_nothing_remembered_is_served_all_the_same(remembering: Remembering) -> None:
    async with asking(remembering, ScriptedModel("Fine.")) as client, during(remembering.unreadable):
        reply = await ask(client, "One", stream=False)
        ready = await client.get("/readyz")

    assert (reply.status, reply.document["content"]) == (200, "Fine.")
    assert ready.status_code == 200


async def test_conversations_cannot_be_looked_at_meanwhile(remembering: Remembering) -> None:
    page = Page(create_app(Settings(), model=ScriptedModel(), tools=[]).openapi())
    async with asking(remembering, ScriptedModel("Fine.")) as client:
        await say(client, "One")
        async with during(remembering.unreadable):
            responses = await asyncio.gather(
                client.get("/conversations"),
                client.get("/conversations/trip"),
                client.delete("/conversations/trip"),
                client.post("/conversations/trip/fork", json={}),
            )
        for response in responses:
            page.check(response)
            assert problem(response) == (503, "memory-unavailable")
            assert response.headers["retry-after"] == "2"

        assert await remembered(client) == [["One", "Fine."]]
        assert len((await client.get("/conversations")).json()["conversations"]) == 1
