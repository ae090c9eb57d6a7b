"""Databases that cannot be used for a while, and those that cannot be used at all."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg  # type: ignore[import-untyped] # it has none
import pytest
from sqlalchemy import text

from app.memory import ConversationStore, MemoryUnavailable
from app.memory.sql import Database, SqlChatMemory, migrate
from tests.memory.histories import plain_turn, tool_turn
from tests.support.gates import PATIENCE
from tests.support.postgres_server import PostgresServer

SHORT = 0.3
"""Seconds after which a database that does not answer has failed, in these tests."""


@contextmanager
def locked(file: Path, how: str = "IMMEDIATE") -> Iterator[None]:
    """A file that another process writes to, and goes on to."""
    holder = sqlite3.connect(file, isolation_level=None)
    if how == "EXCLUSIVE":
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute(f"BEGIN {how}")
    holder.execute("DELETE FROM turns WHERE number < 0")
    try:
        yield
    finally:
        holder.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "gateway.db"


@pytest.fixture
async def in_file(file: Path) -> AsyncIterator[ConversationStore]:
    """A store in a file, with a turn of a conversation."""
    store = SqlChatMemory(Database(str(file), timeout=SHORT))
    await store.start()
    await store.append("barley", plain_turn(1))
    yield store
    await store.aclose()


@pytest.fixture
async def on_server(postgres_url: str) -> AsyncIterator[ConversationStore]:
    """A store in PostgreSQL, with a turn of a conversation."""
    database = Database(postgres_url, timeout=1.0)
    await migrate(database)
    store = SqlChatMemory(database)
    await store.append("barley", plain_turn(1))
    yield store
    await store.aclose()


EVERYTHING: dict[str, Callable[[ConversationStore], Awaitable[object]]] = {
    "get": lambda store: store.get("barley"),
    "append": lambda store: store.append("barley", plain_turn(2)),
    "clear": lambda store: store.clear("barley"),
    "read": lambda store: store.read("barley"),
    "page": lambda store: store.page(9),
    "fork": lambda store: store.fork("barley", "rye"),
    "ping": lambda store: store.ping(),
}


async def test_who_writes_to_a_file_waits_for_another_process_that_does(in_file: ConversationStore, file: Path) -> None:
    with locked(file):
        assert await in_file.get("barley") == plain_turn(1), "reading waits for nobody"
        waiting = asyncio.create_task(in_file.append("barley", plain_turn(2)))
        await asyncio.to_thread(int)
        assert not waiting.done()
    await waiting

    assert await in_file.get("barley") == (*plain_turn(1), *plain_turn(2))


async def test_a_file_that_stays_locked_is_unavailable_and_nobody_waits_for_those_before(
    in_file: ConversationStore, file: Path
) -> None:
    with locked(file):
        async with asyncio.timeout(PATIENCE):  # and not ten times as long as one waits
            failed = await asyncio.gather(
                *(in_file.append("barley", plain_turn(number)) for number in range(2, 100)), return_exceptions=True
            )
    assert {type(error) for error in failed} == {MemoryUnavailable}

    assert await in_file.get("barley") == plain_turn(1)
    await in_file.append("barley", plain_turn(2))


async def test_who_is_called_off_while_a_file_is_locked_stores_nothing_afterwards(
    in_file: ConversationStore, file: Path
) -> None:
    with locked(file):
        waiting = [asyncio.create_task(in_file.append("barley", plain_turn(number))) for number in (2, 3)]
        await asyncio.to_thread(int)
        for one in waiting:
            one.cancel()
        await asyncio.to_thread(int)
    await asyncio.wait(waiting)
    await in_file.append("barley", plain_turn(4))

    assert all(one.cancelled() for one in waiting)
    assert await in_file.get("barley") == (*plain_turn(1), *plain_turn(4))


@pytest.mark.parametrize("name", EVERYTHING)
async def test_a_file_that_cannot_even_be_read_is_unavailable_until_it_can(file: Path, name: str) -> None:
    store = SqlChatMemory(Database(str(file), timeout=SHORT))
    await store.start()
    await store.append("barley", plain_turn(1))
    await store.aclose()
    with locked(file, "EXCLUSIVE"), pytest.raises(MemoryUnavailable):
        await EVERYTHING[name](store)

    await EVERYTHING[name](store)
    await store.aclose()


@pytest.mark.server
async def test_who_waits_too_long_for_another_that_adds_to_the_conversation_has_failed(
    on_server: ConversationStore, postgres_url: str
) -> None:
    holder = await asyncpg.connect(postgres_url)
    await holder.execute("BEGIN; SELECT 1 FROM conversations WHERE id = 'barley' FOR UPDATE")
    with pytest.raises(MemoryUnavailable):
        await on_server.append("barley", plain_turn(2))
    await on_server.append("rye", plain_turn(1))
    await holder.close()

    await on_server.append("barley", plain_turn(3))
    assert await on_server.get("barley") == (*plain_turn(1), *plain_turn(3))


@pytest.mark.server
@pytest.mark.parametrize("end", [PostgresServer.stop, PostgresServer.kill], ids=["stopped", "killed"])
async def test_a_server_that_ends_is_unavailable_until_it_is_there_again(
    on_server: ConversationStore, postgres: PostgresServer, end: Callable[[PostgresServer], None]
) -> None:
    await asyncio.gather(*(on_server.get("barley") for _ in range(10)))
    end(postgres)
    try:
        for ask in EVERYTHING.values():
            with pytest.raises(MemoryUnavailable):
                await ask(on_server)
    finally:
        postgres.start()

    assert await asyncio.gather(*(on_server.get("barley") for _ in range(20))) == [plain_turn(1)] * 20
    await on_server.append("barley", plain_turn(2))
    assert await on_server.get("barley") == (*plain_turn(1), *plain_turn(2))


@pytest.mark.server
@pytest.mark.parametrize("end", [PostgresServer.stop, PostgresServer.kill], ids=["stopped", "killed"])
async def test_a_server_that_ends_under_load_has_every_turn_that_was_confirmed_once_and_none_in_parts(
    on_server: ConversationStore, postgres: PostgresServer, end: Callable[[PostgresServer], None]
) -> None:
    confirmed: list[int] = []
    refused: list[int] = []
    down = asyncio.Event()

    async def writing(first: int) -> None:
        for number in range(first, first + 100):
            try:
                await on_server.append("load", tool_turn(number))
                confirmed.append(number)
            except MemoryUnavailable:
                refused.append(number)
                return
            if len(confirmed) > 50:
                down.set()

    writers = [asyncio.create_task(writing(first * 1000)) for first in range(8)]
    await asyncio.wait_for(down.wait(), PATIENCE)
    await asyncio.to_thread(end, postgres)
    await asyncio.to_thread(postgres.start)
    await asyncio.wait(writers)
    kept = await on_server.read("load")

    by_words = {tool_turn(number)[0]: number for number in (*confirmed, *refused)}
    found = [by_words[turn.messages[0]] for turn in kept.turns]
    assert [turn.messages for turn in kept.turns] == [tool_turn(number) for number in found]
    assert len(set(found)) == len(found)
    newest = set(confirmed[-40:])  # older ones have left the window
    assert newest <= set(found)
    assert set(found) <= {*confirmed, *refused}


@pytest.mark.server
async def test_a_server_that_answers_nothing_is_unavailable_in_time_and_connections_are_not_used_up(
    on_server: ConversationStore, postgres: PostgresServer
) -> None:
    await asyncio.gather(*(on_server.get("barley") for _ in range(10)))
    postgres.freeze()
    try:
        async with asyncio.timeout(PATIENCE):
            asked = [on_server.get("barley") for _ in range(40)]
            failed = await asyncio.gather(*asked, return_exceptions=True)
    finally:
        postgres.thaw()
    assert {type(error) for error in failed} == {MemoryUnavailable}

    assert await asyncio.gather(*(on_server.get("barley") for _ in range(40))) == [plain_turn(1)] * 40
    idle = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'advisor-gateway' AND state <> 'idle'"
    assert postgres.execute(idle) == "0"


@pytest.mark.server
async def test_a_store_is_closed_in_time_though_its_server_does_not_answer(
    on_server: ConversationStore, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.gather(*(on_server.get("barley") for _ in range(10)))
    postgres.freeze()
    try:
        async with asyncio.timeout(PATIENCE):  # and not ten seconds for each connection
            await on_server.aclose()
    finally:
        postgres.thaw()

    assert caplog.text == ""
    assert await on_server.get("barley") == plain_turn(1)


@pytest.mark.server
async def test_what_a_process_holds_that_was_cut_off_is_let_go_of(postgres_url: str, postgres: PostgresServer) -> None:
    database = Database(postgres_url)
    asked = text("SHOW idle_in_transaction_session_timeout")
    assert await database.read(lambda connection: connection.execute(asked).scalar_one()) == "30s"
    await database.aclose()
