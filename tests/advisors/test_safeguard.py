"""Requests with sensitive words are answered without the model."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.advisors import MemoryAdvisor, SafeguardAdvisor
from app.chat import (
    Advisor,
    AssistantMessage,
    ChatResponse,
    Completed,
    ConfigurationError,
    FinishReason,
    Message,
    SystemMessage,
    TextDelta,
    Usage,
    UserMessage,
)
from app.memory import InMemoryChatMemory
from app.providers.scripted import ScriptedModel
from tests.support.chains import run
from tests.support.modes import both_modes

SORRY = "Let us talk of something else."


def guard(*words: str, **options: Any) -> SafeguardAdvisor:
    return SafeguardAdvisor(words, message=SORRY, **options)


@both_modes
async def test_a_sensitive_message_is_answered_without_the_model(*, stream: bool) -> None:
    model = ScriptedModel()
    asked = await run([guard("smuggle")], model, "How do I smuggle rum?", stream=stream)
    said = AssistantMessage(SORRY)
    answer = ChatResponse(said, FinishReason.CONTENT_FILTER, Usage(0, 0, 0, 0, 0), generated=(said,))
    assert asked.events == [TextDelta(SORRY), Completed(answer)] if stream else [Completed(answer)]
    assert model.prompts == []


@both_modes
async def test_any_other_message_passes_untouched(*, stream: bool) -> None:
    model = ScriptedModel("By the barrel.")
    asked = await run([guard("smuggle")], model, "How do I buy rum?", stream=stream)
    assert asked.response.content == "By the barrel."
    assert model.prompts[0].messages == (UserMessage("How do I buy rum?"),)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("rum", "Is RUM good?"),
        ("RUM", "rum"),
        ("straße", "Welche STRASSE?"),
        ("rum", "\uff52\uff55\uff4d please"),
        ("café", "the cafe\u0301 on the pier"),
        ("black market", "on the Black Market."),
        ("c++", "I write C++, too"),
        (" rum ", "rum?"),
    ],
    ids=["upper", "lower", "sharp-s", "wide", "composed", "two-words", "signs", "spaces-around"],
)
async def test_a_word_is_found_in_all_its_forms(word: str, text: str) -> None:
    asked = await run([guard(word)], ScriptedModel("yes"), text, stream=False)
    assert asked.response.content == SORRY


@pytest.mark.parametrize(
    ("options", "answer"), [({}, "yes"), ({"whole_words": True}, "yes"), ({"whole_words": False}, SORRY)]
)
async def test_a_word_within_another_counts_only_if_wanted(options: dict[str, bool], answer: str) -> None:
    asked = await run([guard("rum", **options)], ScriptedModel("yes"), "Where is the drum?", stream=False)
    assert asked.response.content == answer


@pytest.mark.parametrize(
    ("pattern", "text", "answer"),
    [
        (r"\b\d{4} \d{4}\b", "My card is 1234 5678.", SORRY),
        (r"\b\d{4} \d{4}\b", "My card is new.", "yes"),
        ("rum", "RUM", SORRY),
        (re.compile("rum"), "RUM", "yes"),
    ],
    ids=["fits", "does-not-fit", "text-ignores-case", "compiled-as-it-is"],
)
async def test_patterns_are_searched(pattern: str | re.Pattern[str], text: str, answer: str) -> None:
    asked = await run([guard(patterns=[pattern])], ScriptedModel("yes"), text, stream=False)
    assert asked.response.content == answer


async def test_only_what_users_say_is_searched_and_all_of_it() -> None:
    quoted: list[Message] = [SystemMessage("Never speak of rum."), UserMessage("Hi"), AssistantMessage("No rum here.")]
    asked = await run([guard("rum")], ScriptedModel("yes"), [*quoted, UserMessage("Why?")], stream=False)
    assert asked.response.content == "yes"
    asked = await run([guard("rum")], ScriptedModel("yes"), [UserMessage("rum!"), *quoted], stream=False)
    assert asked.response.content == SORRY


@both_modes
async def test_by_default_a_blocked_message_is_not_remembered(*, stream: bool) -> None:
    memory = InMemoryChatMemory()
    advisors: list[Advisor] = [MemoryAdvisor(memory), guard("rum")]
    await run(advisors, ScriptedModel(), "rum", stream=stream, conversation_id="trip")
    assert await memory.conversation_ids() == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs words or patterns"),
        ({"words": ["rum", " "]}, "is blank"),
        ({"words": "rum"}, "not one text"),
        ({"patterns": ["(rum"]}, r"'\(rum' is not a regular expression"),
    ],
    ids=["nothing", "blank", "one-text", "bad-pattern"],
)
def test_a_guard_that_cannot_work_is_not_made(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        SafeguardAdvisor(**arguments)
