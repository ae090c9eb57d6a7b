"""The journal: numbered entries, any number of readers, none of whom holds the writer up. Each of every kind."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress

import pytest

from app.chat import AssistantMessage, ChatResponse, ModelUnavailable, TextDelta
from app.runs import Entry, EventsGone, Journal, RunCompleted, RunEvent, RunFailed, RunGone, RunStarted, Span
from app.runs.redis.journal import RedisJournal
from tests.support.gates import PATIENCE

END = RunCompleted(ChatResponse(AssistantMessage("done")))


async def write(journal: Journal, *events: RunEvent) -> None:
    for event in events:
        await journal.append(None, event)


async def write_at_once(journal: Journal, *events: RunEvent) -> None:
    """Write entries that are ready together."""
    if isinstance(journal, RedisJournal):
        for start in range(0, len(events), 32):
            await journal.append(1, *events[start : start + 32])
    else:
        await journal.append(1, *events)


async def read(journal: Journal, after: int = 0) -> list[Entry]:
    async with asyncio.timeout(PATIENCE):
        return [entry async for batch in journal.follow(after) for entry in batch]


async def until(journal: Journal, last: int) -> Span:
    """Wait until readers would see an entry."""
    async with asyncio.timeout(PATIENCE), aclosing(journal.follow()) as batches:
        async for batch in batches:
            if batch[-1].seq >= last:
                break
    return await journal.span()


def words(count: int) -> list[RunEvent]:
    """So many events, all different."""
    return [TextDelta(str(number)) for number in range(count)]


async def test_entries_are_numbered_from_one_without_gaps(journal: Journal) -> None:
    await write(journal, RunStarted(), TextDelta("a"), END)

    assert await read(journal) == [Entry(1, None, RunStarted()), Entry(2, None, TextDelta("a")), Entry(3, None, END)]


async def test_an_entry_keeps_its_round(journal: Journal) -> None:
    await journal.append(None, RunStarted())
    await journal.append(1, TextDelta("a"))
    await journal.append(2, END)

    assert [entry.round for entry in await read(journal)] == [None, 1, 2]


async def test_an_empty_journal_has_no_entries(journal: Journal) -> None:
    assert await journal.span() == Span(1, 0)


async def test_the_span_says_which_entries_are_there(journal: Journal) -> None:
    await write(journal, RunStarted(), TextDelta("a"), TextDelta("b"))

    assert await until(journal, 3) == Span(1, 3)


async def test_what_is_ready_comes_in_one_batch(journal: Journal) -> None:
    await write(journal, RunStarted(), TextDelta("a"), TextDelta("b"))
    await until(journal, 3)

    async with aclosing(journal.follow()) as batches:
        batch = await anext(batches)

    assert [entry.seq for entry in batch] == [1, 2, 3]


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_a_reader_gets_what_comes_after_the_entry_it_names(journal: Journal, after: int) -> None:
    await write(journal, RunStarted(), TextDelta("a"), END)

    assert [entry.seq for entry in await read(journal, after)] == [1, 2, 3][after:]


@pytest.mark.parametrize("after", range(6))
async def test_a_reader_gets_what_comes_after_any_of_those_that_were_written_at_once(
    journal: Journal, after: int
) -> None:
    await write_at_once(journal, *words(3))
    await until(journal, 3)
    reading = asyncio.create_task(read(journal, after))
    await write_at_once(journal, *words(2), END)

    assert [entry.seq for entry in await reading] == [1, 2, 3, 4, 5, 6][after:]


async def test_readers_wait_for_what_is_not_there_yet_and_all_get_everything(journal: Journal) -> None:
    readers = [asyncio.create_task(read(journal)) for _ in range(3)]

    for event in (RunStarted(), TextDelta("a"), END):
        await asyncio.sleep(0)
        await write(journal, event)

    assert [[entry.seq for entry in await reader] for reader in readers] == [[1, 2, 3]] * 3


async def test_a_reader_is_shown_entries_as_they_come(journal: Journal) -> None:
    async with asyncio.timeout(PATIENCE), aclosing(journal.follow()) as batches:
        for number, event in enumerate(words(5), 1):
            await write(journal, event)
            assert [entry.seq for entry in await anext(batches)] == [number]


async def test_a_reader_that_leaves_while_waiting_disturbs_nobody(journal: Journal) -> None:
    leaving, staying = asyncio.create_task(read(journal)), asyncio.create_task(read(journal))
    await asyncio.sleep(0)
    leaving.cancel()

    await write(journal, RunStarted(), END)

    assert len(await staying) == 2


async def test_a_failure_is_an_end_too(journal: Journal) -> None:
    await write(journal, RunStarted(), RunFailed(ModelUnavailable("down")))

    last = (await read(journal))[-1]

    assert isinstance(last.event, RunFailed)
    assert isinstance(last.event.error, ModelUnavailable)
    assert str(last.event.error) == "down"


async def test_many_entries_come_whole_and_in_order_to_readers_who_come_when_they_like(journal: Journal) -> None:
    early = asyncio.create_task(read(journal))
    await write(journal, *words(1_200)[:600])
    late = asyncio.create_task(read(journal, 300))
    await write(journal, *words(1_200)[600:], END)

    assert [entry.seq for entry in await early] == list(range(1, 1_202))
    assert [entry.seq for entry in await late] == list(range(301, 1_202))
    assert [entry.event for entry in await read(journal, 1_190)] == [*words(1_200)[1_190:], END]


async def test_a_batch_is_bounded_for_one_who_comes_late(journal: Journal) -> None:
    await write_at_once(journal, *words(3_000), END)

    async with asyncio.timeout(PATIENCE):
        sizes = [len(batch) async for batch in journal.follow()]

    assert sum(sizes) == 3_001
    assert max(sizes) <= 1_024


async def test_a_reader_who_has_the_end_gets_nothing_and_is_not_held(journal: Journal) -> None:
    await write(journal, RunStarted(), END)

    assert await read(journal, 2) == []


async def test_a_reader_beyond_the_end_is_not_held(journal: Journal) -> None:
    await write(journal, RunStarted(), END)

    with suppress(EventsGone, RunGone):  # it has seen what this journal never had
        assert await read(journal, 7) == []
