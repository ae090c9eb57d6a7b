"""Histories that servers refuse are mended before they are sent, and others are left alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from app.providers.openai.repair import NO_RESULT, repaired

ASKED = UserMessage("Which trams leave?")


def call(call_id: str, name: str = "trams") -> ToolCall:
    return ToolCall(call_id, name)


def result(call_id: str, content: str = "line 4", name: str = "trams") -> ToolResult:
    return ToolResult(call_id, name, content)


def missing(call_id: str) -> ToolResult:
    return ToolResult(call_id, "trams", NO_RESULT, is_error=True)


def asks(*calls: ToolCall, content: str = "") -> AssistantMessage:
    return AssistantMessage(content, calls)


def answers(*results: ToolResult) -> ToolMessage:
    return ToolMessage(results)


@pytest.mark.fault("M05")
@pytest.mark.parametrize(
    ("history", "mended"),
    [
        pytest.param(
            (ASKED, asks(call("a")), UserMessage("Still there?")),
            (ASKED, asks(call("a")), answers(missing("a")), UserMessage("Still there?")),
            id="a call without a result gets an error",
        ),
        pytest.param(
            (ASKED, asks(call("a"), call("b")), answers(result("b"))),
            (ASKED, asks(call("a"), call("b")), answers(missing("a"), result("b"))),
            id="so does one of several",
        ),
        pytest.param(
            (ASKED, answers(result("a")), asks(content="Line 4.")),
            (ASKED, asks(content="Line 4.")),
            id="a result without a call is dropped",
        ),
        pytest.param(
            (ASKED, asks(call("a")), answers(result("a"), result("a", "line 5"))),
            (ASKED, asks(call("a")), answers(result("a"))),
            id="so is a second result",
        ),
        pytest.param(
            (ASKED, asks(call("a"), call("b")), answers(result("b")), answers(result("a"))),
            (ASKED, asks(call("a"), call("b")), answers(result("a"), result("b"))),
            id="results stand in the order of their calls, in one message",
        ),
        pytest.param(
            (ASKED, asks(call("a")), UserMessage("Still there?"), answers(result("a"))),
            (ASKED, asks(call("a")), answers(result("a")), UserMessage("Still there?")),
            id="a result that came late stands behind its call",
        ),
        pytest.param(
            (ASKED, asks(call("a"), call("a")), answers(result("a", "one"), result("a", "two"))),
            (ASKED, asks(call("a"), call("a_2")), answers(result("a", "one"), result("a_2", "two"))),
            id="twins get ids of their own, in order",
        ),
        pytest.param(
            (ASKED, asks(call("0")), answers(result("0")), asks(call("0")), answers(result("0", "line 5"))),
            (ASKED, asks(call("0")), answers(result("0")), asks(call("0_2")), answers(result("0_2", "line 5"))),
            id="ids that a server gives anew in each round are told apart",
        ),
        pytest.param(
            (ASKED, asks(call("a"), call("a"), call("a_2")), answers(result("a_2", "third"))),
            (
                ASKED,
                asks(call("a"), call("a_2"), call("a_2_2")),
                answers(missing("a"), missing("a_2"), result("a_2_2", "third")),
            ),
            id="a made id does not take that of another call's result",
        ),
        pytest.param(
            (ASKED, asks(call("a")), asks(call("a")), answers(result("a"))),
            (ASKED, asks(call("a")), answers(missing("a")), asks(call("a_2")), answers(result("a_2"))),
            id="a result belongs to the last that asked for it",
        ),
        pytest.param(
            (ASKED, asks(call(" ")), answers(result(" "))),
            (ASKED, asks(call("call_2")), answers(result("call_2"))),
            id="a call without an id gets one",
        ),
        pytest.param(
            (ASKED, asks(call("a", " "), call("b")), answers(result("a"), result("b"))),
            (ASKED, asks(call("b")), answers(result("b"))),
            id="a call without a name is dropped with its result",
        ),
        pytest.param(
            (
                SystemMessage(" "),
                UserMessage(""),
                ASKED,
                AssistantMessage(" ", reasoning="Hm."),
                answers(),
                AssistantMessage(refusal="No."),
            ),
            (ASKED, AssistantMessage(refusal="No.")),
            id="messages that say nothing are dropped",
        ),
        pytest.param((UserMessage(" "),), (UserMessage(" "),), id="what is asked is left to the server, be it blank"),
        pytest.param((), (), id="nothing"),
    ],
)
def test_a_broken_history_is_mended(history: tuple[Message, ...], mended: tuple[Message, ...]) -> None:
    assert repaired(history) == mended


@pytest.mark.fault("M05")
def test_repairs_are_logged_in_numbers_without_content(caplog: pytest.LogCaptureFixture) -> None:
    repaired((ASKED, asks(call("a", "secret_tool")), answers(result("x", "secret"), result("y")), SystemMessage("")))

    [record] = caplog.records
    told = "1 calls without a result, 1 empty system messages, 2 results without a call"
    assert record.getMessage() == f"the history was repaired before it was sent: {told}"
    assert record.levelno == logging.WARNING


def test_a_whole_history_is_left_as_it_is_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    history = (SystemMessage("Be brief."), ASKED, asks(call("a")), answers(result("a", "")), asks(content="Line 4."))

    assert repaired(history) == history
    assert not caplog.records


_IDS = st.sampled_from(["", " ", "a", "b", "a_2", "call_2"])
_NAMES = st.sampled_from(["trams", "clock", ""])
_TEXTS = st.sampled_from(["", " ", "Line 4."])
_MESSAGES = st.one_of(
    st.builds(SystemMessage, _TEXTS),
    st.builds(UserMessage, _TEXTS),
    st.builds(AssistantMessage, _TEXTS, st.lists(st.builds(ToolCall, _IDS, _NAMES), max_size=3).map(tuple)),
    st.builds(ToolMessage, st.lists(st.builds(ToolResult, _IDS, _NAMES, _TEXTS), max_size=3).map(tuple)),
)
HISTORIES = st.lists(_MESSAGES, max_size=8).map(tuple)


def flaws(history: Sequence[Message]) -> list[str]:
    """What a server would refuse, found in another way than it is mended."""
    found = []
    calls = [one for message in history if isinstance(message, AssistantMessage) for one in message.tool_calls]
    ids = [one.id for one in calls]
    if len(set(ids)) < len(ids) or not all(one.id.strip() and one.name.strip() for one in calls):
        found.append("a call without an id of its own or without a name")
    for before, message in zip((None, *history), history, strict=False):
        asked = [one.id for one in before.tool_calls] if isinstance(before, AssistantMessage) else []
        given = [one.id for one in message.results] if isinstance(message, ToolMessage) else []
        if asked != given or (isinstance(message, ToolMessage) and not given):
            found.append(f"{given} behind {asked}")
        if isinstance(message, AssistantMessage) and not (
            message.content.strip() or message.tool_calls or message.refusal
        ):
            found.append("an answer that says nothing")
        if isinstance(message, SystemMessage) and not message.content.strip():
            found.append("a blank system text")
    if history and isinstance(history[-1], AssistantMessage) and history[-1].tool_calls:
        found.append("calls at the end")
    users = [message for message in history if isinstance(message, UserMessage)]
    if any(not message.content.strip() for message in users[:-1]):
        found.append("a blank user text")
    return found


@given(HISTORIES)
def test_what_comes_out_is_whole_whatever_goes_in(history: tuple[Message, ...]) -> None:
    assert not flaws(repaired(history))


@given(HISTORIES)
def test_to_repair_twice_is_to_repair_once(history: tuple[Message, ...]) -> None:
    assert repaired(repaired(history)) == repaired(history) == repaired(list(history))


@given(HISTORIES)
def test_only_what_has_a_flaw_is_changed(history: tuple[Message, ...]) -> None:
    assert (repaired(history) == history) is not bool(flaws(history))


@given(HISTORIES, HISTORIES)
def test_no_text_is_lost_or_invented(before: tuple[Message, ...], after: tuple[Message, ...]) -> None:
    def texts(history: Sequence[Message]) -> list[str]:
        spoken = (message for message in history if not isinstance(message, ToolMessage))
        return [message.content for message in spoken if message.content.strip()]

    assert texts(repaired(before + after)) == texts(before + after)
