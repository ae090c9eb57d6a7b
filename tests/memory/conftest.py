"""The stores that keep conversations; what is promised of one is shown of all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest

from app.memory import ConversationStore, InMemoryChatMemory, SummarizingMemory, Window
from app.memory.deferred import DeferredMemory
from app.memory.sql import Database, SqlChatMemory, migrate
from app.memory.turns import Messages
from tests.support.postgres_server import PostgresServer

Opening: TypeAlias = Callable[..., Awaitable[ConversationStore]]
"""Opens a store with a window. It is empty the first time, and what is in a database is there again the next time."""

_DATABASES = ["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.server)]
_KINDS = ["in memory", "summarizing", "deferred", *_DATABASES]


@pytest.fixture(scope="session")
def tables(postgres: PostgresServer) -> Iterator[str]:
    """The address of a database in PostgreSQL that many tests use one after the other."""
    with postgres.database() as name:
        yield postgres.url(name)


@pytest.fixture(params=_KINDS)
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opening]:
    """Opens a store, each of every kind."""
    async with AsyncExitStack() as closing:
        yield await _opening(request, tmp_path, closing)


@pytest.fixture
async def store(open_store: Opening) -> ConversationStore:
    """An empty store, each of every kind."""
    return await open_store()


@pytest.fixture(params=_DATABASES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that is up to date and empty."""
    return await _emptied(request, tmp_path)


@pytest.fixture
async def open_database(database: str) -> AsyncIterator[Opening]:
    """Opens stores in one database, each as if it were in a process of its own."""
    async with AsyncExitStack() as closing:
        yield _opener(lambda window: SqlChatMemory(Database(database), window), closing)


async def _opening(request: pytest.FixtureRequest, folder: Path, closing: AsyncExitStack) -> Opening:
    if request.param in {"in memory", "summarizing"}:
        return _opener(_summarizing if request.param == "summarizing" else _in_memory, closing)
    if request.param == "deferred":
        path = str(folder / "gateway.db")
        return _opener(lambda window: DeferredMemory(path, lambda: SqlChatMemory(Database(path), window)), closing)
    address = await _emptied(request, folder)
    return _opener(lambda window: SqlChatMemory(Database(address), window), closing)


def _opener(make: Callable[[Window], ConversationStore], closing: AsyncExitStack) -> Opening:
    async def opened(window: Window | None = None) -> ConversationStore:
        store = make(window or Window())
        await store.start()
        closing.push_async_callback(store.aclose)
        return store

    return opened


def _in_memory(window: Window) -> ConversationStore:
    return InMemoryChatMemory(window.messages, max_tokens=window.tokens)


def _summarizing(window: Window) -> ConversationStore:
    return SummarizingMemory(_in_memory(window), Window(10**6), _unwanted)


async def _unwanted(summary: str | None, said: Messages) -> str:
    raise AssertionError(f"nothing is to be summed up: {summary}, {said}")


_MADE: dict[str, bytes] = {}
"""An empty database in SQLite, made once."""


async def _emptied(request: pytest.FixtureRequest, folder: Path) -> str:
    file = folder / "gateway.db"
    if request.param == "PostgreSQL":
        address = str(request.getfixturevalue("tables"))
        await _empty(address)
        return address
    if not _MADE:
        await _empty(str(file))
        _MADE["empty"] = _bytes_of(file)
    _write(file, _MADE["empty"])
    return str(file)


async def _empty(address: str) -> None:
    database = Database(address)
    await migrate(database)
    await SqlChatMemory(database).prune(datetime.max.replace(tzinfo=UTC))
    await database.aclose()


def _bytes_of(file: Path) -> bytes:
    return file.read_bytes()


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
