"""What tests of runs share: stores and journals of every kind, and a time that need not be waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeAlias

import pytest

from app.runs import InMemoryJournal, InMemoryRunStore, Journal, JournalLimits, Retention, RunStore
from app.runs.redis import RedisRunStore
from app.runs.redis.connection import Connection
from app.runs.redis.journal import RedisJournal
from app.runs.redis.mirror import MirroredJournal
from tests.support.loop_time import LoopTime

Opening: TypeAlias = Callable[..., Awaitable[RunStore]]
"""Opens a store with a retention. All that one test opens in Redis share what is there."""

_REDIS = pytest.mark.server


@pytest.fixture
async def time(monkeypatch: pytest.MonkeyPatch) -> LoopTime:
    """The time of the test's event loop."""
    return LoopTime(monkeypatch)


@pytest.fixture(params=["in memory", pytest.param("in Redis", marks=_REDIS)])
async def open_store(request: pytest.FixtureRequest) -> AsyncIterator[Opening]:
    """Opens a store, each of every kind."""
    url = request.getfixturevalue("redis_url") if request.param == "in Redis" else None

    async def opened(retention: Retention | None = None) -> RunStore:
        store: RunStore = InMemoryRunStore(retention=retention) if url is None else RedisRunStore(url, None, retention)
        await store.start()
        closing.push_async_callback(store.aclose)
        return store

    async with AsyncExitStack() as closing:
        yield opened


@pytest.fixture
async def store(open_store: Opening) -> RunStore:
    """An empty store, each of every kind."""
    return await open_store()


@pytest.fixture(params=["in memory", pytest.param("in Redis", marks=_REDIS), pytest.param("mirrored", marks=_REDIS)])
async def new_journal(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Journal]]:
    """Makes an empty journal, each of every kind."""
    if request.param == "in memory":
        yield InMemoryJournal
        return
    connection = Connection(request.getfixturevalue("redis_url"))
    mirrors: list[MirroredJournal] = []

    def made(limits: JournalLimits | None = None) -> Journal:
        far = RedisJournal(connection, connection.key("journal", str(len(mirrors))))
        mirrors.append(MirroredJournal(InMemoryJournal(limits), far, print, attached=True))
        return far if request.param == "in Redis" else mirrors[-1]

    yield made
    for mirror in mirrors:
        await mirror.settled(0)
    await connection.aclose()


@pytest.fixture
def journal(new_journal: Callable[..., Journal]) -> Journal:
    """An empty journal, each of every kind."""
    return new_journal()
