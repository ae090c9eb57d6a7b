"""The journal in this process: bounded, and as quick for many readers as for one."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextlib import aclosing
from typing import get_args

import pytest

from app.chat import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    ReasoningDelta,
    RoundCompleted,
    RoundStarted,
    TextDelta,
    ToolCall,
    ToolCallArguments,
    ToolCallErrored,
    ToolCallProgress,
    ToolCallReady,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolRun,
    Usage,
)
from app.runs import (
    Entry,
    EventsGone,
    InMemoryJournal,
    JournalLimits,
    RunCancelled,
    RunCompleted,
    RunEvent,
    RunFailed,
    RunStarted,
    Span,
)

END = RunCompleted(ChatResponse(AssistantMessage("done")))
ENTRY = 200
"""Bytes that every entry counts beside its texts."""

BATCH = 512


def journal_of(*, events: int = 1_000_000, bytes: int = 1_000_000_000) -> InMemoryJournal:  # noqa: A002 - the limit's name
    """A journal with these limits."""
    return InMemoryJournal(JournalLimits(events, bytes))


async def write(journal: InMemoryJournal, *events: RunEvent) -> None:
    for event in events:
        await journal.append(1, event)


def words(count: int) -> list[RunEvent]:
    """So many events, all different."""
    return [TextDelta(str(number)) for number in range(count)]


async def read(journal: InMemoryJournal, after: int = 0) -> list[int]:
    """The numbers of the entries, to the end."""
    return [entry.seq async for batch in journal.follow(after) for entry in batch]


# --- how much is kept


async def test_what_is_left_keeps_its_number_and_its_round() -> None:
    journal = journal_of(events=2)
    for round_, event in enumerate(words(4), 1):
        await journal.append(round_, event)

    assert journal.entries(0, BATCH) == [Entry(3, 3, TextDelta("2")), Entry(4, 4, TextDelta("3"))]


async def test_the_oldest_events_go_when_there_are_too_many() -> None:
    journal = journal_of(events=3)

    spans = []
    for event in words(5):
        await write(journal, event)
        spans.append(await journal.span())

    assert spans == [Span(1, 1), Span(1, 2), Span(1, 3), Span(2, 4), Span(3, 5)]


async def test_the_oldest_events_go_when_they_are_too_large_as_many_as_have_to() -> None:
    journal = journal_of(bytes=3 * (ENTRY + 100))

    for _ in range(5):
        await write(journal, TextDelta("x" * 100))
    assert await journal.span() == Span(3, 5)

    await write(journal, TextDelta("x" * 400))
    assert await journal.span() == Span(5, 6)


async def test_an_empty_journal_has_no_events() -> None:
    assert await InMemoryJournal().span() == Span(1, 0)


def _answer(text: str) -> RunCompleted:
    return RunCompleted(ChatResponse(AssistantMessage(text)))


def _run(arguments: str = "{}", result: str | None = None, error: str | None = None) -> RunCompleted:
    run = ToolRun(1, "c", "t", arguments, result, error)
    return RunCompleted(ChatResponse(AssistantMessage(), tool_runs=(run,)))


WORDY: dict[str, Callable[[str], RunEvent]] = {
    "text": TextDelta,
    "reasoning": ReasoningDelta,
    "a call's id": lambda text: ToolCallStarted(text, "t"),
    "a tool's name": lambda text: ToolCallStarted("c", text),
    "a piece of arguments": lambda text: ToolCallArguments("c", "t", text),
    "arguments": lambda text: ToolCallReady(ToolCall("c", "t", text)),
    "what belongs to a call": lambda text: ToolCallReady(ToolCall("c", "t", "{}", {"signature": text})),
    "a report": lambda text: ToolCallProgress("c", "t", text),
    "a report's data": lambda text: ToolCallProgress("c", "t", data={"rows": [{"name": text}]}),
    "the names in a report's data": lambda text: ToolCallProgress("c", "t", data={text: 1}),
    "a result": lambda text: ToolCallSucceeded("c", "t", text, 1.0),
    "an error": lambda text: ToolCallErrored("c", "t", text, 1.0),
    "a target": lambda text: RoundCompleted(1, FinishReason.STOP, Usage(), text),
    "an answer": _answer,
    "an answer's reasoning": lambda text: RunCompleted(ChatResponse(AssistantMessage(reasoning=text))),
    "an answer's refusal": lambda text: RunCompleted(ChatResponse(AssistantMessage(refusal=text))),
    "an answer's calls": lambda text: RunCompleted(ChatResponse(AssistantMessage("", (ToolCall("c", "t", text),)))),
    "what a tool was asked": lambda text: _run(arguments=text),
    "what a tool gave": lambda text: _run(result=text),
    "why a tool failed": lambda text: _run(error=text),
    "what was done": lambda text: RunCancelled(ChatResponse(AssistantMessage(text))),
    "a failure": lambda text: RunFailed(ValueError(text)),
}


@pytest.mark.parametrize("kind", WORDY)
async def test_the_texts_of_every_kind_of_event_count(kind: str) -> None:
    limit = ENTRY + 1_500
    small, large = journal_of(bytes=limit), journal_of(bytes=limit)

    await write(small, RunStarted(), WORDY[kind]("x" * 500))
    await write(large, RunStarted(), WORDY[kind]("x" * 1_500))

    assert await small.span() == Span(1, 2)
    assert await large.span() == Span(2, 2)


def test_no_kind_of_event_is_missing_in_the_test_above() -> None:
    shown = {type(make("")) for make in WORDY.values()}

    assert shown | {RunStarted, RoundStarted} == set(get_args(RunEvent))


@pytest.mark.parametrize(("text", "size"), [("e", 1), ("é", 2), ("€", 3), ("😀", 4), ("\ud800", 3)], ids=ascii)
async def test_texts_count_as_they_go_over_the_wire(text: str, size: int) -> None:
    fitting, not_fitting = journal_of(bytes=2 * ENTRY + 300 * size), journal_of(bytes=2 * ENTRY + 300 * size - 1)

    for journal in (fitting, not_fitting):
        await write(journal, RunStarted(), TextDelta(text * 300))

    assert await fitting.span() == Span(1, 2)
    assert await not_fitting.span() == Span(2, 2)


@pytest.mark.parametrize("data", [[0] * 1_000, {str(number): None for number in range(1_000)}, [[]] * 1_000])
async def test_many_small_things_count_though_they_have_no_text(data: list[int] | dict[str, None]) -> None:
    journal = journal_of(bytes=50_000)

    await write(journal, RunStarted(), ToolCallProgress("c", "t", data=data))

    assert await journal.span() == Span(2, 2)


async def test_an_event_larger_than_everything_that_may_be_kept_is_kept_alone_until_the_next_one() -> None:
    journal = journal_of(bytes=ENTRY)

    await write(journal, RunStarted(), TextDelta("x" * 10_000))
    assert await journal.span() == Span(2, 2)

    await write(journal, TextDelta("y"), END)
    assert await journal.span() == Span(4, 4)


async def test_the_end_is_always_kept_and_a_reader_that_lacks_nothing_else_gets_it() -> None:
    journal = journal_of(events=1, bytes=1)
    await write(journal, *words(3), END)

    assert await journal.span() == Span(4, 4)
    assert await read(journal, 3) == [4]
    assert await read(journal, 4) == []
    with pytest.raises(EventsGone):
        await read(journal, 2)


# --- slow readers


async def test_a_reader_to_whom_older_events_are_missing_is_told_so_at_once() -> None:
    journal = journal_of(events=2)
    await write(journal, *words(5))

    with pytest.raises(EventsGone, match="events up to 3 are no longer kept, and this reader had 2") as gone:
        await anext(journal.follow(2))
    assert gone.value.first == 4
    assert [entry.seq for entry in await anext(journal.follow(3))] == [4, 5]


async def test_a_reader_that_the_writer_overtakes_by_more_than_is_kept_is_told_so() -> None:
    journal = journal_of(events=3)
    await write(journal, *words(2))
    reading = journal.follow()
    assert [entry.seq for entry in await anext(reading)] == [1, 2]

    await write(journal, *words(4))

    with pytest.raises(EventsGone, match="had 2"):
        await anext(reading)


async def test_a_reader_that_the_writer_overtakes_by_what_is_kept_misses_nothing() -> None:
    journal, seen = journal_of(events=3), [1, 2]
    await write(journal, *words(2))
    reading = journal.follow()
    await anext(reading)

    for _ in range(5):
        await write(journal, *words(3))
        seen += [entry.seq for entry in await anext(reading)]

    assert seen == list(range(1, 18))


async def test_a_reader_that_waits_falls_out_when_more_comes_at_once_than_is_kept() -> None:
    journal = journal_of(events=2)
    waiting = asyncio.create_task(read(journal))
    await asyncio.sleep(0)

    await write(journal, *words(3))

    with pytest.raises(EventsGone):
        await waiting


async def test_a_reader_that_falls_out_disturbs_neither_the_writer_nor_another_reader() -> None:
    journal = journal_of(events=2)
    async with aclosing(journal.follow()) as slow, aclosing(journal.follow()) as quick:
        seen = []
        for event in (*words(6), END):
            await write(journal, event)
            seen += [entry.seq for entry in await anext(quick)]

        with pytest.raises(EventsGone):
            await anext(slow)
        assert [batch async for batch in quick] == []
    assert seen == [1, 2, 3, 4, 5, 6, 7]


# --- batches


async def test_a_late_reader_is_given_what_is_there_in_batches_that_are_bounded() -> None:
    journal = InMemoryJournal()
    await write(journal, *words(2 * BATCH + 10), END)

    batches = [[entry.seq for entry in batch] async for batch in journal.follow()]

    assert list(map(len, batches)) == [BATCH, BATCH, 11]
    assert [seq for batch in batches for seq in batch] == list(range(1, 2 * BATCH + 12))


async def test_a_reader_of_much_lets_others_have_their_turn_between_the_batches() -> None:
    journal = InMemoryJournal()
    await write(journal, *words(4 * BATCH), END)
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    await read(journal)
    others.cancel()

    assert turns >= 4


async def test_readers_that_come_and_go_while_nothing_happens_leave_nothing_behind() -> None:
    def futures() -> int:
        gc.collect()
        return sum(isinstance(thing, asyncio.Future) for thing in gc.get_objects())

    journal = InMemoryJournal()
    await write(journal, RunStarted())
    before = futures()

    for _ in range(50):
        reading = asyncio.create_task(read(journal))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])

    assert futures() - before < 5
    staying = asyncio.create_task(read(journal))
    await asyncio.sleep(0)
    await write(journal, END)
    assert await staying == [1, 2]
