"""A SQLite file is worked on in threads: who waits for one, what they know of who asks, and what they leave behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from app.memory import MemoryUnavailable
from app.memory.sql import Database
from tests.support.gates import PATIENCE

asking: ContextVar[str] = ContextVar("asking", default="nobody")


class Held:
    """Work that stays in its thread until it is let go of."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self._go = threading.Event()

    def __call__(self, connection: Connection) -> int:
        self.begun.release()
        assert self._go.wait(PATIENCE)
        return int(connection.execute(text("SELECT 7")).scalar_one())

    async def has_begun(self) -> None:
        """Wait until it is in a thread, one more than the last time."""
        assert await asyncio.to_thread(self.begun.acquire, timeout=PATIENCE)

    def let_go(self) -> None:
        """Let all of it end."""
        self._go.set()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(str(tmp_path / "gateway.db"), timeout=0.3)
    yield opened
    await opened.aclose()


async def test_who_may_read_at_the_same_moment_has_a_limit_and_who_waits_too_long_is_told(database: Database) -> None:
    held = Held()
    reading = [asyncio.create_task(database.read(held)) for _ in range(8)]
    for _ in reading:
        await held.has_begun()
    with pytest.raises(MemoryUnavailable):
        await database.read(Held())
    await database.write(lambda connection: connection.execute(text("CREATE TABLE barley (id INTEGER)")))
    held.let_go()

    assert await asyncio.gather(*reading) == [7] * 8


async def test_what_is_done_in_a_thread_belongs_to_who_asks(database: Database) -> None:
    asking.set("harbour")

    assert await database.read(lambda _: asking.get()) == "harbour"
    assert await database.write(lambda _: asking.get()) == "harbour"


async def test_who_is_cancelled_twice_does_not_wait_and_nothing_is_kept_or_told(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held()

    def work(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE barley (id INTEGER)"))
        held(connection)

    writing = asyncio.create_task(database.write(work))
    await held.has_begun()
    for _ in range(2):
        writing.cancel()
        await asyncio.to_thread(int)
    assert writing.cancelled()
    held.let_go()
    tables = text("SELECT count(*) FROM sqlite_master")

    assert await database.write(lambda connection: connection.execute(tables).scalar_one()) == 0
    del writing  # and with it what it waited for
    gc.collect()
    assert caplog.text == ""


async def test_closing_waits_for_what_was_begun(database: Database) -> None:
    held = Held()
    reading = asyncio.create_task(database.read(held))
    await held.has_begun()
    closing = asyncio.create_task(database.aclose())
    await asyncio.to_thread(int)
    assert not closing.done()
    held.let_go()
    await closing

    assert await reading == 7
    assert await database.read(lambda connection: connection.execute(text("SELECT 1")).scalar_one()) == 1, "used again"
