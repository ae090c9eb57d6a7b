"""What falls out of a conversation is summed up first: in one go, and only where that works."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from app.chat import ModelUnavailable, SystemMessage, UserMessage
from app.memory import (
    ConversationStore,
    InMemoryChatMemory,
    KeptConversation,
    MemoryUnavailable,
    SummarizingMemory,
    Summary,
    Window,
)
from app.memory.conversation import Conversation
from app.memory.turns import Messages
from tests.memory.conftest import Opening
from tests.memory.histories import answer, plain_turn, question, tool_turn
from tests.support.gates import PATIENCE

BRIEF = SystemMessage("Be brief.")
EIGHT = Window(8)
"""Four plain turns."""


@dataclass
class Summaries:
    """Makes a summary that says how many messages it is of, or does something else first."""

    asked: list[tuple[str | None, Messages]] = field(default_factory=list)
    first: Callable[[], Awaitable[object]] | None = None
    made: str | None = None

    async def __call__(self, summary: str | None, said: Messages) -> str:
        self.asked.append((summary, said))
        if self.first is not None:
            await self.first()
        return f"{summary or 'Of'} {len(said)}" if self.made is None else self.made


async def failing() -> None:
    raise ModelUnavailable("nobody listens")


def turns(*numbers: int) -> Messages:
    """Plain turns, one behind the other."""
    return tuple(message for number in numbers for message in plain_turn(number))


async def fill(memory: ConversationStore, *numbers: int) -> None:
    for number in numbers:
        await memory.append("barley", plain_turn(number))


async def kept(memory: ConversationStore) -> tuple[str | None, list[int]]:
    """The summary of the conversation, and the numbers of its turns."""
    conversation = await memory.read("barley")
    return conversation.summary, [turn.number for turn in conversation.turns]


@pytest.fixture
def summaries() -> Summaries:
    return Summaries()


@pytest.fixture
async def store(open_store: Opening) -> ConversationStore:
    """Keeps the conversations; it has twice the room."""
    return await open_store(EIGHT.times(2))


@pytest.fixture
def memory(store: ConversationStore, summaries: Summaries) -> ConversationStore:
    return SummarizingMemory(store, EIGHT, summaries)


async def test_nothing_is_summed_up_while_all_fits(memory: ConversationStore, summaries: Summaries) -> None:
    await fill(memory, 1, 2, 3, 4)

    assert await memory.get("barley") == turns(1, 2, 3, 4)
    assert summaries.asked == []


async def test_half_a_window_falls_out_at_once_so_that_it_happens_rarely(
    memory: ConversationStore, summaries: Summaries
) -> None:
    await fill(memory, 1, 2, 3, 4, 5)
    assert summaries.asked == [(None, turns(1, 2, 3))]
    assert await kept(memory) == ("Of 6", [4, 5])

    await fill(memory, 6, 7)
    assert len(summaries.asked) == 1
    await fill(memory, 8)
    assert summaries.asked[1:] == [("Of 6", turns(4, 5, 6))]
    assert await kept(memory) == ("Of 6 6", [7, 8])


async def test_a_summary_stands_beside_the_system_messages_and_before_the_turns(memory: ConversationStore) -> None:
    await memory.append("barley", (BRIEF, *plain_turn(1)))
    await fill(memory, 2, 3, 4, 5)
    messages = await memory.get("barley")

    assert messages[0] == BRIEF
    assert messages[1] == Summary("What was said before, in short: Of 6")
    assert messages[2:] == turns(4, 5)


async def test_a_request_with_system_messages_of_its_own_gets_the_summary_too(memory: ConversationStore) -> None:
    await memory.append("barley", (BRIEF, *plain_turn(1)))
    await fill(memory, 2, 3, 4, 5)
    conversation = Conversation(await memory.get("barley"))
    kind = SystemMessage("Be kind.")
    prompt = conversation.before((kind, question(6)))

    assert prompt == (kind, Summary("What was said before, in short: Of 6"), *turns(4, 5), question(6))
    assert conversation.before((question(6),))[:2] == (BRIEF, prompt[1])


async def test_a_summary_is_neither_replaced_nor_taken_for_a_system_message(memory: ConversationStore) -> None:
    await memory.append("barley", (BRIEF, *plain_turn(1)))
    await fill(memory, 2, 3, 4, 5)
    conversation = Conversation(await memory.get("barley"))
    said = (SystemMessage("Be kind."), question(6))
    await memory.append("barley", (*conversation.new_of(said), answer(6)))
    after = await memory.read("barley")

    assert after.system == (SystemMessage("Be kind."),)
    assert after.summary == "Of 6"


async def test_turns_with_calls_fall_out_whole(memory: ConversationStore, summaries: Summaries) -> None:
    await memory.append("barley", tool_turn(1, calls=2))
    await memory.append("barley", tool_turn(2))
    await fill(memory, 3)

    assert summaries.asked == [(None, (*tool_turn(1, calls=2), *tool_turn(2)))]
    assert await memory.get("barley") == (Summary("What was said before, in short: Of 8"), *plain_turn(3))


async def test_turns_are_summed_up_by_their_tokens_too(store: ConversationStore, summaries: Summaries) -> None:
    memory = SummarizingMemory(store, Window(100, tokens=60), summaries)
    await fill(memory, 1, 2, 3, 4)

    assert summaries.asked == [(None, turns(1, 2, 3))]
    assert await kept(memory) == ("Of 6", [4])


async def test_where_summing_up_fails_nothing_falls_out_and_the_next_turn_tries_again(
    memory: ConversationStore, summaries: Summaries, caplog: pytest.LogCaptureFixture
) -> None:
    summaries.first = failing
    await fill(memory, 1, 2, 3, 4, 5, 6)
    assert await kept(memory) == (None, [1, 2, 3, 4, 5, 6])
    assert [len(said) for _, said in summaries.asked] == [6, 8]
    assert caplog.messages == ["what falls out of a conversation cannot be summed up, and stays: ModelUnavailable"] * 2

    summaries.first = None
    await fill(memory, 7)
    assert await kept(memory) == ("Of 10", [6, 7])


async def test_where_summing_up_goes_on_failing_the_oldest_leave_without_a_summary(
    memory: ConversationStore, summaries: Summaries
) -> None:
    summaries.first = failing
    await fill(memory, *range(1, 11))

    assert await kept(memory) == (None, [3, 4, 5, 6, 7, 8, 9, 10])


async def test_a_fault_of_who_sums_up_costs_no_turn_and_is_logged_whole(
    memory: ConversationStore, summaries: Summaries, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    summaries.first = broken
    await fill(memory, 1, 2, 3, 4, 5)

    assert await kept(memory) == (None, [1, 2, 3, 4, 5])
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None) == (logging.ERROR, True)


async def test_a_summary_that_does_not_come_is_not_waited_for_without_end(
    store: ConversationStore, summaries: Summaries, caplog: pytest.LogCaptureFixture
) -> None:
    summaries.first = asyncio.Event().wait
    memory = SummarizingMemory(store, EIGHT, summaries, patience=0.01)
    async with asyncio.timeout(PATIENCE):
        await fill(memory, 1, 2, 3, 4, 5)

    assert await kept(memory) == (None, [1, 2, 3, 4, 5])
    assert caplog.messages == ["what falls out of a conversation cannot be summed up, and stays: TimeoutError"]


@pytest.mark.parametrize("made", ["", " \n"])
async def test_a_summary_that_says_nothing_is_none(
    memory: ConversationStore, summaries: Summaries, made: str, caplog: pytest.LogCaptureFixture
) -> None:
    summaries.made = made
    await fill(memory, 1, 2, 3, 4, 5)

    assert await kept(memory) == (None, [1, 2, 3, 4, 5])
    assert caplog.messages == ["what falls out of a conversation is summed up in no word, and stays"]


async def test_who_is_called_off_while_summing_up_has_changed_nothing(
    memory: ConversationStore, summaries: Summaries
) -> None:
    begun = asyncio.Event()

    async def waiting() -> None:
        begun.set()
        await asyncio.Event().wait()

    summaries.first = waiting
    await fill(memory, 1, 2, 3, 4)
    adding = asyncio.create_task(fill(memory, 5))
    await asyncio.wait_for(begun.wait(), PATIENCE)
    adding.cancel()
    await asyncio.wait([adding])

    assert adding.cancelled()
    assert await kept(memory) == (None, [1, 2, 3, 4])


async def test_a_turn_that_comes_while_summing_up_is_kept_and_the_next_one_sums_up_anew(
    memory: ConversationStore, store: ConversationStore, summaries: Summaries
) -> None:
    async def meanwhile() -> None:
        summaries.first = None
        await store.append("barley", plain_turn(100))

    await fill(memory, 1, 2, 3, 4)
    summaries.first = meanwhile
    await fill(memory, 5)
    assert await memory.get("barley") == turns(1, 2, 3, 4, 100, 5)
    await fill(memory, 6)

    assert await memory.get("barley") == (Summary("What was said before, in short: Of 10"), *turns(5, 6))


async def test_a_conversation_that_is_forgotten_while_it_is_summed_up_begins_anew(
    memory: ConversationStore, store: ConversationStore, summaries: Summaries
) -> None:
    async def meanwhile() -> None:
        await store.clear("barley")

    await fill(memory, 1, 2, 3, 4)
    summaries.first = meanwhile
    await fill(memory, 5)

    assert await memory.get("barley") == plain_turn(5)


async def test_the_beginning_of_a_turn_does_not_fall_out_before_its_end(
    memory: ConversationStore, summaries: Summaries
) -> None:
    begun, end = tool_turn(5)[:2], tool_turn(5)[2:]
    await fill(memory, 1, 2, 3)
    await memory.append("barley", begun)
    await memory.append("barley", end)
    conversation = await memory.read("barley")

    assert conversation.turns[-1].messages == tool_turn(5)
    assert all(isinstance(turn.messages[0], UserMessage) for turn in conversation.turns)
    assert summaries.asked == [(None, turns(1, 2, 3))]


class Down(InMemoryChatMemory):
    """A store that is down."""

    async def read(self, conversation_id: str) -> KeptConversation:
        del conversation_id
        raise MemoryUnavailable("down")


async def test_a_store_that_cannot_be_asked_is_not_taken_for_a_summary_that_failed(summaries: Summaries) -> None:
    with pytest.raises(MemoryUnavailable):
        await SummarizingMemory(Down(), EIGHT, summaries).append("barley", plain_turn(1))
