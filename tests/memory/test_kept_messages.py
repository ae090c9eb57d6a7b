"""What comes out of a store is what was put in, whatever it is; and how much of it is what the window says."""

from __future__ import annotations

import string
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.chat import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from app.memory import ConversationStore, Window, window
from tests.memory.conftest import Opening
from tests.memory.histories import turns

NASTY = ("\0", "\udfff", "\ud800", "😀", "\u2028", "\\u0000", "'", '"', "\\", "%", "{}", "\r\n", "\ufeff", "e\u0301")
one_store_for_all = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


def _is_whole(text: str) -> bool:
    """Whether it has no two halves side by side, which every reader of JSON joins to the character that they are."""
    return not any("\ud800" <= first <= "\udbff" and "\udc00" <= second <= "\udfff" for first, second in pairwise(text))


texts = st.one_of(st.text(), st.lists(st.sampled_from([*string.ascii_letters, *NASTY])).map("".join)).filter(_is_whole)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
extras = st.dictionaries(texts, values, max_size=2)
calls = st.builds(ToolCall, id=texts, name=texts, arguments=texts, extra=extras)
results = st.builds(ToolResult, id=texts, name=texts, content=texts, is_error=st.booleans())
others: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, texts),
    st.builds(
        AssistantMessage,
        texts,
        st.lists(calls, max_size=2).map(tuple),
        st.none() | texts,
        st.none() | texts,
        extras,
    ),
    st.builds(ToolMessage, st.lists(results, max_size=2).map(tuple)),
)
systems = st.lists(st.builds(SystemMessage, texts), max_size=2, unique_by=lambda message: message.content)


@one_store_for_all
@given(said=st.lists(others, min_size=1, max_size=4), told=systems)
async def test_every_message_comes_back_with_all_its_fields(
    store: ConversationStore, said: list[Message], told: list[SystemMessage]
) -> None:
    await store.clear("barley")
    await store.append("barley", (*told, *said))
    kept = await store.read("barley")

    assert await store.get("barley") == (*told, *said)
    assert kept.system == tuple(told)
    assert [message for turn in kept.turns for message in turn.messages] == said
    assert await store.replace(kept, kept), "it is the same each time it is read"


@pytest.mark.parametrize(
    "text", ["".join(NASTY), "\ud83d\ud83d", "x" * 2**20, "\0😀" * 2**12], ids=["nasty", "halves", "long", "other"]
)
async def test_every_text_comes_back_as_it_was(store: ConversationStore, text: str) -> None:
    deep: Any = {"a": [{"b": [text, 2**70, 1e-320, None, True]}]}
    call = ToolCall("call_1", "look", text, {text: deep})
    turn = (
        UserMessage(text),
        AssistantMessage(text, (call,), reasoning=text, refusal=text, extra=deep),
        ToolMessage((ToolResult("call_1", "look", text, is_error=True),)),
        AssistantMessage(text),
    )
    await store.append("barley", (SystemMessage(text), *turn))
    kept = await store.read("barley")

    assert await store.get("barley") == (SystemMessage(text), *turn)
    summed_up = replace(kept, summary=text)
    assert await store.replace(kept, summed_up)
    assert await store.read("barley") == summed_up


async def test_half_a_character_is_joined_to_the_other_half_that_follows(store: ConversationStore) -> None:
    await store.append("barley", (UserMessage("\ud83d\ude00"),))
    (message,) = await store.get("barley")

    assert isinstance(message, UserMessage)
    assert message.content.encode("utf-16", "surrogatepass") == "😀".encode("utf-16")


@settings(one_store_for_all, max_examples=12)
@given(history=st.lists(turns(), max_size=6), limit=st.integers(1, 12), tokens=st.none() | st.integers(1, 200))
async def test_a_store_keeps_what_the_window_leaves(
    open_store: Opening, history: list[tuple[Message, ...]], limit: int, tokens: int | None
) -> None:
    limits = Window(limit, tokens)
    store = await open_store(limits)
    await store.clear("barley")
    kept: tuple[Message, ...] = ()
    for turn in history:
        await store.append("barley", turn)
        kept = window(kept, turn, limits)

        assert await store.get("barley") == kept
