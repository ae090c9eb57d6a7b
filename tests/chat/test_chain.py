"""The chain: a fold of advisors around a model, in both modes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

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
    Completed,
    RoundStarted,
    TextDelta,
    UserMessage,
    chain,
    well_formed,
)
from app.providers.scripted import ScriptedModel
from tests.support.chains import collect, request_of, run
from tests.support.modes import both_modes


class Stamp(BaseAdvisor):
    """Writes its name into the request on the way in and around the answer on the way out."""

    def __init__(self, name: str, order: int) -> None:
        super().__init__(order)
        self.name = name

    async def before(self, request: ChatRequest) -> ChatRequest:
        (message,) = request.messages
        assert isinstance(message, UserMessage)
        return request.with_messages((UserMessage(message.content + self.name),))

    async def after(self, response: ChatResponse, request: ChatRequest) -> ChatResponse:
        return ChatResponse(AssistantMessage(response.content + self.name), rounds=response.rounds)


class Twice(BaseAdvisor):
    """Asks the rest of the chain a second time and gives the second answer."""

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        async with aclosing(call_next(request)) as first:
            async for event in first:
                if not isinstance(event, Completed):
                    yield event
        async with aclosing(call_next(request)) as second:
            async for event in second:
                yield event


@both_modes
async def test_without_advisors_the_model_answers(*, stream: bool) -> None:
    asked = await run([], ScriptedModel("Good day"), stream=stream)

    deltas = [TextDelta("Good"), TextDelta(" day")] if stream else []
    assert asked.events == [RoundStarted(1), *deltas, Completed(asked.response)]
    assert asked.response.content == "Good day"


@both_modes
async def test_a_low_order_is_outermost_and_equal_orders_keep_the_order_of_registration(*, stream: bool) -> None:
    model = ScriptedModel("answer ")
    advisors: list[Advisor] = [Stamp("c", 20), Stamp("a", 10), Stamp("d", 20), Stamp("b", 10)]

    asked = await run(advisors, model, "", stream=stream)

    assert model.prompts[0].messages == (UserMessage("abcd"),)
    assert asked.response.content == "answer dcba"


@both_modes
async def test_the_rest_of_the_chain_can_be_called_again(*, stream: bool) -> None:
    model = ScriptedModel("first", "second")

    asked = await run([Twice(), BaseAdvisor()], model, stream=stream)

    assert len(model.prompts) == 2
    assert asked.response.content == "second"


@both_modes
async def test_an_error_of_the_model_passes_through_the_chain(*, stream: bool) -> None:
    with pytest.raises(LookupError, match="no reply for model call 1"):
        await run([BaseAdvisor()], ScriptedModel(), stream=stream)


@pytest.mark.parity(24, 165)
@both_modes
async def test_the_same_chain_serves_many_requests_at_once_without_mixing_them(*, stream: bool) -> None:
    call_next = chain([Stamp("!", 1)], ScriptedModel(forever=lambda prompt: str(prompt.messages[0])))

    runs = await asyncio.gather(*(collect(call_next(request_of(str(n), stream=stream))) for n in range(20)))

    for number, asked in enumerate(runs):
        assert f"'{number}!'" in asked.response.content


@both_modes
async def test_closing_the_outermost_generator_closes_the_innermost(*, stream: bool) -> None:
    closed: list[str] = []

    class Watch(BaseAdvisor):
        async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
            try:
                async with aclosing(call_next(request)) as events:
                    async for event in events:
                        yield event
            finally:
                closed.append("closed")

    events = chain([BaseAdvisor(1), Watch(2)], ScriptedModel("a b c"))(request_of(stream=stream))
    await anext(events)
    await events.aclose()

    assert closed == ["closed"]


async def _events(*events: ChatEvent) -> ChatEvents:
    for event in events:
        yield event


DONE = Completed(ChatResponse(AssistantMessage()))


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([TextDelta("x")], "ended without Completed"),
        ([], "ended without Completed"),
        ([DONE, TextDelta("x")], "TextDelta came after Completed"),
        ([DONE, DONE], "Completed came after Completed"),
    ],
)
async def test_well_formed_tells_how_the_invariant_is_broken(events: list[ChatEvent], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        async for _ in well_formed(_events(*events)):
            pass


def test_a_base_advisor_is_an_advisor() -> None:
    assert isinstance(BaseAdvisor(7), Advisor)
    assert BaseAdvisor(7).order == 7
