"""Batches of real functions: what the manager and the tools made from functions do together."""

from __future__ import annotations

import asyncio

import pytest

from app.chat import AssistantMessage, ToolCall, ToolCallProgress, ToolContext
from app.providers.scripted import tool_calls
from app.tooling import ToolCallback, ToolCallingManager, ToolThreads
from tests.support.executing import execute
from tests.support.gates import Gate
from tests.support.modes import both_modes


def depth(harbour: str, unit: str = "m") -> str:
    """How deep a harbour is."""
    return f"{harbour}: 11 {unit}"


def harbours(context: ToolContext) -> list[str]:
    """The harbours of the one who asks."""
    context.progress("looking them up")
    return [context["home"], "Rostock"]


async def moor(place: int, context: ToolContext) -> None:
    """Moor at a place."""
    context.progress("mooring", current=place)
    await asyncio.sleep(0)


def tide() -> str | None:
    """The next tide, if it is known."""
    return None


TOOLS = [ToolCallback.from_function(function) for function in (depth, harbours, moor, tide)]


@both_modes
@pytest.mark.parity(73)
async def test_functions_with_and_without_context_sync_and_async_run_in_one_batch(stream: bool) -> None:
    message = tool_calls(("depth", {"harbour": "Kiel"}), ("harbours", {}), ("moor", {"place": 7}))

    done = await execute(message, TOOLS, stream=stream, tool_context={"home": "Kiel"})

    assert done.texts == ["Kiel: 11 m", '["Kiel","Rostock"]', "Done"]
    if stream:
        assert {(event.name, event.message, event.current) for event in done.of(ToolCallProgress)} == {
            ("harbours", "looking them up", None),
            ("moor", "mooring", 7),
        }


@both_modes
@pytest.mark.parity(84, 85, 88)
@pytest.mark.parametrize("arguments", ["", "{}", "null"])
async def test_a_function_that_needs_nothing_runs_without_arguments(stream: bool, arguments: str) -> None:
    done = await execute(AssistantMessage("", (ToolCall("a", "tide", arguments),)), TOOLS, stream=stream)

    assert done.failed == [False]


@both_modes
@pytest.mark.parity(84, 85, 87)
@pytest.mark.parametrize("arguments", ["", '{"harbour": "Ki', "{}", '{"harbour": 11}'])
async def test_arguments_that_do_not_fit_are_an_error_the_model_can_act_on(stream: bool, arguments: str) -> None:
    message = AssistantMessage("", (ToolCall("a", "depth", arguments), ToolCall("b", "tide", "{}")))

    done = await execute(message, TOOLS, stream=stream)

    assert done.failed == [True, False]
    assert "depth" in done.texts[0]


@both_modes
@pytest.mark.fault("D11", "D12")
async def test_a_function_that_blocks_is_timed_out_and_the_next_is_refused_until_it_ends(stream: bool) -> None:
    threads, gate = ToolThreads(1, max_wait=0), Gate()

    def block() -> None:
        """Wait at the gate."""
        gate()

    tools = [ToolCallback.from_function(block, threads=threads), ToolCallback.from_function(tide, threads=threads)]
    manager = ToolCallingManager(timeout=0.1)
    await threads.run(lambda: None)  # the thread is there: a tenth of a second is enough to begin
    timed_out = await execute(tool_calls(("block", {})), tools, stream=stream, manager=manager)
    refused = await execute(tool_calls(("tide", {})), tools, stream=stream, manager=manager)
    gate.open()

    assert "did not end within 0.1 seconds" in timed_out.texts[0]
    assert "threads for tools are busy" in refused.texts[0]
