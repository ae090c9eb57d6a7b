"""Runs that are cancelled: what they are doing stops, and what they have done is kept."""

from __future__ import annotations

import asyncio

import pytest

from app.advisors.memory import MemoryAdvisor
from app.chat import (
    FinishReason,
    Usage,
)
from app.client import ChatClient
from app.memory import InMemoryChatMemory
from app.providers.scripted import ScriptedModel, tool_calls
from app.runs import (
    RunCancelled,
    Runs,
)
from app.tooling import tool
from tests.support.chains import request_of
from tests.support.following import events
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes


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
