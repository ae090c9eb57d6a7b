"""What goes wrong, or goes on, while a run is told to end."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from app.chat import BaseAdvisor, CallNext, ChatEvents, ChatRequest, FinishReason
from app.client import ChatClient
from app.providers.scripted import ScriptedModel
from app.runs import RunCompleted, Runs
from tests.support.chains import request_of
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes


class Clumsy(BaseAdvisor):
    """Fails when it tidies up, as what it holds does when it is broken off."""

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Pass everything on, and fail."""
        try:
            async with aclosing(call_next(request)) as events:
                async for event in events:
                    yield event
        finally:
            raise ZeroDivisionError


class Insistent(BaseAdvisor):
    """Asks again whatever happened, as a careless retry does."""

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Ask until there is an answer."""
        while True:
            try:
                async with aclosing(call_next(request)) as events:
                    async for event in events:
                        yield event
            except BaseException as error:
                if isinstance(error, GeneratorExit):
                    raise
                continue
            return


@both_modes
async def test_a_clean_up_that_fails_makes_no_failure_of_a_run_that_was_cancelled(
    caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    reply = Hesitant()
    run = await Runs(ChatClient(ScriptedModel(reply), advisors=[Clumsy(1)])).start(request_of(stream=stream))
    await reply.asked.wait()

    run.cancel()

    assert (await run.result()).finish_reason is FinishReason.CANCELLED
    assert "ZeroDivisionError" in caplog.text, "it is told to the operator"


@both_modes
async def test_a_clean_up_that_fails_takes_no_answer_back(*, stream: bool) -> None:
    run = await Runs(ChatClient(ScriptedModel("Hi"), advisors=[Clumsy(1)])).start(request_of(stream=stream))

    assert (await run.result()).content == "Hi"
    assert isinstance(run.end, RunCompleted)


@both_modes
async def test_a_run_that_was_cancelled_asks_no_model_again_though_an_advisor_wants_to(*, stream: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply, Hesitant())
    run = await Runs(ChatClient(model, advisors=[Insistent(1)])).start(request_of(stream=stream))
    await reply.asked.wait()

    run.cancel()

    assert (await run.result()).finish_reason is FinishReason.CANCELLED
    assert len(model.prompts) == 1
