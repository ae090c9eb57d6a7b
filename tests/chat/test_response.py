"""Answers add up: usage, rounds, tool runs and messages of one run."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from app.chat import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    Message,
    Round,
    SystemMessage,
    ToolMessage,
    ToolResult,
    ToolRun,
    Usage,
    UserMessage,
    current_turn,
)


@pytest.mark.parity(13, 14)
def test_usage_is_summed_field_by_field() -> None:
    assert Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50) == Usage(11, 22, 33, 44, 55)


def test_unknown_usage_is_not_zero() -> None:
    assert Usage(None, 2) + Usage(None, None, 3) == Usage(None, 2, 3)


@pytest.mark.parity(15)
def test_the_answer_of_a_single_call_reports_its_usage_as_it_came() -> None:
    answer = ChatResponse.of_call(AssistantMessage("Hi"), usage=Usage(1, 2, 3))

    assert answer.after(None) is answer
    assert answer.rounds == (Round(FinishReason.STOP, Usage(1, 2, 3)),)


def test_an_answer_after_another_keeps_its_own_words_and_adds_up_the_rest() -> None:
    first = ChatResponse.of_call(AssistantMessage("a"), FinishReason.TOOL_CALLS, Usage(1, 1, 2))
    ran = ChatResponse(first.message, usage=first.usage, rounds=first.rounds, tool_runs=(ToolRun(1, "c", "t", "{}"),))
    last = ChatResponse.of_call(AssistantMessage("b"), usage=Usage(2, 3, 5), model="m", id="x")

    total = last.after(ran)

    assert (total.content, total.finish_reason, total.model, total.id) == ("b", FinishReason.STOP, "m", "x")
    assert total.usage == Usage(3, 4, 7)
    assert [r.finish_reason for r in total.rounds] == [FinishReason.TOOL_CALLS, FinishReason.STOP]
    assert total.tool_runs == ran.tool_runs


ANSWER = ChatResponse(
    AssistantMessage("Hi"),
    FinishReason.LENGTH,
    Usage(1, 2, 3),
    "m",
    "x",
    (Round(FinishReason.TOOL_CALLS, Usage(1)), Round(FinishReason.LENGTH, Usage(0, 2, 3), "near")),
    (ToolRun(1, "c", "t", "{}"),),
    (AssistantMessage("Hi"),),
    {"limit": 1},
)


def test_the_answer_that_is_changed_here_says_something_in_each_field() -> None:
    silent = ChatResponse(AssistantMessage(), FinishReason.STOP)

    assert [each.name for each in fields(silent) if getattr(ANSWER, each.name) == getattr(silent, each.name)] == []


def test_an_answer_whose_tools_have_run_has_their_results_and_is_otherwise_the_same() -> None:
    ran, results = ToolRun(2, "d", "t", "{}", "11 m"), ToolMessage((ToolResult("d", "t", "11 m"),))

    assert ANSWER.with_results(results, (ran,)) == replace(
        ANSWER, tool_runs=(*ANSWER.tool_runs, ran), generated=(*ANSWER.generated, results)
    )


def test_an_answer_that_cost_more_is_otherwise_the_same() -> None:
    first, last = ANSWER.rounds

    assert ANSWER.with_usage(Usage(10, 20)) == replace(
        ANSWER, usage=Usage(11, 22, 3), rounds=(first, replace(last, usage=Usage(10, 22, 3)))
    )


def test_an_answer_of_a_target_is_otherwise_the_same() -> None:
    rounds = tuple(replace(one, target="far") for one in ANSWER.rounds)

    assert ANSWER.from_target("far") == replace(ANSWER, rounds=rounds)


def test_the_current_turn_begins_at_the_last_user_message() -> None:
    earlier: list[Message] = [SystemMessage("s"), UserMessage("1"), AssistantMessage("2")]
    turn: list[Message] = [UserMessage("3"), AssistantMessage(), ToolMessage()]

    assert current_turn([*earlier, *turn]) == turn
    assert current_turn([AssistantMessage()]) == [AssistantMessage()]
