"""A journal that is copied to Redis: what its readers see others find there, and an outage holds nobody up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

import pytest

from app.chat import TextDelta
from app.runs import EventsGone, InMemoryJournal, JournalLimits, RunFailed, RunGone, RunLost
from app.runs.redis.connection import Connection
from app.runs.redis.journal import RedisJournal
from app.runs.redis.mirror import MirroredJournal
from tests.runs.redis.journals import END, Follower, ended, read, words
from tests.support.gates import PATIENCE
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.server

LOST = RunFailed(RunLost("gone"))


class Mirrored:
    """A mirrored journal, and what is on the other side.

    Attributes:
        mirror: the journal.
        far: what is in Redis of it.
        taken: what it was told when others had ended it.
    """

    def __init__(self, connection: Connection, limits: JournalLimits | None = None) -> None:
        self.taken: list[Exception] = []
        self.far = RedisJournal(connection, "journal")
        self.mirror = MirroredJournal(InMemoryJournal(limits), self.far, self.taken.append, attached=True)

    async def write(self, first: int, last: int) -> None:
        """Write entries with these numbers."""
        for entry in words(first, last):
            await self.mirror.append(entry.round, entry.event)

    async def shown(self, seq: int) -> None:
        """Wait until an entry is shown, though readers may be too slow for it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                if (await self.mirror.span()).last >= seq:
                    return
                await asyncio.sleep(0)

    async def end(self) -> None:
        """Write the end."""
        await self.mirror.append(1, END)

    async def settled(self) -> None:
        """Wait until all is in Redis that will be."""
        async with asyncio.timeout(PATIENCE):
            await self.mirror.settled(PATIENCE)

    async def taken_for_lost(self) -> None:
        """Write the end as others do."""
        newest = await self.far.newest()
        assert newest is not None
        await self.far.write(ended(newest.last.seq + 1, LOST), behind=newest.number)


@pytest.fixture
async def mirrored(connection: Connection) -> Mirrored:
    return Mirrored(connection)


@pytest.fixture
async def shaky(connection_of_its_own: Connection) -> Mirrored:
    """One whose Redis can be stopped."""
    return Mirrored(connection_of_its_own)


OUTAGES: list[tuple[str, Callable[[RedisServer], None], Callable[[RedisServer], None]]] = [
    ("paused", RedisServer.pause, RedisServer.resume),
    ("stopped", RedisServer.stop, RedisServer.start),
    ("killed", RedisServer.kill, RedisServer.start),
    ("forgetful", RedisServer.forget, RedisServer.start),
]
each_outage = pytest.mark.parametrize(("down", "up"), [each[1:] for each in OUTAGES], ids=[each[0] for each in OUTAGES])


# --- while Redis answers


async def test_what_a_reader_is_shown_is_in_redis(mirrored: Mirrored) -> None:
    seen: list[int] = []

    async def follow() -> None:
        async with aclosing(mirrored.mirror.follow()) as batches:
            async for batch in batches:
                newest = await mirrored.far.newest()
                assert newest is not None
                assert newest.last.seq >= batch[-1].seq
                seen.extend(entry.seq for entry in batch)

    following = asyncio.create_task(follow())
    await mirrored.write(1, 300)
    await mirrored.end()
    async with asyncio.timeout(PATIENCE):
        await following

    assert seen == list(range(1, 302))
    assert await read(mirrored.far) == seen


async def test_the_end_is_in_redis_when_it_has_been_written(mirrored: Mirrored) -> None:
    await mirrored.write(1, 3)
    await mirrored.end()

    assert mirrored.mirror.is_settled
    assert await read(mirrored.far) == [1, 2, 3, 4]


async def test_the_stream_is_as_bounded_as_the_journal(connection: Connection) -> None:
    mirrored = Mirrored(connection, JournalLimits(events=50))
    follower = Follower(mirrored.mirror)
    longest = 0
    for first in range(1, 2_000, 10):
        await mirrored.write(first, first + 9)
        await follower.until(first + 9)
        longest = max(longest, await connection.redis.xlen("journal"))
    await mirrored.end()
    span = await mirrored.far.span()

    assert longest <= 52
    assert (span.last, (await mirrored.mirror.span()).first - span.first <= 32) == (2_001, True)
    with pytest.raises((EventsGone, RunGone)):
        await read(mirrored.far, span.first - 2)


# --- while it does not


@each_outage
async def test_readers_here_go_on_and_redis_has_everything_once_when_it_is_back(
    shaky: Mirrored,
    redis_of_its_own: RedisServer,
    down: Callable[[RedisServer], None],
    up: Callable[[RedisServer], None],
) -> None:
    follower = Follower(shaky.mirror)
    await shaky.write(1, 40)
    await follower.until(40)

    down(redis_of_its_own)
    await shaky.write(41, 100)
    await follower.until(100)
    up(redis_of_its_own)
    await shaky.write(101, 140)
    await shaky.end()
    await shaky.settled()

    assert await follower.rest() == list(range(1, 142))
    assert await read(shaky.far) == list(range(1, 142))
    assert shaky.taken == []


@each_outage
async def test_a_reader_elsewhere_waits_and_lacks_nothing(
    shaky: Mirrored,
    redis_of_its_own: RedisServer,
    down: Callable[[RedisServer], None],
    up: Callable[[RedisServer], None],
) -> None:
    follower = Follower(shaky.far)
    await shaky.write(1, 40)
    await follower.until(40)

    down(redis_of_its_own)
    await shaky.write(41, 100)
    up(redis_of_its_own)
    await shaky.write(101, 140)
    await shaky.end()

    assert await follower.rest() == list(range(1, 142))


async def test_the_end_is_told_while_redis_is_silent_and_written_down_when_it_is_back(
    shaky: Mirrored, redis_of_its_own: RedisServer
) -> None:
    await shaky.write(1, 2)
    await Follower(shaky.mirror).until(2)
    redis_of_its_own.pause()

    await shaky.end()

    assert await read(shaky.mirror) == [1, 2, 3]
    assert not shaky.mirror.is_settled
    redis_of_its_own.resume()
    await shaky.settled()
    assert await read(shaky.far) == [1, 2, 3]


async def test_an_outage_in_which_nothing_was_said_is_not_noticed_but_what_was_lost_is_written_anew(
    shaky: Mirrored, redis_of_its_own: RedisServer
) -> None:
    follower = Follower(shaky.mirror)
    await shaky.write(1, 40)
    await follower.until(40)
    redis_of_its_own.forget()
    redis_of_its_own.start()

    await shaky.write(41, 41)
    await shaky.end()
    await shaky.settled()

    assert await follower.rest() == list(range(1, 43))
    assert await read(shaky.far) == list(range(1, 43))


async def test_a_tail_that_redis_has_lost_is_written_anew(mirrored: Mirrored, connection: Connection) -> None:
    follower = Follower(mirrored.mirror)
    for seq in range(1, 6):
        await mirrored.write(seq, seq)
        await follower.until(seq)
    await connection.redis.xdel("journal", "4-0", "5-0")
    await connection.ask(connection.redis.eval, "return redis.call('XSETID', KEYS[1], '3-0')", 1, "journal")

    await mirrored.write(6, 6)
    await mirrored.end()
    await mirrored.settled()

    assert await read(mirrored.far) == [1, 2, 3, 4, 5, 6, 7]
    assert await follower.rest() == [1, 2, 3, 4, 5, 6, 7]


async def test_what_was_dropped_meanwhile_is_dropped_there_too(
    connection_of_its_own: Connection, redis_of_its_own: RedisServer
) -> None:
    mirrored = Mirrored(connection_of_its_own, JournalLimits(events=50))
    await mirrored.write(1, 40)
    await mirrored.shown(40)
    redis_of_its_own.stop()
    await mirrored.write(41, 400)
    await mirrored.shown(400)

    redis_of_its_own.start()
    await mirrored.end()
    await mirrored.settled()

    assert await mirrored.far.span() == await mirrored.mirror.span()
    with pytest.raises((EventsGone, RunGone)):
        await read(mirrored.far, 40)
    assert await read(mirrored.far, 390) == list(range(391, 402))


# --- taken for lost


async def test_a_run_that_others_have_ended_has_that_end_here_too_and_says_nothing_more(mirrored: Mirrored) -> None:
    follower = Follower(mirrored.mirror)
    await mirrored.write(1, 3)
    await follower.until(3)
    await mirrored.taken_for_lost()

    await mirrored.write(4, 5)
    assert await follower.rest() == [1, 2, 3, 4]
    await mirrored.end()

    [entry] = [entry async for batch in mirrored.mirror.follow(3) for entry in batch]
    assert isinstance(entry.event, RunFailed)
    assert isinstance(entry.event.error, RunLost)
    assert [str(error) for error in mirrored.taken] == ["gone"]
    assert await read(mirrored.far) == [1, 2, 3, 4]


async def test_an_answer_that_comes_too_late_is_not_the_end(mirrored: Mirrored) -> None:
    follower = Follower(mirrored.mirror)
    await mirrored.write(1, 3)
    await follower.until(3)
    await mirrored.taken_for_lost()

    await mirrored.end()

    assert await follower.rest() == [1, 2, 3, 4]
    [entry] = [entry async for batch in mirrored.mirror.follow(3) for entry in batch]
    assert isinstance(entry.event, RunFailed)
    assert len(mirrored.taken) == 1


async def test_what_others_did_during_an_outage_is_noticed_after_it(
    shaky: Mirrored, redis_of_its_own: RedisServer
) -> None:
    await shaky.write(1, 3)
    await Follower(shaky.mirror).until(3)
    await shaky.taken_for_lost()
    redis_of_its_own.pause()
    await shaky.write(4, 6)
    follower = Follower(shaky.mirror)
    await follower.until(6)
    redis_of_its_own.resume()

    await shaky.settled()

    assert len(shaky.taken) == 1
    assert await follower.rest() == [1, 2, 3, 4, 5, 6, 7]
    assert await read(shaky.far) == [1, 2, 3, 4]


async def test_in_doubt_nothing_is_shown_before_it_is_clear_what_others_have_done(mirrored: Mirrored) -> None:
    follower = Follower(mirrored.mirror)
    await mirrored.write(1, 3)
    await follower.until(3)
    mirrored.mirror.doubt()
    await mirrored.mirror.confirm()
    await mirrored.taken_for_lost()

    mirrored.mirror.doubt()
    await mirrored.write(4, 5)
    with pytest.raises(RunLost):
        await mirrored.mirror.confirm()

    assert await follower.rest() == [1, 2, 3, 4]


async def test_doubt_that_cannot_be_cleared_holds_nobody_up(shaky: Mirrored, redis_of_its_own: RedisServer) -> None:
    follower = Follower(shaky.mirror)
    await shaky.write(1, 3)
    await follower.until(3)
    redis_of_its_own.stop()

    shaky.mirror.doubt()
    await shaky.write(4, 5)
    await shaky.mirror.confirm()

    await follower.until(5)
    await follower.leave()


# --- faults


async def test_a_fault_in_the_copying_is_logged_and_readers_here_go_on(
    mirrored: Mirrored, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await connection.redis.set("journal", "no stream")

    await mirrored.write(1, 3)
    await mirrored.end()

    assert await read(mirrored.mirror) == [1, 2, 3, 4]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert mirrored.mirror.is_settled


async def test_a_journal_in_which_nothing_was_written_has_nothing_to_settle(connection: Connection) -> None:
    mirror = Mirrored(connection).mirror

    mirror.doubt()
    await mirror.confirm()
    await mirror.settled(PATIENCE)

    assert mirror.is_settled
    await mirror.append(1, TextDelta("late"))
    await Follower(mirror).until(1)
    await mirror.settled(0)
