"""Advisors that were written for one mode serve both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from app.advisors import CallAdvisor, CallNextBlocking, StreamAdvisor, ToolCallingAdvisor
from app.chat import (
    Advisor,
    AssistantMessage,
    CallNext,
    ChatEvent,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    FinishReason,
    ModelUnavailable,
    Prompt,
    ReasoningDelta,
    Round,
    RoundCompleted,
    RoundStarted,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolCallSucceeded,
    Usage,
    UserMessage,
    chain,
)
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from app.tooling import ToolCallingManager
from tests.support.chains import request_of, run
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import giving

USED = Usage(10, 5, 15)
LOOK = tool_calls(("sound", {}), content="Let me look.")
SOUND = giving("sound", "9 m")


def loop() -> ToolCallingAdvisor:
    return ToolCallingAdvisor(ToolCallingManager())


def but(response: ChatResponse, content: str) -> ChatResponse:
    return response.with_message(replace(response.message, content=content))


async def as_it_is(request: ChatRequest, call_next: CallNextBlocking) -> ChatResponse:
    return await call_next(request)


async def shouted(request: ChatRequest, call_next: CallNextBlocking) -> ChatResponse:
    response = await call_next(request)
    return but(response, response.content.upper())


async def passed_on(request: ChatRequest, call_next: CallNext) -> ChatEvents:
    async with aclosing(call_next(request)) as events:
        async for event in events:
            yield event


async def shouted_on(request: ChatRequest, call_next: CallNext) -> ChatEvents:
    async with aclosing(call_next(request)) as events:
        async for event in events:
            yield TextDelta(event.text.upper()) if isinstance(event, TextDelta) else event


# --- written for blocking calls


@both_modes
async def test_a_blocking_advisor_that_changes_nothing_changes_no_event(*, stream: bool) -> None:
    def model() -> ScriptedModel:
        return ScriptedModel(LOOK, AssistantMessage("9 m deep.", reasoning="Easy."), usage=USED)

    plain = await run([loop()], model(), stream=stream, tools=(SOUND,))
    advised = await run([CallAdvisor(as_it_is, order=100), loop()], model(), stream=stream, tools=(SOUND,))

    def without_times(events: list[Any]) -> list[Any]:
        return [event for event in events if not isinstance(event, (ToolCallSucceeded, Completed))]

    assert without_times(advised.events) == without_times(plain.events)
    assert advised.of(ToolCallSucceeded)[0].result == "9 m"
    assert advised.response.generated == plain.response.generated


@both_modes
async def test_a_blocking_advisor_can_change_the_request(*, stream: bool) -> None:
    async def ask_kindly(request: ChatRequest, call_next: CallNextBlocking) -> ChatResponse:
        return await call_next(request.with_messages((*request.messages, UserMessage("Please."))))

    model = ScriptedModel("Hi")
    await run([CallAdvisor(ask_kindly)], model, "Hello", stream=stream)
    assert model.prompts[0].messages == (UserMessage("Hello"), UserMessage("Please."))


@both_modes
async def test_a_text_that_a_blocking_advisor_changed_is_all_that_is_seen_of_it(*, stream: bool) -> None:
    model = ScriptedModel(AssistantMessage("ahoy out there", reasoning="A sailor."), usage=USED)
    asked = await run([CallAdvisor(shouted)], model, stream=stream)
    assert asked.response.content == "AHOY OUT THERE"
    assert asked.response.generated == (asked.response.message,)
    assert asked.response.usage == USED
    written = [ReasoningDelta("A sailor."), TextDelta("AHOY OUT THERE")] if stream else []
    assert asked.events[:-1] == [RoundStarted(1), *written]


@both_modes
async def test_a_blocking_advisor_around_the_loop_changes_the_last_round_only(*, stream: bool) -> None:
    model = ScriptedModel(LOOK, "9 m deep.")
    asked = await run([CallAdvisor(shouted, order=100), loop()], model, stream=stream, tools=(SOUND,))
    assert "".join(delta.text for delta in asked.of(TextDelta)) == ("Let me look.9 M DEEP." if stream else "")
    assert asked.last_text == ("9 M DEEP." if stream else "")
    assert asked.response.content == "9 M DEEP."


@both_modes
async def test_a_blocking_advisor_may_answer_by_itself(*, stream: bool) -> None:
    async def closed(request: ChatRequest, call_next: CallNextBlocking) -> ChatResponse:
        return ChatResponse(AssistantMessage("The harbour is closed.", reasoning="It is night."))

    model = ScriptedModel()
    asked = await run([CallAdvisor(closed)], model, stream=stream)
    told = [ReasoningDelta("It is night."), TextDelta("The harbour is closed.")] if stream else []
    assert asked.events[:-1] == told
    assert asked.response.rounds == ()
    assert model.prompts == []


@both_modes
async def test_what_a_blocking_advisor_used_in_several_calls_is_added_up(*, stream: bool) -> None:
    async def until_it_is_polite(request: ChatRequest, call_next: CallNextBlocking) -> ChatResponse:
        while True:
            response = await call_next(request)
            if "please" in response.content:
                return response

    model = ScriptedModel(LOOK, "go away", "no", "please leave", usage=USED)
    advisors: list[Advisor] = [CallAdvisor(until_it_is_polite, order=100), loop()]
    asked = await run(advisors, model, stream=stream, tools=(SOUND,))
    assert [event for event in asked.events if isinstance(event, (RoundStarted, RoundCompleted))] == [
        RoundStarted(1),
        RoundCompleted(1, FinishReason.TOOL_CALLS, USED),
        RoundStarted(2),
        RoundCompleted(2, FinishReason.STOP, USED),
        RoundStarted(3),
        RoundCompleted(3, FinishReason.STOP, USED),
        RoundStarted(4),
    ]
    assert asked.response.content == "please leave"
    assert asked.response.usage == Usage(40, 20, 60)
    assert asked.response.rounds == (Round(FinishReason.TOOL_CALLS, USED), *[Round(FinishReason.STOP, USED)] * 3)
    assert len(asked.response.tool_runs) == 1


@both_modes
async def test_a_blocking_advisor_may_prefer_an_earlier_answer(*, stream: bool) -> None:
    async def the_longer(request: ChatRequest, call_next: CallNextBlocking) -> ChatResponse:
        return max([await call_next(request), await call_next(request)], key=lambda response: len(response.content))

    asked = await run([CallAdvisor(the_longer)], ScriptedModel("nine metres", "9 m", usage=USED), stream=stream)
    assert asked.response.content == "nine metres"
    assert asked.response.usage == USED + USED
    assert asked.last_text == ("nine metres" if stream else "")


@both_modes
async def test_a_call_that_failed_leaves_no_trace_in_the_stream(*, stream: bool) -> None:
    async def once_more(request: ChatRequest, call_next: CallNextBlocking) -> ChatResponse:
        try:
            return await call_next(request)
        except ModelUnavailable:
            return await call_next(request)

    model = ScriptedModel(Cut("It is", ModelUnavailable("gone")), "9 m deep.")
    asked = await run([CallAdvisor(once_more)], model, stream=stream)
    assert asked.of(RoundStarted) == [RoundStarted(1)]
    assert asked.last_text == ("9 m deep." if stream else "")
    assert len(asked.response.rounds) == 1


@both_modes
async def test_the_error_of_a_blocking_advisor_is_the_runs(*, stream: bool) -> None:
    model = ScriptedModel(Cut("It is", ModelUnavailable("gone")))
    with pytest.raises(ModelUnavailable):
        await run([CallAdvisor(as_it_is)], model, stream=stream)


@both_modes
async def test_cancelling_reaches_the_model_through_a_blocking_advisor(*, stream: bool) -> None:
    reply = Hesitant()
    running = asyncio.create_task(run([CallAdvisor(as_it_is)], ScriptedModel(reply), stream=stream))
    await asyncio.wait_for(reply.asked.wait(), PATIENCE)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert reply.cancelled.is_set()


# --- written for streams


@both_modes
async def test_a_streaming_advisor_that_changes_nothing_changes_no_event(*, stream: bool) -> None:
    def model() -> ScriptedModel:
        return ScriptedModel(AssistantMessage("9 m deep.", LOOK.tool_calls, reasoning="Easy."), usage=USED)

    plain = await run([], model(), stream=stream)
    assert (await run([StreamAdvisor(passed_on)], model(), stream=stream)).events == plain.events


@both_modes
async def test_a_text_that_a_streaming_advisor_changed_is_the_answer(*, stream: bool) -> None:
    model = ScriptedModel("ahoy out there", usage=USED)
    asked = await run([StreamAdvisor(shouted_on)], model, stream=stream)
    assert asked.response.content == "AHOY OUT THERE"
    assert asked.response.generated == (AssistantMessage("AHOY OUT THERE"),)
    assert asked.response.usage == USED
    assert asked.last_text == ("AHOY OUT THERE" if stream else "")


@both_modes
async def test_a_streaming_advisor_around_the_loop_sees_tools_run_and_changes_the_last_text(*, stream: bool) -> None:
    model = ScriptedModel(LOOK, "deep enough")
    asked = await run([StreamAdvisor(shouted_on, order=100), loop()], model, stream=stream, tools=(SOUND,))
    assert asked.response.content == "DEEP ENOUGH"
    assert [ready.call for ready in asked.of(ToolCallReady)] == list(LOOK.tool_calls)
    assert asked.of(ToolCallSucceeded)[0].result == "9 m"
    assert bool(asked.of(ToolCallStarted)) is stream


@both_modes
async def test_a_streaming_advisor_gets_a_result_that_is_the_answer_as_text(*, stream: bool) -> None:
    tool = giving("sound", "deep enough", return_direct=True)
    asked = await run([StreamAdvisor(shouted_on, order=100), loop()], ScriptedModel(LOOK), stream=stream, tools=(tool,))
    assert asked.response.finish_reason == FinishReason.RETURN_DIRECT
    assert asked.response.content == "DEEP ENOUGH"
    assert asked.response.generated[-1] == AssistantMessage("DEEP ENOUGH")
    assert asked.last_text == ("LET ME LOOK." if stream else "")


@both_modes
async def test_a_streaming_advisor_may_end_with_an_answer_of_its_own(*, stream: bool) -> None:
    async def signed(request: ChatRequest, call_next: CallNext) -> ChatEvents:
        async with aclosing(call_next(request)) as events:
            async for event in events:
                yield Completed(but(event.response, "signed")) if isinstance(event, Completed) else event

    asked = await run([StreamAdvisor(signed)], ScriptedModel("Hi"), stream=stream)
    assert asked.response.content == "signed"


@both_modes
async def test_a_streaming_advisor_need_not_pass_the_end_on(*, stream: bool) -> None:
    async def only_text(request: ChatRequest, call_next: CallNext) -> ChatEvents:
        async with aclosing(call_next(request)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    yield TextDelta(event.text.replace("9", "nine"))

    asked = await run([StreamAdvisor(only_text)], ScriptedModel("9 m deep.", usage=USED), stream=stream)
    assert asked.response.content == "nine m deep."
    assert asked.response.rounds == (Round(FinishReason.STOP, USED),)


@both_modes
async def test_a_streaming_advisor_may_answer_by_itself(*, stream: bool) -> None:
    async def closed(request: ChatRequest, call_next: CallNext) -> ChatEvents:
        yield TextDelta("The harbour ")
        yield TextDelta("is closed.")

    model = ScriptedModel()
    asked = await run([StreamAdvisor(closed)], model, stream=stream)
    assert asked.response == ChatResponse(
        AssistantMessage("The harbour is closed."), generated=(AssistantMessage("The harbour is closed."),)
    )
    assert asked.last_text == ("The harbour is closed." if stream else "")
    assert model.prompts == []


@both_modes
async def test_a_streaming_advisor_that_gives_nothing_is_an_error(*, stream: bool) -> None:
    async def nothing(request: ChatRequest, call_next: CallNext) -> ChatEvents:
        for event in list[ChatEvent]():
            yield event

    with pytest.raises(RuntimeError, match="neither text nor Completed"):
        await run([StreamAdvisor(nothing)], ScriptedModel(), stream=stream)


@both_modes
async def test_the_error_below_a_streaming_advisor_is_the_runs(*, stream: bool) -> None:
    model = ScriptedModel(Cut("It is", ModelUnavailable("gone")))
    with pytest.raises(ModelUnavailable):
        await run([StreamAdvisor(passed_on)], model, stream=stream)


async def test_pieces_pass_a_streaming_advisor_one_by_one() -> None:
    class Slow(ScriptedModel):
        async def stream(self, prompt: Prompt) -> ChatEvents:
            yield TextDelta("first")
            await asyncio.Event().wait()

    call_next = chain([StreamAdvisor(shouted_on)], Slow())
    async with aclosing(call_next(request_of(stream=True))) as events:
        seen: AsyncIterator[Any] = events
        assert await asyncio.wait_for(anext(seen), PATIENCE) == RoundStarted(1)
        assert await asyncio.wait_for(anext(seen), PATIENCE) == TextDelta("FIRST")
