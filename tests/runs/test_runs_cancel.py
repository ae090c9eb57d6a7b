"""Runs that are cancelled: what they are doing stops, and what they have done is kept."""

from __future__ import annotations

import asyncio

import pytest

from app.advisors.memory import MemoryAdvisor
from app.chat import FinishReason, ToolContext, Usage
from app.client import ChatClient
from app.memory import InMemoryChatMemory
from app.providers.scripted import ScriptedModel, tool_calls
from app.runs import RunCancelled, RunCompleted, RunLimits, RunOptions, Runs, RunStarted, ShuttingDown
from app.tooling import tool
from tests.support.advisors import Tidy
from tests.support.chains import request_of
from tests.support.following import events
from tests.support.hesitant import Hesitant, Stubborn
from tests.support.loop_time import LoopTime
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, echo


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@both_modes
async def test_cancelling_stops_the_model_call_and_keeps_what_was_done(*, stream: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(tool_calls(("add", {"a": 2, "b": 3})), reply, usage=Usage(1, 1, 2))
    run = await Runs(ChatClient(model, tools=[add])).start(request_of(stream=stream))
    await reply.asked.wait()

    run.cancel()
    run.cancel()
    answer = await run.result()

    assert reply.cancelled.is_set()
    assert (await events(run))[-1] == RunCancelled(answer)
    assert (answer.finish_reason, answer.content) == (FinishReason.CANCELLED, "")
    assert [(ran.name, ran.arguments, ran.result) for ran in answer.tool_runs] == [("add", '{"a": 2, "b": 3}', "5")]
    assert answer.usage == Usage(1, 1, 2)


@both_modes
async def test_cancelling_stops_the_tools(*, stream: bool) -> None:
    running, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def endless() -> str:
        """Run for ever."""
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    run = await Runs(ChatClient(ScriptedModel(tool_calls(("endless", {}))), tools=[endless])).start(
        request_of(stream=stream)
    )
    await running.wait()
    run.cancel()

    assert (await run.result()).finish_reason is FinishReason.CANCELLED
    assert stopped.is_set()


async def test_a_run_cancelled_before_it_began_asks_nobody() -> None:
    model = ScriptedModel("Hi")
    run = await Runs(ChatClient(model)).start(request_of(stream=False))

    run.cancel()

    assert (await run.result()).finish_reason is FinishReason.CANCELLED
    assert model.prompts == []


async def test_cancelling_a_run_that_has_ended_changes_nothing() -> None:
    run = await Runs(ChatClient(ScriptedModel("Hi"))).start(request_of(stream=False))
    await run.result()

    run.cancel()

    assert (await run.result()).content == "Hi"


@pytest.mark.fault("M05")
@both_modes
async def test_nothing_of_a_cancelled_turn_is_remembered(*, stream: bool) -> None:
    reply, memory = Hesitant(), InMemoryChatMemory()
    model = ScriptedModel(tool_calls(("add", {"a": 2, "b": 3})), reply)
    client = ChatClient(model, tools=[add], advisors=[MemoryAdvisor(memory)])
    run = await Runs(client).start(request_of(stream=stream, conversation_id="c"))
    await reply.asked.wait()

    run.cancel()
    await run.result()

    assert await memory.get("c") == ()


async def test_what_is_said_first_counts() -> None:
    reply = Hesitant()
    run = await Runs(ChatClient(ScriptedModel(reply))).start(request_of(stream=True))
    await reply.asked.wait()

    run.cancel(ShuttingDown("closed"))
    run.cancel()
    run.cancel(ShuttingDown("closed again"))

    with pytest.raises(ShuttingDown, match=r"^closed$"):
        await run.result()
    assert run.status == "failed"


@both_modes
async def test_a_run_that_waits_for_its_conversation_ends_at_once_and_the_others_go_on(
    time: LoopTime, *, stream: bool
) -> None:
    reply = Hesitant("First.")
    model = ScriptedModel(reply, "Third.")
    runs = Runs(ChatClient(model))
    request, queue = request_of(stream=stream, conversation_id="c"), RunOptions(when_busy="queue")
    first, second, third = [await runs.start(request, queue) for _ in range(3)]
    await reply.asked.wait()

    second.cancel()
    answer = await second.result()
    assert (answer.finish_reason, answer.content, answer.rounds) == (FinishReason.CANCELLED, "", ())
    assert [type(event) for event in await events(second)] == [RunStarted, RunCancelled]
    await time.passes(0)
    assert (first.status, third.status) == ("running", "queued")
    reply.go_on.set()

    assert [(await run.result()).content for run in (first, third)] == ["First.", "Third."]
    assert len(model.prompts) == 2


async def test_a_run_that_waits_ends_at_once_though_it_is_cancelled_before_it_has_begun_to() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply)))
    request = request_of(stream=False, conversation_id="c")
    going, waiting = await runs.start(request), await runs.start(request, RunOptions(when_busy="queue"))

    waiting.cancel()

    assert (await waiting.result()).finish_reason is FinishReason.CANCELLED
    assert going.status == "running"
    reply.go_on.set()
    await going.result()


@both_modes
async def test_a_run_that_was_told_to_end_asks_for_nothing_more_though_what_it_waited_for_comes(
    *, stream: bool
) -> None:
    stubborn, tool = Stubborn(tool_calls(("echo", {}))), echo()
    model = ScriptedModel(stubborn, "Again.")
    run = await Runs(ChatClient(model, tools=[tool])).start(request_of(stream=stream))
    await stubborn.asked.wait()

    run.cancel()
    await stubborn.cancelled.wait()
    stubborn.go_on.set()

    assert (await run.result()).finish_reason is FinishReason.CANCELLED
    assert (len(model.prompts), tool.asked) == (1, [])


# --- cleaning up


@pytest.mark.fault("D04")
@both_modes
async def test_clean_up_is_finished_however_often_a_run_is_cancelled(*, stream: bool) -> None:
    reply, tidy = Hesitant(), Tidy()
    run = await Runs(ChatClient(ScriptedModel(reply), advisors=[tidy])).start(request_of(stream=stream))
    await reply.asked.wait()

    run.cancel()
    await tidy.begun.wait()
    run.cancel()
    run.readers.enter().leave()
    await asyncio.sleep(0)
    assert (run.status, run.is_ending) == ("running", True)
    tidy.go_on.set()

    assert (await run.result()).finish_reason is FinishReason.CANCELLED
    assert not tidy.interrupted.is_set()


@both_modes
async def test_a_run_that_has_its_answer_keeps_it_though_it_is_cancelled_while_it_is_closed(*, stream: bool) -> None:
    tidy = Tidy()
    run = await Runs(ChatClient(ScriptedModel("Hi"), advisors=[tidy])).start(request_of(stream=stream))
    await tidy.begun.wait()
    assert run.status == "running"

    run.cancel()
    answer = await run.result()

    assert tidy.interrupted.is_set()
    assert (answer.content, answer.finish_reason) == ("Hi", FinishReason.STOP)
    assert (run.status, (await events(run))[-1]) == ("completed", RunCompleted(answer))


@both_modes
async def test_a_tool_that_fails_when_it_is_cancelled_makes_no_failure_of_it(*, stream: bool) -> None:
    begun = asyncio.Event()

    async def fail(_: str, __: ToolContext) -> str:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            raise ValueError("no time to tidy up")

    client = ChatClient(ScriptedModel(tool_calls(("fail", {}))), tools=[HandWrittenTool("fail", fail)])
    run = await Runs(client).start(request_of(stream=stream))
    await begun.wait()
    run.cancel()

    assert (await run.result()).finish_reason is FinishReason.CANCELLED


async def test_a_run_whose_task_is_cancelled_by_somebody_else_has_no_end_and_says_so() -> None:
    reply = Hesitant()
    run = await Runs(ChatClient(ScriptedModel(reply))).start(request_of(stream=False))
    await reply.asked.wait()

    run.task.cancel()

    with pytest.raises(RuntimeError, match=f"{run.id} was destroyed"):
        await run.result()
    assert (reply.cancelled.is_set(), run.end) == (True, None)


# --- nobody reads it any more


@both_modes
async def test_a_run_is_cancelled_when_its_last_reader_has_left_unless_it_is_to_go_on(*, stream: bool) -> None:
    left, kept = Hesitant("Left."), Hesitant("Kept.")
    runs = Runs(ChatClient(ScriptedModel(left, kept)))
    leaving = await runs.start(request_of(stream=stream))
    await left.asked.wait()
    staying = await runs.start(request_of(stream=stream), RunOptions(on_disconnect="continue"))
    await kept.asked.wait()
    readers = [run.readers.enter() for run in (leaving, leaving, staying)]

    readers[0].leave()
    readers[2].leave()
    assert not leaving.is_ending
    readers[1].leave()
    kept.go_on.set()

    assert (await leaving.result()).finish_reason is FinishReason.CANCELLED
    assert left.cancelled.is_set()
    assert (await staying.result()).content == "Kept."


@both_modes
async def test_a_run_waits_a_while_for_a_reader_to_come_back(time: LoopTime, *, stream: bool) -> None:
    reply = Hesitant()
    run = await Runs(ChatClient(ScriptedModel(reply)), RunLimits(grace=5)).start(request_of(stream=stream))
    await reply.asked.wait()

    run.readers.enter().leave()
    await time.passes(4)
    back = run.readers.enter()
    await time.passes(4)
    assert not run.is_ending
    back.leave()
    await time.passes(6)

    assert reply.cancelled.is_set()
    assert (await run.result()).finish_reason is FinishReason.CANCELLED


async def test_a_run_that_has_ended_does_not_care_who_leaves(time: LoopTime) -> None:
    run = await Runs(ChatClient(ScriptedModel("Hi")), RunLimits(grace=5)).start(request_of(stream=True))
    reader = run.readers.enter()
    run.readers.enter().leave()
    answer = await run.result()

    reader.leave()
    await time.passes(6)

    assert (run.is_ending, run.end) == (False, RunCompleted(answer))
