"""The words as JSON values: what is read again is what was written, by this version and by later ones."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given

from app.chat import AssistantMessage, FinishReason, Message, Round, ToolCall, ToolCallProgress, Usage, UserMessage
from app.chat.storing import StoredValueInvalid, from_stored, to_stored
from tests.support.values import MESSAGES, messages, responses


def read_again(hint: Any, value: object) -> Any:
    """The value after its way through JSON."""
    return from_stored(hint, json.loads(json.dumps(to_stored(value), ensure_ascii=False)))


@given(message=messages)
def test_every_message_comes_back_as_it_was(message: Message) -> None:
    assert read_again(Message, message) == message
    assert read_again(tuple[Message, ...], (message, message)) == (message, message)


@given(response=responses)
def test_every_answer_comes_back_as_it_was(response: object) -> None:
    assert read_again(type(response), response) == response


def test_what_is_at_its_default_is_left_out() -> None:
    assert to_stored(AssistantMessage("Hi")) == {"kind": "AssistantMessage", "content": "Hi"}
    assert to_stored(AssistantMessage()) == {"kind": "AssistantMessage"}


def test_fields_that_this_version_does_not_know_are_passed_over_and_those_it_lacks_are_at_their_defaults() -> None:
    stored = {"kind": "AssistantMessage", "content": "Hi", "mood": "good"}

    assert from_stored(Message, stored) == AssistantMessage("Hi")


def test_a_key_named_as_our_own_mark_in_what_a_server_sent_means_nothing() -> None:
    call = ToolCall("1", "look", extra={"kind": "UserMessage", "content": {"kind": "SystemMessage"}})

    assert read_again(Message, AssistantMessage(tool_calls=(call,), extra=call.extra)) == AssistantMessage(
        tool_calls=(call,), extra=call.extra
    )


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_stays_what_it_is(number: float) -> None:
    again = read_again(ToolCallProgress, ToolCallProgress("1", "look", data={"deep": [number]}))

    assert repr(again.data) == repr({"deep": [number]})


def test_parts_are_built_again_and_not_left_as_they_were_stored() -> None:
    again = read_again(Round, Round(FinishReason.LENGTH, Usage(1, 2, 3), "one"))

    assert again == Round(FinishReason.LENGTH, Usage(1, 2, 3), "one")
    assert again.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("hint", "stored"),
    [
        (Message, {"kind": "Letter", "content": "Hi"}),
        (Message, {"content": "Hi"}),
        (Message, {"kind": None}),
        (Message, {"kind": ["UserMessage"]}),
        (Message, ["UserMessage"]),
        (Message, "Hi"),
        (Message, None),
        (Message, {"kind": "UserMessage"}),
        (UserMessage, {"kind": "SystemMessage", "content": "Hi"}),
        (Round, {"kind": "Round", "finish_reason": "tired"}),
        (Round, {"kind": "Round", "finish_reason": "stop", "usage": "a lot"}),
        (tuple[Message, ...], {"kind": "UserMessage", "content": "Hi"}),
        (tuple[Message, ...], [{"kind": "UserMessage", "content": "Hi"}, None]),
        (FinishReason, "tired"),
    ],
    ids=repr,
)
def test_what_is_none_of_ours_is_refused(hint: Any, stored: object) -> None:
    with pytest.raises(StoredValueInvalid):
        from_stored(hint, stored)


def test_the_kinds_of_messages_are_told_apart() -> None:
    names = [kind.__name__ for kind in MESSAGES]

    assert sorted(set(names)) == sorted(names)
