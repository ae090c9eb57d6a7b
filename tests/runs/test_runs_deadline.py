"""Runs that are out of time: they end as answers, with what was done."""

from __future__ import annotations

import asyncio

import pytest

from app.advisors import ToolCallingAdvisor
from app.advisors.memory import MemoryAdvisor
from app.chat import (
    ChatEvents,
    ChatRequest,
    FinishReason,
    ModelUnavailable,
    Prompt,
    ReasoningDelta,
    Round,
    RoundCompleted,
    TextDelta,
    Usage,
)
from app.client import ChatClient
from app.memory import InMemoryChatMemory
from app.providers.scripted import Reply, ScriptedModel, tool_calls
from app.runs import RunCompleted, RunLimits, RunOptions, Runs, RunStarted
from app.tooling import ToolCallingManager, tool
from tests.support.advisors import Tidy
from tests.support.chains import request_of
from tests.support.following import events
from tests.support.hesitant import Hesitant, Stubborn
from tests.support.loop_time import LoopTime
from tests.support.modes import both_modes
from tests.support.tools import Held


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@both_modes
async def test_a_run_out_of_time_ends_as_an_answer_with_what_was_done(*, stream: bool) -> None:
    reply, memory = Hesitant(), InMemoryChatMemory()
    model = ScriptedModel(tool_calls(("add", {"a": 2, "b": 3})), reply, usage=Usage(1, 1, 2))
    client = ChatClient(model, tools=[add], advisors=[MemoryAdvisor(memory)])
    run = await Runs(client, RunLimits(deadline=0.1)).start(request_of(stream=stream, conversation_id="c"))

    answer = await run.result()

    assert reply.cancelled.is_set()
    assert (await events(run))[-1] == RunCompleted(answer)
    assert (answer.finish_reason, answer.content, answer.tool_calls) == (FinishReason.DEADLINE, "", ())
    assert [(ran.round, ran.name, ran.result) for ran in answer.tool_runs] == [(1, "add", "5")]
    assert answer.usage == Usage(1, 1, 2)
    assert answer.rounds == (Round(FinishReason.TOOL_CALLS, Usage(1, 1, 2)), Round(FinishReason.DEADLINE))
    assert await memory.get("c") == ()


@both_modes
@pytest.mark.parametrize("deadline", [True, False], ids=["out of time", "cancelled"])
async def test_what_the_model_said_and_used_is_kept_though_its_tools_did_not_end(
    *, deadline: bool, stream: bool
) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {}), content="Looking"), usage=Usage(3, 2, 5))
    runs = Runs(ChatClient(model, tools=[held.tool]), RunLimits(deadline=0.1 if deadline else None))
    run = await runs.start(request_of(stream=stream))
    await held.begun()
    if not deadline:
        run.cancel()

    answer = await run.result()

    assert (held.cancelled, answer.content, answer.usage) == (1, "Looking", Usage(3, 2, 5))
    assert answer.rounds == (Round(FinishReason.TOOL_CALLS, Usage(3, 2, 5)),)
    assert answer.finish_reason is (FinishReason.DEADLINE if deadline else FinishReason.CANCELLED)


async def test_the_text_of_a_stream_out_of_time_is_kept_and_its_round_is_closed() -> None:
    class Slow(ScriptedModel):
        async def stream(self, prompt: Prompt) -> ChatEvents:
            yield ReasoningDelta("Hm.")
            yield TextDelta("Once upon")
            await asyncio.Event().wait()

    run = await Runs(ChatClient(Slow()), RunLimits(deadline=0.05)).start(request_of(stream=True))

    answer = await run.result()

    assert (answer.content, answer.message.reasoning) == ("Once upon", "Hm.")
    assert (await events(run))[-2:] == [RoundCompleted(1, FinishReason.DEADLINE, Usage()), RunCompleted(answer)]


async def test_a_run_whose_time_is_over_between_two_rounds_has_no_round_to_close() -> None:
    class Late(ToolCallingAdvisor):
        async def before_call(self, request: ChatRequest) -> ChatRequest:
            if request.round > 1:
                await asyncio.Event().wait()
            return request

    client = ChatClient(
        ScriptedModel(tool_calls(("add", {"a": 2, "b": 3}))), tools=[add], advisors=[Late(ToolCallingManager())]
    )

    answer = await (await Runs(client, RunLimits(deadline=0.05)).start(request_of(stream=False))).result()

    assert [one.finish_reason for one in answer.rounds] == [FinishReason.TOOL_CALLS]


@both_modes
async def test_a_run_that_has_its_answer_is_not_out_of_time_while_it_is_closed(time: LoopTime, *, stream: bool) -> None:
    tidy = Tidy()
    client = ChatClient(ScriptedModel("Hi"), advisors=[tidy])
    run = await Runs(client, RunLimits(deadline=10)).start(request_of(stream=stream))
    await tidy.begun.wait()

    await time.passes(11)
    tidy.go_on.set()

    assert (await run.result()).finish_reason is FinishReason.STOP
    assert not tidy.interrupted.is_set()


async def test_a_run_with_no_time_at_all_asks_nobody() -> None:
    model = ScriptedModel("Hi")
    run = await Runs(ChatClient(model), RunLimits(deadline=0)).start(request_of(stream=False))
    run.cancel()

    assert (await run.result()).finish_reason is FinishReason.CANCELLED, "what comes first counts"
    assert model.prompts == []


@both_modes
async def test_time_runs_while_a_run_waits_for_its_conversation(time: LoopTime, *, stream: bool) -> None:
    stubborn = Stubborn("First.")
    model = ScriptedModel(stubborn, "Second.")
    runs = Runs(ChatClient(model), RunLimits(deadline=10))
    request = request_of(stream=stream, conversation_id="c")
    first = await runs.start(request)
    await stubborn.asked.wait()
    await time.passes(6)
    waiting = await runs.start(request, RunOptions(when_busy="queue"))

    await time.passes(6)
    assert stubborn.cancelled.is_set()
    assert (first.status, waiting.status) == ("running", "queued")
    await time.passes(6)
    answer = await waiting.result()

    assert (waiting.status, answer.finish_reason, answer.content, answer.rounds) == (
        "completed",
        FinishReason.DEADLINE,
        "",
        (),
    )
    assert [type(event) for event in await events(waiting)] == [RunStarted, RunCompleted]
    assert len(model.prompts) == 1
    stubborn.go_on.set()
    await asyncio.wait([first.task])


@pytest.mark.parametrize("reply", ["Hi", ModelUnavailable("down")], ids=["answered", "failed"])
async def test_the_time_of_a_run_that_has_ended_means_nothing(reply: Reply, time: LoopTime) -> None:
    run = await Runs(ChatClient(ScriptedModel(reply)), RunLimits(deadline=10)).start(request_of(stream=True))
    await asyncio.wait([run.task])

    await time.passes(11)

    assert not run.is_ending
