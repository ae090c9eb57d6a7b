"""Runs that replicas share, where Redis answers late, not at all, or has forgotten: what a store makes of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from app.runs import LocalRun, RunGone, RunNotFound, SharedStateUnavailable
from app.runs.redis.store import RedisRunStore
from app.runs.run import new_run_id
from tests.runs.redis.journals import Follower
from tests.runs.redis.parts import Happening, Meddled, unanswered
from tests.runs.test_run_stores import Begun, Chain, begin, until
from tests.support.loop_time import LoopTime

pytestmark = pytest.mark.server

LEASE = 600.0
"""So long that nothing is done by itself."""


class Replica:
    """A replica that does nothing by itself.

    Attributes:
        store: its runs.
        connection: its connection.
    """

    def __init__(self, store: RedisRunStore) -> None:
        assert isinstance(store._connection, Meddled)
        self.store = store
        self.connection = store._connection

    async def is_here(self) -> None:
        """Let others know that it is there."""
        await self.connection.redis.set(self.connection.key("replica", self.store._replicas.id), "here")

    async def begun(self, conversation_id: str | None = None) -> Begun:
        """A run whose first event is in Redis."""
        begun = await begin(self.store, conversation_id=conversation_id)

        async def has_begun() -> bool:
            return (await begun.run.journal.span()).last == 1

        await until(has_begun)
        return begun

    def knows(self, run: LocalRun) -> bool:
        """Whether a run is kept in the process."""
        return run.id in self.store._mine

    def record(self, run_id: str) -> str:
        """What Redis knows of a run by."""
        return self.connection.key("run", run_id)


@pytest.fixture
async def replica(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Replica]]:
    """Makes replicas that share what there is."""
    monkeypatch.setattr("app.runs.redis.store.Connection", Meddled)
    monkeypatch.setattr("app.runs.redis.store.PAUSE", 0.01)
    async with AsyncExitStack() as closing:

        def made(lease: float = LEASE) -> Replica:
            one = Replica(RedisRunStore(redis_url, lease=lease))
            closing.push_async_callback(one.store.aclose)
            return one

        yield made


@pytest.fixture
async def here(replica: Callable[..., Replica]) -> Replica:
    return replica()


@pytest.fixture
async def there(replica: Callable[..., Replica]) -> Replica:
    """Another one."""
    return replica()


def times(connection: Meddled, question: str, *happenings: Happening) -> None:
    """Let something happen before each of the next questions of a kind."""
    first, *others = happenings

    async def happens() -> None:
        if others:
            times(connection, question, *others)
        await first()

    connection.before(question, happens)


async def nothing() -> None:
    """Happens where all is as ever."""


# --- beginning


async def test_a_run_that_was_told_to_end_before_others_knew_of_it_ends_at_once(here: Replica, there: Replica) -> None:
    run_id = new_run_id()
    await here.store.enter("c", run_id, "queue")
    await there.store.enter("c", new_run_id(), "cancel_previous")
    run = LocalRun(Chain().events(), run_id=run_id, journal=here.store.journal(run_id))

    await here.store.add(run, None, shared=True)

    assert run.is_ending


async def test_a_run_that_does_not_begin_is_dropped_though_redis_cannot_be_told(
    here: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    begun = await here.begun()
    index = here.connection.key("runs")
    await here.connection.redis.set(index, "no list")

    await here.store.drop(begun.run)

    assert not here.knows(begun.run)
    assert f"Redis cannot be told that {begun.id} does not begin" in caplog.text
    await here.connection.redis.delete(index)
    with pytest.raises(RunNotFound):
        await here.store.get(begun.id)


async def test_a_run_that_does_not_begin_is_dropped_while_nobody_answers(here: Replica) -> None:
    begun = await here.begun()
    here.connection.is_cut = True

    await here.store.drop(begun.run)

    assert not here.knows(begun.run)


# --- ending


@pytest.mark.parametrize("failures", [1, 2, 3])
async def test_an_end_that_is_not_heard_is_told_again_until_it_is(
    here: Replica, there: Replica, failures: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    begun = await here.begun()
    times(here.connection, "script", nothing, *[unanswered] * failures)  # behind the last event

    await begun.end()

    async def is_forgotten() -> bool:
        return not here.knows(begun.run)

    await until(is_forgotten)
    assert caplog.text.count(f"Redis is told later that {begun.id} has ended") == 1
    record = await there.store._records.find(begun.id)
    assert record is not None
    assert (record.status, record.ended_at) == ("completed", begun.run.ended_at)


async def test_an_end_that_redis_refuses_is_told_once_and_the_run_is_not_kept_for_it(
    here: Replica, there: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    begun = await here.begun()
    await here.connection.redis.set(here.record(begun.id), "no record")

    await begun.end()

    assert not here.knows(begun.run)
    assert f"it cannot be written down that {begun.id} has ended" in caplog.text
    await here.connection.redis.delete(here.record(begun.id))
    with pytest.raises(RunNotFound):
        await there.store.get(begun.id)


async def test_of_ends_that_cannot_be_told_the_oldest_are_given_up(
    here: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.runs.redis.store._UNTOLD", 2)
    begun = [await here.begun() for _ in range(4)]
    here.connection.is_cut = True

    for one in begun:
        await one.end()

    assert [here.knows(one.run) for one in begun] == [False, False, True, True]
    with pytest.raises(SharedStateUnavailable):
        await here.store.get(begun[0].id)
    assert await here.store.get(begun[3].id) is begun[3].run


async def test_an_end_that_cannot_be_told_for_as_long_as_it_would_be_kept_is_given_up(
    time: LoopTime, here: Replica
) -> None:
    begun = await here.begun()
    here.connection.is_cut = True
    await begun.end()
    before = here.knows(begun.run)

    await time.passes(601)

    assert (before, here.knows(begun.run)) == (True, False)


async def test_an_end_that_is_told_twice_counts_once(
    here: Replica, there: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    begun = await here.begun()
    await begun.end()
    first = await there.store.get(begun.id)

    await here.store.end(begun.run)

    assert (await there.store.get(begun.id)).ended_at == first.ended_at
    assert (here.knows(begun.run), caplog.records) == (False, [])


async def test_nobody_need_be_asked_whether_a_run_that_has_ended_is_lost(here: Replica) -> None:
    begun = await here.begun()
    await begun.end()
    before = here.connection.asked.total()

    await here.store.confirm(begun.id)

    assert here.connection.asked.total() == before


async def test_an_end_is_known_though_redis_had_forgotten_the_run(here: Replica, there: Replica) -> None:
    begun = await here.begun()
    await here.connection.redis.delete(here.record(begun.id))

    await begun.end()

    found = await there.store.get(begun.id)
    assert (found.status, found.created_at) == ("completed", begun.run.created_at)


# --- reading elsewhere


async def test_nobody_counts_as_a_reader_elsewhere_while_nobody_answers(here: Replica, there: Replica) -> None:
    begun = await here.begun()
    await there.is_here()
    await (await there.store.get(begun.id)).enter()
    assert await here.store.is_read_elsewhere(begun.run)

    here.connection.is_cut = True

    assert not await here.store.is_read_elsewhere(begun.run)


async def test_a_run_that_is_read_elsewhere_is_looked_at_again_lest_its_readers_vanish(
    time: LoopTime, here: Replica, there: Replica
) -> None:
    begun = await here.begun()
    await there.is_here()
    await (await there.store.get(begun.id)).enter()
    for _ in range(2):
        assert await here.store.is_read_elsewhere(begun.run)
    before = begun.run.is_ending

    await time.passes(LEASE + 1)

    assert (before, begun.run.is_ending) == (False, True), "its readers here were counted, and there are none"
    await begun.end()
    assert begun.run.status == "cancelled"


async def test_a_reader_of_a_run_that_redis_has_forgotten_waits_until_it_is_told_again(
    here: Replica, replica: Callable[..., Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.runs.redis.journal.BLOCK", 0.01)
    begun, there = await here.begun(), replica(lease=0.01)
    remote = await there.store.get(begun.id)
    name, aside = here.record(begun.id), "aside"

    async def forgotten() -> None:
        await here.connection.redis.rename(name, aside)

    async def told_again() -> None:
        await here.connection.redis.rename(aside, name)

    times(there.connection, "execute", forgotten, told_again, begun.end)
    follower = Follower(remote.journal)

    assert await follower.rest() == [1, 2]


async def test_a_reader_of_a_run_that_nobody_tells_of_again_is_told_that_it_is_gone(
    here: Replica, replica: Callable[..., Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.runs.redis.journal.BLOCK", 0.01)
    begun, there = await here.begun(), replica(lease=0.01)
    follower = Follower((await there.store.get(begun.id)).journal)
    await follower.until(1)

    await here.connection.redis.flushdb()

    with pytest.raises(RunGone):
        await follower.rest()
