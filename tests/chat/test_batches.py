"""Deltas that came together go down the chain together, as far as the advisors let them."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from app.chat import (
    Advisor,
    AssistantMessage,
    BaseAdvisor,
    CallNext,
    ChatEvent,
    ChatEvents,
    ChatOptions,
    ChatRequest,
    ChatResponse,
    Completed,
    Deltas,
    Prompt,
    TextDelta,
    batches_of,
    chain,
    one_by_one,
)
from app.client import ChatClient
from app.providers.routing import RoutedModel, Target
from app.providers.scripted import ScriptedModel
from tests.support.chains import request_of

ANSWER = Completed(ChatResponse.of_call(AssistantMessage("one two")))
TOGETHER: list[ChatEvent] = [Deltas((TextDelta("one "), TextDelta("two"))), ANSWER]
SINGLY: list[ChatEvent] = [TextDelta("one "), TextDelta("two"), ANSWER]


class Burst:
    """A model whose server sends all of an answer at once."""

    name = "burst"
    default_options = ChatOptions()

    async def call(self, prompt: Prompt) -> ChatResponse:
        return ANSWER.response

    def stream(self, prompt: Prompt) -> ChatEvents:
        return one_by_one(self.stream_batches(prompt))

    async def stream_batches(self, prompt: Prompt) -> ChatEvents:
        for event in TOGETHER:
            yield event

    async def aclose(self) -> None:
        return


class Watch(BaseAdvisor):
    """Notes what it is given, and says nothing of whether it could take deltas together."""

    def __init__(self, order: int) -> None:
        super().__init__(order)
        self.seen: list[ChatEvent] = []

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        async with aclosing(super().advise(request, call_next)) as events:
            async for event in events:
                self.seen.append(event)
                yield event


async def given_by(*advisors: Advisor) -> list[ChatEvent]:
    """What a chain gives behind the beginning of its only round."""
    async with aclosing(chain(advisors, Burst())(request_of(stream=True))) as events:
        return [event async for event in events][1:]


async def test_deltas_pass_advisors_together_that_do_not_look_at_them() -> None:
    assert await given_by() == TOGETHER
    assert await given_by(BaseAdvisor(100), BaseAdvisor(200)) == TOGETHER


async def test_an_advisor_that_does_not_say_it_can_take_them_together_is_given_them_singly() -> None:
    watch = Watch(200)

    assert await given_by(BaseAdvisor(100), watch, BaseAdvisor(300)) == SINGLY
    assert watch.seen[1:] == SINGLY


@pytest.mark.parametrize("batched", [False, True])
async def test_who_runs_a_client_is_given_deltas_singly_unless_told_to_take_them_together(*, batched: bool) -> None:
    async with aclosing(ChatClient(Burst()).run(request_of(stream=True), batched=batched)) as events:
        assert [event async for event in events][1:] == (TOGETHER if batched else SINGLY)


async def test_a_model_of_several_servers_passes_them_on_together_or_singly_as_it_is_asked() -> None:
    model = RoutedModel({"default": [Target(Burst())]})

    async with (
        aclosing(model.stream(Prompt.of("Hi"))) as singly,
        aclosing(model.stream_batches(Prompt.of("Hi"))) as both,
    ):
        assert [event async for event in singly][:-1] == SINGLY[:-1]
        assert [event async for event in both][:-1] == TOGETHER[:-1]


async def test_a_model_that_cannot_give_them_together_is_asked_for_its_stream() -> None:
    async with aclosing(batches_of(ScriptedModel("one two"), Prompt.of("Hi"))) as events:
        said = [event async for event in events]

    assert all(isinstance(event, TextDelta) for event in said[:-1])


async def test_a_reader_who_leaves_closes_the_events_that_were_together() -> None:
    closed: list[str] = []

    async def events() -> ChatEvents:
        try:
            yield TOGETHER[0]
        finally:
            closed.append("closed")

    singly = one_by_one(events())
    await anext(singly)
    await singly.aclose()

    assert closed == ["closed"]
