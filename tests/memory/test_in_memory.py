"""Conversations kept in this process."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from app.chat import SystemMessage
from app.memory import ChatMemory, InMemoryChatMemory
from tests.memory.histories import plain_turn, tool_turn


@pytest.fixture
def memory() -> ChatMemory:
    return InMemoryChatMemory()


@pytest.mark.parity(186)
@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.parametrize("name", ["max_messages", "max_conversations"])
def test_a_limit_must_be_positive(name: str, limit: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be positive, got {limit}"):
        InMemoryChatMemory(**{name: limit})


@pytest.mark.parity(195)
async def test_turns_join_their_conversation_and_no_other(memory: ChatMemory) -> None:
    await memory.append("barley", plain_turn(1))
    await memory.append("oats", plain_turn(2))
    await memory.append("barley", tool_turn(3))
    assert await memory.get("barley") == (*plain_turn(1), *tool_turn(3))
    assert await memory.get("oats") == plain_turn(2)


@pytest.mark.parity(195)
async def test_an_unknown_conversation_is_empty_and_can_be_cleared(memory: ChatMemory) -> None:
    await memory.clear("nobody")
    assert await memory.get("nobody") == ()


@pytest.mark.parity(195)
async def test_asking_for_a_conversation_does_not_begin_it() -> None:
    memory = InMemoryChatMemory()
    await memory.get("nobody")
    assert await memory.conversation_ids() == ()


@pytest.mark.parity(195)
async def test_a_cleared_conversation_is_forgotten_and_the_others_are_listed() -> None:
    memory = InMemoryChatMemory()
    for name in ("barley", "oats", "rye"):
        await memory.append(name, plain_turn(1))
    await memory.clear("oats")
    assert await memory.get("oats") == ()
    assert await memory.conversation_ids() == ("barley", "rye")


async def test_what_was_given_out_does_not_change(memory: ChatMemory) -> None:
    given = list(plain_turn(1))
    await memory.append("barley", given)
    taken = await memory.get("barley")
    given.clear()
    await memory.append("barley", plain_turn(2))
    assert taken == plain_turn(1)
    assert await memory.get("barley") == (*plain_turn(1), *plain_turn(2))


@pytest.mark.parity(187)
async def test_the_oldest_turns_leave_a_full_conversation() -> None:
    memory = InMemoryChatMemory(max_messages=5)
    for number in range(4):
        await memory.append("barley", plain_turn(number))
    assert await memory.get("barley") == (*plain_turn(2), *plain_turn(3))


async def test_a_conversation_that_was_read_or_written_lately_outlives_one_that_was_not() -> None:
    memory = InMemoryChatMemory(max_conversations=2)
    await memory.append("barley", plain_turn(1))
    await memory.append("oats", plain_turn(1))
    await memory.get("barley")
    await memory.append("rye", plain_turn(1))
    assert await memory.conversation_ids() == ("barley", "rye")
    await memory.append("barley", plain_turn(2))
    await memory.append("wheat", plain_turn(1))
    assert await memory.conversation_ids() == ("barley", "wheat")


async def test_a_turn_that_does_not_fit_is_told_of_in_the_log_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = InMemoryChatMemory(max_messages=3)
    with caplog.at_level(logging.WARNING):
        await memory.append("barley", (SystemMessage("Be brief."), *plain_turn(1)))
        assert not caplog.records
        await memory.append("barley", tool_turn(2))
    assert await memory.get("barley") == (SystemMessage("Be brief."),)
    assert "a turn of 4 messages does not fit a memory of 3" in caplog.text
    assert "field" not in caplog.text
    assert "barley" not in caplog.text


async def test_a_conversation_of_system_messages_only_is_no_turn_that_does_not_fit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = InMemoryChatMemory(max_messages=1)
    await memory.append("barley", (SystemMessage("Be brief."), SystemMessage("Be kind.")))
    assert await memory.get("barley") == (SystemMessage("Be brief."), SystemMessage("Be kind."))
    assert not caplog.records


@pytest.mark.fault("M11", "M12")
async def test_turns_added_at_the_same_moment_are_all_kept_and_not_mixed(memory: ChatMemory) -> None:
    await asyncio.gather(*(memory.append("new", tool_turn(number)) for number in range(20)))
    messages = await memory.get("new")
    found = [messages[start : start + 4] for start in range(0, len(messages), 4)]
    assert sorted(found, key=str) == sorted((tool_turn(number) for number in range(20)), key=str)


@pytest.mark.parity(194)
@pytest.mark.parametrize(("conversation_id", "error"), [("", ValueError), (" \n", ValueError), (None, TypeError)])
async def test_a_conversation_needs_a_name(memory: ChatMemory, conversation_id: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="a conversation id"):
        await memory.get(conversation_id)
    with pytest.raises(error, match="a conversation id"):
        await memory.append(conversation_id, plain_turn(1))
    with pytest.raises(error, match="a conversation id"):
        await memory.clear(conversation_id)


@pytest.mark.parity(194)
@pytest.mark.parametrize(
    ("messages", "error", "words"),
    [
        (None, TypeError, "must be a sequence of messages, got NoneType"),
        ((), ValueError, "there are no messages"),
        ((*plain_turn(1), None), TypeError, r"messages\[2\] is not a message but NoneType"),
        ("What grows here?", TypeError, r"messages\[0\] is not a message but str"),
    ],
    ids=["none", "empty", "none-within", "a-text"],
)
async def test_only_messages_are_remembered_and_else_nothing(
    memory: ChatMemory, messages: Any, error: type[Exception], words: str
) -> None:
    await memory.append("barley", plain_turn(0))
    with pytest.raises(error, match=words):
        await memory.append("barley", messages)
    assert await memory.get("barley") == plain_turn(0)
