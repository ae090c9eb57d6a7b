"""A journal as a stream: who writes first counts, what falls out is told, and Redis is waited for."""

from __future__ import annotations

import asyncio

import pytest

from app.runs import Entry, EventsGone, RunFailed, RunGone, RunLost, SharedStateUnavailable, Span
from app.runs.redis.connection import LONGEST, Connection
from app.runs.redis.journal import EntryTaken, RedisJournal
from tests.runs.redis.journals import END, Follower, ended, read, words
from tests.support.gates import PATIENCE
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.server


@pytest.fixture
def journal(connection: Connection) -> RedisJournal:
    return RedisJournal(connection, "journal")


async def over() -> bool:
    return False


# --- writing


async def test_of_two_who_write_the_next_entry_one_is_refused(journal: RedisJournal, connection: Connection) -> None:
    other = RedisJournal(connection, "journal")
    await journal.write(words(1, 2), behind=0)

    await other.write(ended(3, RunFailed(RunLost("gone"))), behind=1)
    with pytest.raises(EntryTaken):
        await journal.write(words(3, 4), behind=1)

    newest = await journal.newest()
    assert newest is not None
    assert isinstance(newest.last.event, RunFailed)
    assert await read(journal) == [1, 2, 3]


@pytest.mark.parametrize("behind", [0, 1, 4, 9])
async def test_an_item_is_only_written_behind_the_newest_one(journal: RedisJournal, behind: int) -> None:
    await journal.write(words(1, 2), behind=0)
    await journal.write(words(3, 4), behind=1)

    with pytest.raises(EntryTaken):
        await journal.write(words(5, 6), behind=behind)

    assert await journal.span() == Span(1, 4)


async def test_what_redis_has_lost_is_noticed_by_the_one_who_writes(
    journal: RedisJournal, connection: Connection
) -> None:
    await journal.write(words(1, 2), behind=0)
    await journal.write(words(3, 4), behind=1)
    await connection.redis.xdel("journal", "3-0")

    with pytest.raises(EntryTaken):
        await journal.write(words(5, 6), behind=3)


async def test_one_who_is_refused_changes_nothing_of_how_long_it_is_kept(
    journal: RedisJournal, connection: Connection
) -> None:
    await journal.write(words(1, 3), behind=0)
    assert LONGEST - 60 < await connection.redis.ttl("journal") <= LONGEST
    await connection.redis.expire("journal", 50)

    with pytest.raises(EntryTaken):
        await journal.write(words(4, 4), behind=0, first_kept=2)

    assert await connection.redis.ttl("journal") <= 50
    assert await journal.span() == Span(1, 3)


# --- what falls out


async def test_items_below_the_first_that_is_kept_are_dropped(journal: RedisJournal) -> None:
    for start in (1, 4, 7):
        await journal.write(words(start, start + 2), behind=max(start - 3, 0), first_kept=4 if start == 7 else None)

    assert await journal.span() == Span(4, 9)
    with pytest.raises(EventsGone, match="up to 3"):
        await read(journal, 2)


async def test_a_reader_whose_next_entry_falls_out_is_told_so(journal: RedisJournal) -> None:
    await journal.write(words(1, 1), behind=0)
    follower = Follower(journal)
    await follower.until(1)

    await journal.write(words(2, 3), behind=1)
    await follower.until(3)
    await follower.leave()
    late = Follower(journal, 1)
    await journal.write([*words(4, 4), *ended(5)], behind=2, first_kept=4)

    with pytest.raises((EventsGone, RunGone)):
        await (Follower(journal, 1)).rest()
    await late.leave()
    assert await read(journal, 3) == [4, 5]


async def test_older_entries_of_the_oldest_item_do_not_count(connection: Connection) -> None:
    await RedisJournal(connection, "journal").write([*words(1, 4), *ended(5)], behind=0)

    assert await RedisJournal(connection, "journal", first=4).span() == Span(4, 5)


# --- what Redis does meanwhile


async def test_a_reader_reads_on_though_the_items_were_written_anew_and_are_others(
    journal: RedisJournal, connection: Connection
) -> None:
    for seq in range(1, 4):
        await journal.write(words(seq, seq), behind=seq - 1)
    follower = Follower(journal)
    await follower.until(3)

    await connection.redis.delete("journal")
    await journal.write(words(1, 6), behind=0)
    await journal.write(ended(7), behind=1)

    assert await follower.rest() == [1, 2, 3, 4, 5, 6, 7]


async def test_a_reader_waits_for_a_run_that_is_going_though_there_is_nothing(journal: RedisJournal) -> None:
    follower = Follower(journal, 2)

    await journal.write(words(1, 2), behind=0)
    await journal.write(ended(3), behind=1)

    assert await follower.rest() == [3]


async def test_a_reader_of_what_is_gone_is_told_so(connection: Connection) -> None:
    with pytest.raises((EventsGone, RunGone)):
        await read(RedisJournal(connection, "journal", is_going=over))


async def test_a_reader_who_has_seen_more_than_there_was_in_the_end_is_told_so(connection: Connection) -> None:
    journal = RedisJournal(connection, "journal", is_going=over)
    await journal.write([*words(1, 2), *ended(3)], behind=0)

    assert await read(journal, 3) == []
    with pytest.raises((EventsGone, RunGone)):
        await read(journal, 4)


async def test_readers_who_leave_in_the_middle_leave_no_connections_behind(
    journal: RedisJournal, connection: Connection
) -> None:
    await journal.write(words(1, 1), behind=0)
    counts = []
    for _ in range(4):
        followers = [Follower(journal) for _ in range(10)]
        for follower in followers:
            await follower.until(1)
        for follower in followers:
            await follower.leave()
        counts.append(len(connection.reading.connection_pool._in_use_connections))

    assert counts == [0] * 4
    await journal.write(ended(2), behind=1)
    assert await read(journal) == [1, 2]


@pytest.mark.parametrize("how", ["pause", "stop", "kill"])
async def test_a_reader_waits_while_redis_does_not_answer_and_lacks_nothing_afterwards(
    connection_of_its_own: Connection, redis_of_its_own: RedisServer, how: str
) -> None:
    journal = RedisJournal(connection_of_its_own, "journal")
    await journal.write(words(1, 2), behind=0)
    follower = Follower(journal)
    await follower.until(2)

    getattr(redis_of_its_own, how)()
    with pytest.raises(SharedStateUnavailable):
        await journal.newest()
    if how == "pause":
        redis_of_its_own.resume()
    else:
        redis_of_its_own.start()
    await again(journal, [*words(3, 4), Entry(5, 1, END)], behind=1)

    assert await follower.rest() == [1, 2, 3, 4, 5]


async def again(journal: RedisJournal, entries: list[Entry], *, behind: int) -> None:
    """Write entries as soon as Redis answers."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await journal.write(entries, behind=behind)
            except SharedStateUnavailable:
                await asyncio.sleep(0)
            else:
                return
