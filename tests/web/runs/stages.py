"""Where a run can be when something happens to it: each stage is what a gateway is made of, and a place to wait at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import pytest

from app.chat import (
    Advisor,
    AssistantMessage,
    BaseAdvisor,
    CallNext,
    ChatEvent,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Prompt,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolContext,
)
from app.providers.scripted import Reply, ReplyTo, ScriptedModel, tool_calls
from app.tooling import tool
from tests.support.gates import PATIENCE, Gate
from tests.support.tools import HandWrittenTool, echo

ANSWER = "Once upon a time."
LOOKING = "Let me look."


class Stop:
    """A place where work waits until it is let go or cancelled.

    Attributes:
        reached: set when it has come there.
        go_on: set to let it go.
        cancelled: set when it was cancelled instead.
    """

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, *_: object) -> None:
        """Wait."""
        self.reached.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class HaltingModel(ScriptedModel):
    """A scripted model that comes to a halt in the middle of one of its answers.

    Args:
        *script: see `ScriptedModel`.
        stop: where it waits.
        behind: the kind of event behind whose first it does, where it is asked for a stream; when asked for a whole
            answer it has said nothing then.
        call: the number of the model call.
    """

    def __init__(self, *script: Reply | ReplyTo, stop: Stop, behind: type[ChatEvent], call: int = 1) -> None:
        super().__init__(*script, forever="Again.")
        self._stop = stop
        self._behind = behind
        self._call = call

    async def call(self, prompt: Prompt) -> ChatResponse:
        """See `ChatModel.call`."""
        response = await super().call(prompt)
        if self._is_halting:
            await self._stop()
        return response

    async def stream(self, prompt: Prompt) -> ChatEvents:
        """See `ChatModel.stream`."""
        async with aclosing(super().stream(prompt)) as events:
            async for event in events:
                yield event
                if isinstance(event, self._behind) and self._is_halting:
                    await self._stop()

    @property
    def _is_halting(self) -> bool:
        return len(self.prompts) == self._call and not self._stop.reached.is_set()


class Between(BaseAdvisor):
    """Waits before a turn's second round."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(order=400)  # inside the tool loop
        self._stop = stop

    async def before(self, request: ChatRequest) -> ChatRequest:
        """See `BaseAdvisor.before`."""
        if request.round > 1:
            await self._stop()
        return request


class Tidying(BaseAdvisor):
    """Takes its time to clean up after a run, and has cleaned up when nobody interrupts it.

    Attributes:
        stop: where it waits.
        cleaned: how often it came to the end of its clean-up.
    """

    def __init__(self) -> None:
        super().__init__(order=100)
        self.stop = Stop()
        self.cleaned = 0

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """See `Advisor.advise`."""
        try:
            async with aclosing(call_next(request)) as events:
                async for event in events:
                    yield event
        finally:
            await self.stop()
            self.cleaned += 1


@dataclass(frozen=True, slots=True)
class SoFar:
    """What is there of a run that ends at a stage.

    Attributes:
        told: the name of its last event.
        content: the text of its answer.
        reasoning: its reasoning.
        runs: the tools that have given a result.
        rounds: how the model calls ended that have.
    """

    told: str = "round.started"
    content: str = ""
    reasoning: str | None = None
    runs: Sequence[str] = ()
    rounds: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """One place where a run can be.

    Attributes:
        model: its last word in the turn is `ANSWER`; whatever it is asked then it answers by `Again.`
        here: waits until the run is there.
        let_go: lets it go on.
        stopped: waits until the work was told to stop. Nobody can tell a thread.
        so_far: what there is then, by `stream`.
        tools: those there are.
        unwanted: those that are not run before the stage.
        advisors: those there are.
    """

    model: ScriptedModel
    here: Callable[[], Any]
    let_go: Callable[[], None]
    stopped: Callable[[], Any]
    so_far: Mapping[bool, SoFar]
    tools: Sequence[Any] = ()
    unwanted: Sequence[HandWrittenTool] = ()
    advisors: Sequence[Advisor] = ()


def _stage(stop: Stop, model: ScriptedModel, called: SoFar, streamed: SoFar, **about: Any) -> Stage:
    async def here() -> None:
        async with asyncio.timeout(PATIENCE):
            await stop.reached.wait()

    async def stopped() -> None:
        async with asyncio.timeout(PATIENCE):
            await stop.cancelled.wait()

    return Stage(model, here, stop.go_on.set, stopped, {False: called, True: streamed}, **about)


def _before_the_first_byte() -> Stage:
    stop = Stop()

    async def answer(_: Prompt) -> str:
        await stop()
        return ANSWER

    return _stage(stop, ScriptedModel(answer, forever="Again."), SoFar(), SoFar())


def _in_reasoning() -> Stage:
    stop = Stop()
    model = HaltingModel(AssistantMessage(ANSWER, reasoning="A tale, then."), stop=stop, behind=ReasoningDelta)
    return _stage(stop, model, SoFar(), SoFar("reasoning.delta", reasoning="A"))


def _in_text() -> Stage:
    stop = Stop()
    model = HaltingModel(AssistantMessage(ANSWER, reasoning="A tale."), stop=stop, behind=TextDelta)
    return _stage(stop, model, SoFar(), SoFar("text.delta", "Once", "A tale."))


def _in_a_later_text() -> Stage:
    stop, look = Stop(), echo("look")
    model = HaltingModel(tool_calls(("look", {}), content=LOOKING), ANSWER, stop=stop, behind=TextDelta, call=2)
    done = SoFar(runs=["look"], rounds=["tool_calls"])
    return _stage(stop, model, done, replace(done, told="text.delta", content="Once"), tools=[look])


def _in_arguments() -> Stage:
    stop, look = Stop(), echo("look")
    model = HaltingModel(
        tool_calls(("look", {"where": "far beyond the hills"}), content=LOOKING),
        ANSWER,
        stop=stop,
        behind=ToolCallArguments,
    )
    told = SoFar("tool_call.arguments", LOOKING)
    return _stage(stop, model, SoFar(), told, tools=[look], unwanted=[look])


_CALLS = tool_calls(("look", {"where": "here"}), ("held", {}), ("later", {}), content=LOOKING)
_LOOKED = SoFar("tool_call.result", LOOKING, runs=["look"], rounds=["tool_calls"])


def _in_a_coroutine_tool() -> Stage:
    stop, later = Stop(), echo("later")

    async def hold(_: str, __: ToolContext) -> str:
        await stop()
        return "held"

    return _stage(
        stop,
        ScriptedModel(_CALLS, ANSWER, forever="Again."),
        _LOOKED,
        _LOOKED,
        tools=[echo("look"), HandWrittenTool("held", hold, sequential=True), later],
        unwanted=[later],
    )


def _in_a_tools_thread() -> Stage:
    gate, later = Gate(), echo("later")

    @tool(sequential=True)
    def held(context: ToolContext) -> str:
        """Hold up a thread."""
        gate()
        context.progress("through the gate")
        return "held"

    async def stopped() -> None:
        pass

    return Stage(
        ScriptedModel(_CALLS, ANSWER, forever="Again."),
        gate.arrivals,
        gate.open,
        stopped,
        {False: _LOOKED, True: _LOOKED},
        tools=[echo("look"), held, later],
        unwanted=[later],
    )


def _between_two_rounds() -> Stage:
    stop, looked = Stop(), replace(_LOOKED, told="round.completed")
    return _stage(
        stop,
        ScriptedModel(tool_calls(("look", {}), content=LOOKING), ANSWER, forever="Again."),
        looked,
        looked,
        tools=[echo("look")],
        advisors=[Between(stop)],
    )


STAGES: Mapping[str, Callable[[], Stage]] = {
    "before the first byte": _before_the_first_byte,
    "in reasoning": _in_reasoning,
    "in text": _in_text,
    "in a later text": _in_a_later_text,
    "in arguments": _in_arguments,
    "in a coroutine tool": _in_a_coroutine_tool,
    "in a tool's thread": _in_a_tools_thread,
    "between two rounds": _between_two_rounds,
}
"""Each makes a stage. Called in the event loop of the test."""

every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES.keys())
