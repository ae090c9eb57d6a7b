"""The journal: numbered entries, any number of readers, none of whom holds the writer up."""

from __future__ import annotations

import asyncio

import pytest

from app.chat import AssistantMessage, ChatResponse, TextDelta
from app.runs import Entry, InMemoryJournal, RunCompleted, RunEvent, RunFailed, RunStarted

END = RunCompleted(ChatResponse(AssistantMessage("done")))


async def write(journal: InMemoryJournal, *events: RunEvent) -> None:
    for event in events:
        await journal.append(None, event)


async def read(journal: InMemoryJournal, after: int = 0) -> list[Entry]:
    return [entry async for batch in journal.follow(after) for entry in batch]


async def test_entries_are_numbered_from_one_without_gaps() -> None:
    journal = InMemoryJournal()
    await write(journal, RunStarted(), TextDelta("a"), END)

    assert await read(journal) == [Entry(1, None, RunStarted()), Entry(2, None, TextDelta("a")), Entry(3, None, END)]


async def test_what_is_ready_comes_in_one_batch() -> None:
    journal = InMemoryJournal()
    await write(journal, RunStarted(), TextDelta("a"), TextDelta("b"))

    batch = await anext(journal.follow())

    assert [entry.seq for entry in batch] == [1, 2, 3]


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_a_reader_gets_what_comes_after_the_entry_it_names(after: int) -> None:
    journal = InMemoryJournal()
    await write(journal, RunStarted(), TextDelta("a"), END)

    assert [entry.seq for entry in await read(journal, after)] == [1, 2, 3][after:]


async def test_readers_wait_for_what_is_not_there_yet_and_all_get_everything() -> None:
    journal = InMemoryJournal()
    readers = [asyncio.create_task(read(journal)) for _ in range(3)]

    for event in (RunStarted(), TextDelta("a"), RunFailed(ValueError("no"))):
        await asyncio.sleep(0)
        await write(journal, event)

    assert [[entry.seq for entry in await reader] for reader in readers] == [[1, 2, 3]] * 3


async def test_a_reader_that_leaves_while_waiting_disturbs_nobody() -> None:
    journal = InMemoryJournal()
    leaving, staying = asyncio.create_task(read(journal)), asyncio.create_task(read(journal))
    await asyncio.sleep(0)
    leaving.cancel()

    await write(journal, RunStarted(), END)

    assert len(await staying) == 2
