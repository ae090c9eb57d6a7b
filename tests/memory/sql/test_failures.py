"""Databases that fail, are locked, or are called off: a turn is there whole or not at all, and the next one is kept."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import QueuePool, text

from app.memory import ConversationStore, MemoryUnavailable
from app.memory.sql import Database, SqlChatMemory, migrate
from app.memory.sql.postgresql import PostgresqlServer
from app.memory.sql.sqlite import SqliteFile
from tests.memory.conftest import Opening
from tests.memory.histories import plain_turn, tool_turn
from tests.support.gates import PATIENCE

REFUSALS = {
    "SQLite": """CREATE TRIGGER no BEFORE INSERT ON turns WHEN NEW.number = 3
                 BEGIN SELECT RAISE(ABORT, 'no third turn'); END""",
    "PostgreSQL": "ALTER TABLE turns ADD CONSTRAINT no_third CHECK (number <> 3)",
}
"""What makes a database fail within the appending of a third turn, after other statements of it."""


async def refuse_third_turns(address: str) -> None:
    database = Database(address)
    refusal = REFUSALS["SQLite" if database.is_sqlite else "PostgreSQL"]
    await database.write(lambda connection: connection.execute(text(refusal)))
    await database.aclose()


@pytest.fixture
def own_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that the test may spoil."""
    if request.param == "PostgreSQL":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "own.db")


each_database = pytest.mark.parametrize(
    "own_database", ["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.server)], indirect=True
)


@pytest.fixture
async def own_store(own_database: str) -> AsyncIterator[ConversationStore]:
    database = Database(own_database)
    await migrate(database)
    store = SqlChatMemory(database)
    yield store
    await store.aclose()


@each_database
@pytest.mark.fault("M10")
async def test_a_turn_that_fails_half_way_leaves_nothing_behind(
    own_database: str, own_store: ConversationStore, caplog: pytest.LogCaptureFixture
) -> None:
    await refuse_third_turns(own_database)
    for number in (1, 2):
        await own_store.append("barley", plain_turn(number))
    before = await own_store.read("barley")
    with caplog.at_level(logging.DEBUG, "app"), pytest.raises(MemoryUnavailable) as failed:
        await own_store.append("barley", tool_turn(3))
    with pytest.raises(MemoryUnavailable):
        await own_store.append("new", (*plain_turn(1), *plain_turn(2), *plain_turn(3)))

    assert await own_store.read("barley") == before
    assert [one.id for one in await own_store.page(9)] == ["barley"]
    assert str(failed.value) == "the memory of conversations cannot be asked right now; try again in a moment"
    assert "barley" not in caplog.text
    assert "field" not in caplog.text
    assert "the memory's database failed: " in caplog.text


@each_database
async def test_an_error_does_not_keep_what_was_to_be_remembered(
    own_database: str, own_store: ConversationStore
) -> None:
    await refuse_third_turns(own_database)
    with pytest.raises(MemoryUnavailable) as failed:
        await own_store.append("new", (*plain_turn(1), *plain_turn(2), *plain_turn(3)))

    behind: BaseException | None = failed.value
    while behind is not None:
        assert "field" not in repr(vars(behind))
        assert "field" not in str(behind)
        behind = behind.__cause__ or behind.__context__


def in_use(database: Database) -> int:
    """How many connections were not given back."""
    backend = database._backend
    assert isinstance(backend, SqliteFile | PostgresqlServer)
    assert isinstance(backend._engine.pool, QueuePool)
    return backend._engine.pool.checkedout()


async def after(moments: int, work: asyncio.Task[Any]) -> bool:
    """Let a task go on for some moments, each as long as it takes to ask a thread. Whether it has ended meanwhile."""
    for _ in range(moments):
        if work.done():
            break
        await asyncio.to_thread(int)
    return work.done()


@pytest.mark.fault("M10", "M12")
async def test_a_turn_that_is_called_off_at_any_moment_is_there_whole_or_not_at_all_and_nothing_stays_locked(
    database: str, open_database: Opening
) -> None:
    opened = Database(database)
    store, other = SqlChatMemory(opened), await open_database()
    outcomes, moments, ended = set(), 0, False
    while not ended:
        await other.clear("barley")
        await other.append("barley", plain_turn(1))
        work = asyncio.create_task(store.append("barley", tool_turn(2)))
        if not (ended := await after(moments, work)):
            work.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([work])
        kept = [turn.messages for turn in (await other.read("barley")).turns]
        assert kept in ([plain_turn(1)], [plain_turn(1), tool_turn(2)])
        outcomes.add((work.cancelled(), len(kept)))
        await other.append("barley", plain_turn(3))
        await store.append("barley", plain_turn(4))
        assert in_use(opened) == 0
        moments += 1

    assert (True, 1) in outcomes
    assert (False, 2) in outcomes
    await store.aclose()


async def test_reading_that_is_called_off_at_any_moment_gives_its_connection_back(
    database: str, open_database: Opening
) -> None:
    opened = Database(database)
    store = SqlChatMemory(opened)
    await store.append("barley", tool_turn(1))
    moments, ended = 0, False
    while not ended:
        work = asyncio.ensure_future(store.get("barley"))
        if not (ended := await after(moments, work)):
            work.cancel()
        await asyncio.wait([work])
        assert in_use(opened) == 0
        moments += 1

    assert await store.get("barley") == tool_turn(1)
    await store.aclose()


@each_database
async def test_a_database_that_nobody_has_asked_can_be_closed_and_be_asked_then(own_database: str) -> None:
    database = Database(own_database)
    await database.aclose()

    assert await database.read(lambda connection: connection.execute(text("SELECT 7")).scalar_one()) == 7
    await database.aclose()


async def test_no_thread_is_left_behind_where_a_store_is_closed(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = SqlChatMemory(Database(str(tmp_path / "gateway.db")))
    await store.start()
    await asyncio.gather(*(store.append("barley", plain_turn(number)) for number in range(5)))
    await asyncio.gather(*(store.get("barley") for _ in range(20)))
    ours = [thread for thread in threading.enumerate() if thread not in before and "asyncio" not in thread.name]
    await store.aclose()
    for thread in ours:
        thread.join(PATIENCE)

    assert len(ours) > 1
    assert not any(thread.is_alive() for thread in ours)
