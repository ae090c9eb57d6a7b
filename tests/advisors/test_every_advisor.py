"""What holds for every advisor: the invariant of the chain, and that it closes what it iterates."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

import pytest

from app.advisors import (
    CallAdvisor,
    CallNextBlocking,
    MemoryAdvisor,
    SafeguardAdvisor,
    StreamAdvisor,
    StructuredOutputAdvisor,
    ToolCallingAdvisor,
    TraceAdvisor,
)
from app.advisors.registration import with_tool_loop
from app.chat import (
    Advisor,
    AssistantMessage,
    BaseAdvisor,
    CallNext,
    ChatEvent,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    FinishReason,
    ModelError,
    RoundStarted,
    chain,
    well_formed,
)
from app.memory import InMemoryChatMemory
from app.providers.scripted import Cut, Reply, ScriptedModel, tool_calls
from app.tooling import ToolCallingManager
from tests.support.chains import request_of, run
from tests.support.modes import both_modes


async def _blocking(request: ChatRequest, call_next: CallNextBlocking) -> ChatResponse:
    return await call_next(request)


async def _streaming(request: ChatRequest, call_next: CallNext) -> ChatEvents:
    async with aclosing(call_next(request)) as events:
        async for event in events:
            yield event


def _loop() -> ToolCallingAdvisor:
    return ToolCallingAdvisor(ToolCallingManager())


MAKERS: dict[str, Callable[[], tuple[Advisor, ...]]] = {
    "base": lambda: (BaseAdvisor(),),
    "memory": lambda: (MemoryAdvisor(InMemoryChatMemory()),),
    "memory inside": lambda: with_tool_loop([MemoryAdvisor(InMemoryChatMemory(), order=400)], _loop),
    "safeguard": lambda: (SafeguardAdvisor(["rum"]),),
    "trace": lambda: (TraceAdvisor(),),
    "structured output": lambda: (StructuredOutputAdvisor({}, str),),
    "blocking": lambda: (CallAdvisor(_blocking),),
    "streaming": lambda: (StreamAdvisor(_streaming),),
    "tool loop": lambda: (_loop(),),
}
every_advisor = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)

REPLIES: dict[str, Reply] = {
    "text": "9 m deep.",
    "empty": AssistantMessage(),
    "calls": tool_calls(("sound", {"at": "pier"}), content="Let me look."),
    "refusal": AssistantMessage(refusal="I will not tell."),
    "cut": ChatResponse.of_call(AssistantMessage("9 m"), FinishReason.LENGTH),
    "filtered": ChatResponse.of_call(AssistantMessage(""), FinishReason.CONTENT_FILTER),
}


class Probe:
    """The innermost advisor: notes whether what it gave was closed."""

    order = 1000

    def __init__(self) -> None:
        self.is_open = False

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        self.is_open = True
        try:
            async with aclosing(call_next(request)) as events:
                async for event in events:
                    yield event
        finally:
            self.is_open = False


@every_advisor
@both_modes
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
async def test_deltas_then_one_end_then_nothing(
    make: Callable[[], tuple[Advisor, ...]], reply: Reply, *, stream: bool
) -> None:
    model = ScriptedModel(reply, forever="Done.")
    asked = await run(make(), model, stream=stream, conversation_id="trip")
    assert [event for event in asked.events if isinstance(event, Completed)] == [Completed(asked.response)]


@every_advisor
@both_modes
async def test_an_answer_is_never_made_of_a_failure(make: Callable[[], tuple[Advisor, ...]], *, stream: bool) -> None:
    request = request_of(stream=stream, conversation_id="trip")
    model = ScriptedModel(Cut("It is", ModelError("gone")))
    seen: list[ChatEvent] = []
    with pytest.raises(ModelError, match="gone"):
        async with aclosing(chain(make(), model)(request)) as events:
            seen += [event async for event in well_formed(events)]
    assert seen == []


@every_advisor
@both_modes
async def test_who_leaves_early_leaves_nothing_open(make: Callable[[], tuple[Advisor, ...]], *, stream: bool) -> None:
    probe = Probe()
    request = replace(request_of(stream=stream), conversation_id="trip")
    async with aclosing(chain([*make(), probe], ScriptedModel("9 m deep."))(request)) as events:
        await anext(events)
    assert not probe.is_open


@every_advisor
@both_modes
async def test_both_modes_give_the_same_answer(make: Callable[[], tuple[Advisor, ...]], *, stream: bool) -> None:
    blocking = await run([], ScriptedModel("9 m deep."), stream=False)
    asked = await run(make(), ScriptedModel("9 m deep."), stream=stream, conversation_id="trip")
    assert asked.response == blocking.response
    assert asked.last_text == ("9 m deep." if stream else "")


@both_modes
@pytest.mark.parametrize("name", ["structured output", "blocking", "streaming", "tool loop"])
async def test_who_takes_the_end_of_the_chain_says_so_where_there_is_none(name: str, *, stream: bool) -> None:
    class Endless(BaseAdvisor):
        async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
            yield RoundStarted(request.round)

    with pytest.raises(RuntimeError, match="Completed"):
        await run([*MAKERS[name](), Endless()], ScriptedModel(), stream=stream)


@every_advisor
def test_it_is_an_advisor(make: Callable[[], tuple[Advisor, ...]]) -> None:
    assert all(isinstance(advisor, Advisor) for advisor in make())
