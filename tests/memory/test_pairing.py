"""No call without its result, no result without its call."""

from __future__ import annotations

import pytest

from app.chat import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from app.memory.pairing import paired

ASKED = UserMessage("How deep is the well?")
BOTH = AssistantMessage("Let me look.", (ToolCall("a", "depth"), ToolCall("b", "depth")))
A, B = ToolResult("a", "depth", "9 m"), ToolResult("b", "depth", "7 m")
SAID = AssistantMessage("It is 9 m deep.")


@pytest.mark.parametrize(
    "history",
    [
        (),
        (SystemMessage("Be brief."), ASKED, SAID),
        (ASKED, BOTH, ToolMessage((A, B)), SAID),
        (ASKED, BOTH, ToolMessage((B, A)), SAID),
        (ASKED, BOTH, ToolMessage((A,)), ToolMessage((B,)), SAID),
        (ASKED, BOTH, ToolMessage((A, B)), BOTH, ToolMessage((A, B)), SAID),
    ],
    ids=["nothing", "plain", "one-message", "other-order", "one-each", "two-rounds"],
)
def test_a_history_whose_calls_are_answered_stays_as_it_is(history: tuple[Message, ...]) -> None:
    assert paired(history) == history


@pytest.mark.fault("M05")
@pytest.mark.parametrize(
    "history",
    [
        (ASKED, BOTH, SAID),
        (ASKED, BOTH, ToolMessage((A,)), SAID),
        (ASKED, BOTH, ToolMessage((A, B, ToolResult("c", "depth", "1 m"))), SAID),
        (ASKED, ToolMessage((A,)), SAID),
        (ASKED, BOTH, BOTH, SAID),
        (ToolMessage((A,)), ASKED, SAID, BOTH),
        (ASKED, SAID, ToolMessage((A, B))),
    ],
    ids=["no-result", "one-of-two", "one-too-many", "nobody-asked", "twice-open", "at-both-ends", "after-the-answer"],
)
def test_what_has_no_counterpart_leaves(history: tuple[Message, ...]) -> None:
    assert paired(history) == (ASKED, SAID)


@pytest.mark.fault("M05")
def test_an_answer_between_calls_and_results_parts_them() -> None:
    assert paired((ASKED, BOTH, SAID, ToolMessage((A, B)))) == (ASKED, SAID)
