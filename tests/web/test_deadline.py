"""A run out of time is an answer with what there is, the same by both endpoints."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.chat import ChatEvents, Prompt, ReasoningDelta, TextDelta, Usage, UserMessage
from app.providers.scripted import ScriptedModel, tool_calls
from app.web.documents import AnswerDocument
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import Held, echo
from tests.support.web import Reply, ask, gateway

SHORT = {"runs": {"deadline": 0.1}}
USED = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, "cached_tokens": None, "reasoning_tokens": None}
UNKNOWN = dict.fromkeys(USED)


def assert_out_of_time(reply: Reply) -> dict[str, Any]:
    """The answer, which is one by every rule of answers."""
    assert reply.status == 200
    if reply.events:
        assert reply.names[-1] == "run.completed"
        closed = [{key: data[key] for key in ("finish_reason", "usage")} for data in reply.of("round.completed")]
        assert closed == reply.document["rounds"]
        assert len(closed) == len(reply.of("round.started"))
    AnswerDocument.model_validate(reply.document)
    assert reply.document["finish_reason"] == "deadline"
    assert reply.document["tool_calls"] == []
    return reply.document


@pytest.mark.fault("D11")
@both_modes
async def test_a_hanging_tool_does_not_hold_up_a_run_beyond_its_deadline(*, stream: bool) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("echo", {}), ("held", {}), content="Looking"), usage=Usage(3, 2, 5))
    async with gateway(model, [held.tool, echo("echo")], settings=SHORT) as client:
        answer = assert_out_of_time(await ask(client, stream=stream))

    assert held.cancelled == 1
    assert answer["content"] == "Looking"
    assert [(ran["round"], ran["name"]) for ran in answer["tool_runs"]] == [(1, "echo")]
    assert answer["rounds"] == [{"finish_reason": "tool_calls", "usage": USED}]
    assert answer["usage"] == USED


@both_modes
async def test_a_hanging_model_does_not_either_and_nothing_of_the_turn_is_remembered(*, stream: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(tool_calls(("echo", {})), reply, "Hi", usage=Usage(3, 2, 5))
    async with gateway(model, [echo("echo")], settings=SHORT) as client:
        answer = assert_out_of_time(await ask(client, stream=stream, conversation_id="c"))
        again = await ask(client, "Again?", stream=stream, conversation_id="c")

    assert reply.cancelled.is_set()
    assert (answer["content"], answer["usage"], answer["conversation_id"]) == ("", USED, "c")
    assert [one["finish_reason"] for one in answer["rounds"]] == ["tool_calls", "deadline"]
    assert answer["rounds"][1]["usage"] == UNKNOWN
    assert again.document["content"] == "Hi"
    assert model.prompts[-1].messages == (UserMessage("Again?"),)


async def test_what_a_stream_had_said_is_the_answer() -> None:
    class Slow(ScriptedModel):
        async def stream(self, prompt: Prompt) -> ChatEvents:
            yield ReasoningDelta("Hm.")
            yield TextDelta("Once upon")
            await asyncio.Event().wait()

    async with gateway(Slow(), settings=SHORT) as client:
        answer = assert_out_of_time(await ask(client, stream=True))

    assert (answer["content"], answer["reasoning"]) == ("Once upon", "Hm.")


@both_modes
async def test_a_run_that_ends_in_time_does_not_see_the_deadline(*, stream: bool) -> None:
    async with gateway(ScriptedModel("Hi"), settings=SHORT) as client:
        reply = await ask(client, stream=stream)

    assert (reply.document["finish_reason"], reply.document["content"]) == ("stop", "Hi")
