"""The fold: what the events of a run add up to while it is going."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    RoundStarted,
    ToolCallErrored,
    ToolCallReady,
    ToolCallSucceeded,
    ToolRun,
    Usage,
)
from app.client import ChatClient
from app.providers.scripted import Reply, ScriptedModel, tool_calls
from app.runs import RunCancelled, RunCompleted, RunEvent, RunFailed, Runs, RunStarted
from app.runs.fold import Fold
from tests.support.chains import request_of
from tests.support.following import events
from tests.support.tools import echo

REPLIES: st.SearchStrategy[Reply] = st.one_of(
    st.text(max_size=30).map(AssistantMessage),
    st.builds(AssistantMessage, st.text(max_size=20), reasoning=st.text(min_size=1, max_size=10)),
)
ROUNDS: st.SearchStrategy[Reply] = st.lists(
    st.tuples(
        st.sampled_from(["echo", "missing"]), st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.integers()})
    ),
    min_size=1,
    max_size=3,
).map(lambda calls: tool_calls(*calls, content="Looking"))


def folded(told: list[RunEvent], reason: FinishReason) -> ChatResponse:
    """What the events of a run add up to."""
    fold = Fold()
    for event in told:
        if not isinstance(event, RunStarted | RunCompleted | RunCancelled | RunFailed):
            fold.add(event)
    return fold.response(reason)


def comparable(answer: ChatResponse) -> tuple[Any, ...]:
    """An answer without what differs from run to run."""
    message = answer.message
    return (
        (message.content, message.reasoning, message.tool_calls),
        answer.finish_reason,
        answer.usage,
        answer.rounds,
        [(run.round, run.id, run.arguments, run.result, run.error) for run in answer.tool_runs],
    )


@pytest.mark.fault("M13")
@given(st.lists(ROUNDS, max_size=3), REPLIES)
def test_the_folded_stream_is_the_blocking_answer(rounds: list[Reply], last: Reply) -> None:
    async def answer(*, stream: bool) -> tuple[ChatResponse, list[RunEvent]]:
        model = ScriptedModel(*rounds, last, usage=Usage(1, 2, 3))
        run = await Runs(ChatClient(model, tools=[echo()])).start(request_of(stream=stream))
        return await run.result(), await events(run)

    async def both() -> tuple[tuple[ChatResponse, list[RunEvent]], ...]:
        return await answer(stream=False), await answer(stream=True)

    (blocking, _), (streamed, told) = asyncio.run(both())

    assert comparable(streamed) == comparable(blocking)
    assert comparable(folded(told, streamed.finish_reason)) == comparable(blocking)


def test_a_result_whose_call_was_not_seen_is_kept() -> None:
    told: list[RunEvent] = [RoundStarted(2), ToolCallErrored("c", "t", "no", 1.0)]

    assert folded(told, FinishReason.CANCELLED).tool_runs == (ToolRun(2, "c", "t", "{}", None, "no", 1.0),)


def test_calls_that_are_ready_give_their_arguments_to_the_result() -> None:
    call = tool_calls(("add", {"a": 1})).tool_calls[0]
    told: list[RunEvent] = [RoundStarted(1), ToolCallReady(call), ToolCallSucceeded(call.id, "add", "1", 2.0)]

    assert folded(told, FinishReason.DEADLINE).tool_runs == (ToolRun(1, call.id, "add", '{"a": 1}', "1", None, 2.0),)
