"""What is special about conversations that are kept in this process: their number is limited."""

from __future__ import annotations

import pytest

from app.memory import InMemoryChatMemory
from tests.memory.histories import plain_turn


@pytest.mark.parity(186)
@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.parametrize("name", ["max_messages", "max_conversations"])
def test_a_limit_must_be_positive(name: str, limit: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be positive, got {limit}"):
        InMemoryChatMemory(**{name: limit})


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


async def test_forks_take_the_room_of_conversations_too() -> None:
    memory = InMemoryChatMemory(max_conversations=3)
    await memory.append("barley", plain_turn(1))
    for number in range(5):
        await memory.fork("barley", f"copy {number}")
        await memory.get("barley")

    assert await memory.conversation_ids() == ("copy 3", "copy 4", "barley")
