"""What a subclass of the tool loop can change, and what its constructor refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.advisors.tool_calling import ToolAdvisor, ToolCallingAdvisor
from app.chat import (
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    ConfigurationError,
    Message,
    ModelProtocolError,
    ToolContext,
)
from app.client import ChatClient
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from app.tooling import ToolCallback, ToolCallingManager, ToolCallLimits, ToolExecution, tool
from tests.advisors.looping import Weather, call_weather, direct
from tests.support.asking import ask
from tests.support.modes import both_modes

# --- hooks


class Hooked(ToolCallingAdvisor):
    """Writes down which hooks were called."""

    def __init__(self, limits: ToolCallLimits | None = None) -> None:
        super().__init__(ToolCallingManager(limits=limits or ToolCallLimits()))
        self.called: list[str] = []
        self.finalized: ChatResponse | None = None

    async def initialize_loop(self, request: ChatRequest) -> ChatRequest:
        self.called.append("initialize")
        return await super().initialize_loop(request)

    async def before_call(self, request: ChatRequest) -> ChatRequest:
        self.called.append("before")
        return await super().before_call(request)

    async def after_call(self, response: ChatResponse, request: ChatRequest) -> ChatResponse:
        self.called.append("after")
        return await super().after_call(response, request)

    async def next_instructions(self, request: ChatRequest, execution: ToolExecution) -> tuple[Message, ...]:
        self.called.append("next")
        return await super().next_instructions(request, execution)

    async def finalize_loop(self, request: ChatRequest, response: ChatResponse | None) -> None:
        self.called.append("finalize")
        self.finalized = response
        await super().finalize_loop(request, response)


@pytest.mark.parity(33, 34)
@both_modes
async def test_hooks_are_called_once_a_turn_and_once_a_round(weather: Weather, *, stream: bool) -> None:
    loop = Hooked()
    client = ChatClient(ScriptedModel(call_weather("Paris"), "Sunny."), advisors=[loop], tools=[weather.get_weather])

    asked = await ask(client, stream=stream)

    assert loop.called == ["initialize", "before", "after", "next", "before", "after", "finalize"]
    assert loop.finalized == asked.response


@both_modes
@pytest.mark.parametrize("limits", [None, ToolCallLimits(rounds=1)], ids=["return_direct", "limit"])
async def test_the_loop_is_finalized_however_the_turn_ends(limits: ToolCallLimits | None, *, stream: bool) -> None:
    loop = Hooked(limits)
    client = ChatClient(ScriptedModel(tool_calls(("give", {"text": "x"}))), advisors=[loop], tools=[direct("give")])

    asked = await ask(client, stream=stream)

    assert loop.called == ["initialize", "before", "after", "finalize"]
    assert loop.finalized == asked.response


@both_modes
async def test_the_loop_is_finalized_when_the_model_fails(*, stream: bool) -> None:
    loop = Hooked()
    client = ChatClient(ScriptedModel(Cut("half", ModelProtocolError("cut"))), advisors=[loop])

    with pytest.raises(ModelProtocolError):
        await ask(client, stream=stream)

    assert loop.called == ["initialize", "before", "finalize"]
    assert loop.finalized is None


@pytest.mark.fault("D13")
@both_modes
async def test_the_loop_is_finalized_and_the_tool_stopped_when_the_caller_leaves(*, stream: bool) -> None:
    running, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def endless(context: ToolContext) -> str:
        try:
            context.progress("running")
            running.set()
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    loop = Hooked()
    client = ChatClient(ScriptedModel(tool_calls(("endless", {}))), advisors=[loop], tools=[endless])

    asking = asyncio.create_task(ask(client, stream=stream))
    await running.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert stopped.is_set()
    assert loop.called[-1] == "finalize"


@pytest.mark.parity(35, 36)
@both_modes
async def test_a_tool_that_a_hook_adds_can_be_called_in_that_round(weather: Weather, *, stream: bool) -> None:
    class Adding(Hooked):
        async def before_call(self, request: ChatRequest) -> ChatRequest:
            return request.with_options(tools=(ToolCallback.from_function(weather.get_weather),))

    asked = await ask(ChatClient(ScriptedModel(call_weather("Paris"), "Sunny."), advisors=[Adding()]), stream=stream)

    assert weather.asked == ["Paris"]
    assert asked.response.content == "Sunny."


@both_modes
async def test_a_subclass_can_transform_the_whole_outgoing_stream(weather: Weather, *, stream: bool) -> None:
    class Quiet(Hooked):
        async def advise(self, request: ChatRequest, call_next: Any) -> ChatEvents:
            async for event in super().advise(request, call_next):
                if isinstance(event, Completed):
                    yield event

    client = ChatClient(ScriptedModel(call_weather("Paris"), "Sunny."), advisors=[Quiet()], tools=[weather.get_weather])

    assert len((await ask(client, stream=stream)).events) == 1


# --- construction


@pytest.mark.parity(37)
@pytest.mark.parametrize("missing", ["tool_calling_manager", "eligibility"])
def test_a_missing_part_is_refused_by_name(missing: str) -> None:
    arguments: dict[str, Any] = {"tool_calling_manager": ToolCallingManager(), missing: None}

    with pytest.raises(ConfigurationError, match=missing):
        ToolCallingAdvisor(**arguments)


@pytest.mark.parity(38)
@pytest.mark.parametrize("order", [0, 1000, -1, 1001])
def test_an_order_at_the_ends_is_refused(order: int) -> None:
    with pytest.raises(ConfigurationError, match="must lie between 0 and 1000"):
        ToolCallingAdvisor(ToolCallingManager(), order=order)


@pytest.mark.parity(39)
def test_the_default_order_leaves_room_on_both_sides() -> None:
    advisor = ToolCallingAdvisor(ToolCallingManager())

    assert advisor.order == ToolCallingAdvisor.DEFAULT_ORDER == 300
    assert isinstance(advisor, ToolAdvisor)
