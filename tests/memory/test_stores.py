"""What every store of conversations promises: in memory, in SQLite, in PostgreSQL, and with summaries."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.chat import SystemMessage
from app.memory import (
    ConversationExists,
    ConversationNotFound,
    ConversationStore,
    KeptConversation,
    TurnNotFound,
    Window,
)
from tests.memory.conftest import Opening
from tests.memory.histories import answer, plain_turn, question, tool_turn

BRIEF, KIND = SystemMessage("Be brief."), SystemMessage("Be kind.")


async def numbers(store: ConversationStore, conversation_id: str) -> list[int]:
    """The numbers of a conversation's turns."""
    return [turn.number for turn in (await store.read(conversation_id)).turns]


async def names(store: ConversationStore, limit: int = 100) -> list[str]:
    """The conversations there are, the newest first."""
    return [one.id for one in await store.page(limit)]


@pytest.mark.parity(195)
async def test_turns_join_their_conversation_and_no_other(store: ConversationStore) -> None:
    await store.append("barley", plain_turn(1))
    await store.append("oats", plain_turn(2))
    await store.append("barley", tool_turn(3))

    assert await store.get("barley") == (*plain_turn(1), *tool_turn(3))
    assert await store.get("oats") == plain_turn(2)


@pytest.mark.parity(195)
async def test_an_unknown_conversation_is_empty_and_can_be_cleared(store: ConversationStore) -> None:
    await store.clear("nobody")

    assert await store.get("nobody") == ()


@pytest.mark.parity(195)
async def test_asking_for_a_conversation_does_not_begin_it(store: ConversationStore) -> None:
    await store.get("nobody")

    assert await names(store) == []
    with pytest.raises(ConversationNotFound, match="there is no conversation 'nobody'"):
        await store.read("nobody")


@pytest.mark.parity(195)
async def test_a_cleared_conversation_is_forgotten_and_no_other(store: ConversationStore) -> None:
    for name in ("barley", "oats", "rye"):
        await store.append(name, plain_turn(1))
    await store.clear("oats")

    assert await store.get("oats") == ()
    assert await names(store) == ["rye", "barley"]


async def test_a_cleared_conversation_begins_anew(store: ConversationStore) -> None:
    await store.append("barley", (BRIEF, *plain_turn(1)))
    await store.clear("barley")
    await store.append("barley", plain_turn(2))

    assert await store.get("barley") == plain_turn(2)
    assert await numbers(store, "barley") == [1]


async def test_what_was_given_out_does_not_change(store: ConversationStore) -> None:
    given = list(plain_turn(1))
    await store.append("barley", given)
    taken = await store.get("barley")
    given.clear()
    await store.append("barley", plain_turn(2))

    assert taken == plain_turn(1)
    assert await store.get("barley") == (*plain_turn(1), *plain_turn(2))


async def test_a_turn_has_its_number_and_its_time(store: ConversationStore) -> None:
    before = datetime.now(UTC)
    await store.append("barley", plain_turn(1))
    await store.append("barley", plain_turn(2))
    kept = await store.read("barley")

    assert [(turn.number, turn.messages) for turn in kept.turns] == [(1, plain_turn(1)), (2, plain_turn(2))]
    assert before <= kept.created_at <= kept.turns[0].created_at <= kept.turns[1].created_at == kept.updated_at
    assert kept.updated_at <= datetime.now(UTC)
    assert kept.updated_at.utcoffset() == timedelta(0)
    (listed,) = await store.page(1)
    assert (listed.id, listed.created_at, listed.updated_at) == ("barley", kept.created_at, kept.updated_at)
    assert listed.turns == 2


async def test_several_turns_at_once_are_as_many_turns_and_a_greeting_is_one(store: ConversationStore) -> None:
    greeting = answer(0)
    await store.append("barley", (greeting, *plain_turn(1), *tool_turn(2)))
    kept = await store.read("barley")

    assert [turn.messages for turn in kept.turns] == [(greeting,), plain_turn(1), tool_turn(2)]
    assert [turn.number for turn in kept.turns] == [1, 2, 3]


async def test_what_does_not_begin_with_a_question_joins_the_last_turn(store: ConversationStore) -> None:
    await store.append("barley", (*plain_turn(1), question(2)))
    await store.append("barley", (answer(2),))
    kept = await store.read("barley")

    assert [turn.messages for turn in kept.turns] == [plain_turn(1), plain_turn(2)]
    assert kept.last_turn == 2


@pytest.mark.parity(192)
async def test_a_new_system_message_replaces_those_that_were_remembered(store: ConversationStore) -> None:
    await store.append("barley", (BRIEF, *plain_turn(1)))
    await store.append("barley", (BRIEF, *plain_turn(2)))
    await store.append("barley", (KIND, *plain_turn(3)))

    assert await store.get("barley") == (KIND, *plain_turn(1), *plain_turn(2), *plain_turn(3))
    assert (await store.read("barley")).system == (KIND,)


@pytest.mark.parity(187, 188, 191)
@pytest.mark.fault("M01")
async def test_the_oldest_turns_leave_a_full_conversation_whole_and_system_messages_stay(open_store: Opening) -> None:
    store = await open_store(Window(7))
    await store.append("barley", (BRIEF, *tool_turn(1)))
    await store.append("barley", plain_turn(2))
    assert await store.get("barley") == (BRIEF, *tool_turn(1), *plain_turn(2))
    await store.append("barley", plain_turn(3))

    assert await store.get("barley") == (BRIEF, *plain_turn(2), *plain_turn(3))


async def test_turns_leave_by_their_tokens_too(open_store: Opening) -> None:
    store = await open_store(Window(200, tokens=60))
    await store.append("barley", (question(1), answer(1)))
    await store.append("barley", (question(2), replace(answer(2), content="x" * 160)))

    assert await numbers(store, "barley") == [2]


async def test_numbers_go_on_when_turns_have_left(open_store: Opening) -> None:
    store = await open_store(Window(4))
    for number in range(1, 6):
        await store.append("barley", plain_turn(number))
    await store.append("barley", tool_turn(6))

    assert await numbers(store, "barley") == [6]
    await store.append("barley", (*plain_turn(7), *plain_turn(8)))
    assert await numbers(store, "barley") == [7, 8]
    assert (await store.page(1))[0].turns == 2


async def test_a_turn_that_does_not_fit_is_told_of_in_the_log_without_its_words(
    open_store: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store(Window(3))
    with caplog.at_level(logging.WARNING):
        await store.append("barley", (BRIEF, *plain_turn(1)))
        assert not caplog.records
        await store.append("barley", tool_turn(2))

    assert await store.get("barley") == (BRIEF,)
    assert (
        "a turn of 4 messages and about 32 tokens does not fit a memory of 3 messages and any number of" in caplog.text
    )
    assert "field" not in caplog.text
    assert "barley" not in caplog.text
    await store.append("barley", plain_turn(3))
    assert await numbers(store, "barley") == [3]


async def test_a_conversation_of_system_messages_only_is_no_turn_that_does_not_fit(
    open_store: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store(Window(1))
    await store.append("barley", (BRIEF, KIND))

    assert await store.get("barley") == (BRIEF, KIND)
    assert (await store.read("barley")).turns == ()
    assert not caplog.records


@pytest.mark.fault("M11", "M12")
async def test_turns_added_at_the_same_moment_are_all_kept_and_not_mixed(store: ConversationStore) -> None:
    await asyncio.gather(*(store.append("new", tool_turn(number)) for number in range(50)))
    kept = await store.read("new")

    assert [turn.number for turn in kept.turns] == list(range(1, 51))
    assert sorted((turn.messages for turn in kept.turns), key=str) == sorted(map(tool_turn, range(50)), key=str)


@pytest.mark.parity(194)
@pytest.mark.parametrize(
    ("conversation_id", "error"),
    [("", ValueError), (" \n", ValueError), (None, TypeError), ("a\0b", ValueError), ("a\ud800", ValueError)],
    ids=["empty", "blank", "none", "nul", "half a character"],
)
async def test_a_conversation_needs_a_name(
    store: ConversationStore, conversation_id: Any, error: type[Exception]
) -> None:
    await store.append("barley", plain_turn(1))
    with pytest.raises(error, match="a conversation id"):
        await store.get(conversation_id)
    with pytest.raises(error, match="a conversation id"):
        await store.append(conversation_id, plain_turn(1))
    with pytest.raises(error, match="a conversation id"):
        await store.clear(conversation_id)
    with pytest.raises(error, match="a conversation id"):
        await store.fork("barley", conversation_id)

    assert await names(store) == ["barley"]


@pytest.mark.parametrize("conversation_id", ["", " ", "a\0b", "a\ud800"])
async def test_what_names_no_conversation_is_not_found(store: ConversationStore, conversation_id: str) -> None:
    with pytest.raises(ConversationNotFound):
        await store.read(conversation_id)
    with pytest.raises(ConversationNotFound):
        await store.fork(conversation_id, "copy")


@pytest.mark.parametrize(
    "name", ["a/b", "50%", "%2F", "naïve", "日本", "👩‍🌾", "' OR 1=1 --", 'say "x"', "x" * 1000, "A", "a ", "e\u0301"]
)
async def test_any_text_is_a_name_of_its_own(store: ConversationStore, name: str) -> None:
    await store.append(name, plain_turn(1))
    for other in ("a", name.upper() + "x", name.strip() + "\u200b"):
        await store.append(other, plain_turn(2))

    assert await store.get(name) == plain_turn(1)
    assert (await store.read(name)).id == name
    await store.clear(name)
    assert name not in await names(store)
    assert len(await names(store)) == 3


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
    store: ConversationStore, messages: Any, error: type[Exception], words: str
) -> None:
    await store.append("barley", plain_turn(0))
    with pytest.raises(error, match=words):
        await store.append("barley", messages)
    with pytest.raises(error, match=words):
        await store.append("new", messages)

    assert await store.get("barley") == plain_turn(0)
    assert await names(store) == ["barley"]


async def grow(store: ConversationStore, name: str = "barley", turns: int = 4) -> None:
    """A conversation of some turns, of which some have calls."""
    for number in range(1, turns + 1):
        await store.append(name, (BRIEF, *(tool_turn(number) if number % 2 else plain_turn(number))))


async def test_a_fork_begins_with_all_that_was_said(store: ConversationStore) -> None:
    await grow(store)
    copy = await store.fork("barley", "rye")
    origin = await store.read("barley")

    assert (
        copy
        == await store.read("rye")
        == replace(origin, id="rye", created_at=copy.created_at, updated_at=copy.updated_at)
    )
    assert copy.created_at == copy.updated_at > origin.updated_at
    assert await names(store) == ["rye", "barley"]


async def test_a_fork_at_a_turn_knows_nothing_of_those_behind_it_and_goes_its_own_way(store: ConversationStore) -> None:
    await grow(store)
    copy = await store.fork("barley", "rye", 2)
    assert copy.messages == await store.get("rye") == (BRIEF, *tool_turn(1), *plain_turn(2))

    await store.append("rye", plain_turn(9))
    assert await numbers(store, "rye") == [1, 2, 3]
    assert await numbers(store, "barley") == [1, 2, 3, 4]
    await store.clear("barley")
    assert await store.get("rye") == (BRIEF, *tool_turn(1), *plain_turn(2), *plain_turn(9))


async def test_a_fork_of_a_conversation_without_its_oldest_turns_keeps_their_numbers(open_store: Opening) -> None:
    store = await open_store(Window(5))
    await grow(store, turns=5)
    assert await numbers(store, "barley") == [5]
    with pytest.raises(TurnNotFound, match="conversation 'barley' has no turn 4, or no longer"):
        await store.fork("barley", "rye", 4)
    await store.fork("barley", "rye")
    await store.append("rye", plain_turn(6))

    assert await numbers(store, "rye") == [6]


@pytest.mark.parametrize("turn", [0, 5, -1, 10**15])
async def test_a_fork_that_cannot_be_is_refused_and_begins_nothing(store: ConversationStore, turn: int) -> None:
    await grow(store)
    await store.append("oats", plain_turn(1))
    with pytest.raises(TurnNotFound, match=f"conversation 'barley' has no turn {turn}, or no longer"):
        await store.fork("barley", "rye", turn)
    with pytest.raises(ConversationNotFound, match="there is no conversation 'nobody'"):
        await store.fork("nobody", "rye")
    with pytest.raises(ConversationNotFound, match="there is no conversation 'nobody'"):
        await store.fork("nobody", "oats")
    with pytest.raises(ConversationExists, match="there is a conversation 'oats' already"):
        await store.fork("barley", "oats")
    with pytest.raises(ConversationExists, match="there is a conversation 'barley' already"):
        await store.fork("barley", "barley")

    assert await names(store) == ["oats", "barley"]
    assert await store.get("oats") == plain_turn(1)


async def test_of_many_forks_under_one_name_one_is_made(store: ConversationStore) -> None:
    await grow(store)
    made = await asyncio.gather(*(store.fork("barley", "rye", turn) for turn in (1, 2, 3, 4)), return_exceptions=True)
    copies = [one for one in made if isinstance(one, KeptConversation)]

    assert [type(one) for one in made].count(ConversationExists) == 3
    assert copies == [await store.read("rye")]


async def test_pages_go_from_the_conversation_that_was_added_to_last_to_the_oldest(store: ConversationStore) -> None:
    for name in "abcdefg":
        await store.append(name, plain_turn(1))
    await store.append("b", plain_turn(2))
    first = await store.page(3)
    second = await store.page(3, before=(first[-1].updated_at, first[-1].id))
    third = await store.page(3, before=(second[-1].updated_at, second[-1].id))

    assert [[one.id for one in page] for page in (first, second, third)] == [["b", "g", "f"], ["e", "d", "c"], ["a"]]
    assert [one.turns for one in first] == [2, 1, 1]
    assert await store.page(3, before=(third[-1].updated_at, third[-1].id)) == []


async def test_pages_leave_out_none_of_those_that_were_added_to_at_the_same_time(store: ConversationStore) -> None:
    moment = datetime(2031, 5, 17, 12, 30, 15, 123456, tzinfo=UTC)
    there = {"a", "B", "b", "ä", "日本", "a b", "10", "9"}
    for name in there:
        await store.append(name, plain_turn(1))
        kept = await store.read(name)
        assert await store.replace(kept, replace(kept, updated_at=moment))
    listed: list[str] = []
    place = None
    while page := await store.page(3, before=place):
        listed += [one.id for one in page]
        place = (page[-1].updated_at, page[-1].id)

    assert sorted(listed) == sorted(there)


async def test_conversations_that_nobody_added_to_for_long_are_forgotten(store: ConversationStore) -> None:
    now = datetime.now(UTC)
    for name, age in (("old", 3), ("older", 4), ("young", 1), ("just", 2)):
        await store.append(name, tool_turn(1))
        kept = await store.read(name)
        assert await store.replace(kept, replace(kept, updated_at=now - timedelta(days=age)))

    assert await store.prune(now - timedelta(days=2)) == 2
    assert await names(store) == ["young", "just"]
    assert await store.get("old") == ()
    assert await store.prune(now - timedelta(days=2)) == 0


async def test_a_conversation_is_written_anew_where_nobody_has_changed_it(store: ConversationStore) -> None:
    await grow(store)
    old = await store.read("barley")
    new = replace(old, turns=old.turns[2:], summary="They spoke of fields.")

    assert await store.replace(old, new)
    assert await store.read("barley") == new
    messages = await store.get("barley")
    assert [message.content for message in messages[:2] if isinstance(message, SystemMessage)][1].endswith(
        "They spoke of fields."
    )
    assert messages[2:] == (*tool_turn(3), *plain_turn(4))
    await store.append("barley", plain_turn(5))
    assert await numbers(store, "barley") == [3, 4, 5]
    assert (await store.read("barley")).summary == "They spoke of fields."
    assert (await store.fork("barley", "rye", 4)).summary == "They spoke of fields."


async def test_a_conversation_that_was_changed_meanwhile_is_not_written_anew(store: ConversationStore) -> None:
    await grow(store)
    old = await store.read("barley")
    new = replace(old, turns=(), summary="They spoke of fields.")
    await store.append("barley", plain_turn(5))
    changed = await store.read("barley")

    assert not await store.replace(old, new)
    assert await store.read("barley") == changed
    await store.clear("barley")
    assert not await store.replace(changed, new)
    assert await names(store) == []


async def test_of_two_who_write_a_conversation_anew_one_does(store: ConversationStore) -> None:
    await grow(store)
    old = await store.read("barley")
    news = [replace(old, turns=old.turns[count:], summary=f"{count} turns") for count in (1, 2, 3)]
    written = await asyncio.gather(*(store.replace(old, new) for new in news))

    assert sorted(written) == [False, False, True]
    assert await store.read("barley") == news[written.index(True)]


async def test_a_store_that_answers_can_be_asked(store: ConversationStore) -> None:
    await store.ping()

    assert isinstance(store, ConversationStore)


async def test_a_store_is_opened_again_after_it_was_closed(open_store: Opening) -> None:
    store = await open_store()
    await store.append("barley", plain_turn(1))
    await store.aclose()
    await store.start()

    assert await store.get("barley") == plain_turn(1)
