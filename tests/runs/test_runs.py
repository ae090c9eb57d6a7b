"""Runs: a request driven once through the chain, written down, read by whoever comes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import pytest

from app.advisors import ToolCallingAdvisor
from app.advisors.memory import MemoryAdvisor
from app.chat import (
    AssistantMessage,
    BaseAdvisor,
    CallNext,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    FinishReason,
    ModelProtocolError,
    ModelUnavailable,
    Prompt,
    ReasoningDelta,
    Round,
    RoundCompleted,
    RoundStarted,
    TextDelta,
    ToolCallSucceeded,
    Usage,
)
from app.client import ChatClient
from app.memory import InMemoryChatMemory
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from app.runs import (
    ConversationBusy,
    Escaped,
    GatewayFull,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunLimits,
    Runs,
    RunStarted,
    ShuttingDown,
)
from app.tooling import ToolCallingManager, tool
from tests.support.advisors import Silent
from tests.support.chains import request_of
from tests.support.following import entries, events
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import Held, failing


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# --- what is written


@both_modes
async def test_a_run_is_its_numbered_events(*, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("add", {"a": 2, "b": 3})), "Five", usage=Usage(1, 1, 2))
    run = await Runs(ChatClient(model, tools=[add])).start(request_of(stream=stream))

    written = await entries(run)

    assert [entry.seq for entry in written] == list(range(1, len(written) + 1))
    kept = (RunStarted, RoundStarted, ToolCallSucceeded, RoundCompleted, RunCompleted)
    assert [(entry.round, type(entry.event)) for entry in written if isinstance(entry.event, kept)] == [
        (None, RunStarted),
        (1, RoundStarted),
        (1, ToolCallSucceeded),
        (1, RoundCompleted),
        (2, RoundStarted),
        (2, RoundCompleted),
        (2, RunCompleted),
    ]


@both_modes
async def test_the_answer_is_the_one_in_the_last_event(*, stream: bool) -> None:
    run = await Runs(ChatClient(ScriptedModel("Hi"))).start(request_of(stream=stream))

    answer = await run.result()

    assert (await events(run))[-1] == RunCompleted(answer)
    assert answer.content == "Hi"


@both_modes
async def test_an_advisor_that_answers_by_itself_makes_no_round(*, stream: bool) -> None:
    class Canned(BaseAdvisor):
        async def advise(self, request: ChatRequest, call_next: Any) -> ChatEvents:
            yield TextDelta("No.")
            yield Completed(ChatResponse(AssistantMessage("No.")))

    run = await Runs(ChatClient(ScriptedModel(), advisors=[Canned(1)])).start(request_of(stream=stream))

    assert [type(event) for event in await events(run)] == [RunStarted, TextDelta, RunCompleted]


@pytest.mark.fault("S01", "U19")
@both_modes
async def test_a_run_that_breaks_ends_with_its_error(*, stream: bool) -> None:
    run = await Runs(ChatClient(ScriptedModel(Cut("half", ModelProtocolError("cut"))))).start(request_of(stream=stream))

    with pytest.raises(ModelProtocolError):
        await run.result()
    last = (await events(run))[-1]

    assert isinstance(last, RunFailed)
    assert str(last.error) == "cut"


@both_modes
async def test_a_chain_that_ends_without_an_answer_is_a_failure(*, stream: bool) -> None:
    run = await Runs(ChatClient(ScriptedModel("Hi"), advisors=[Silent(1)])).start(request_of(stream=stream))

    with pytest.raises(RuntimeError, match="without Completed"):
        await run.result()


class Abrupt(BaseException):
    """No `Exception`, and nothing that asyncio knows."""


@pytest.mark.fault("L07")
@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit, Abrupt])
@both_modes
async def test_a_tool_that_raises_an_order_to_end_more_ends_its_own_run_only(
    kind: type[BaseException], *, stream: bool
) -> None:
    model = ScriptedModel(tool_calls(("leave", {})), "Hi")
    runs = Runs(ChatClient(model, tools=[failing("leave", kind())]))
    broken = await runs.start(request_of(stream=stream, conversation_id="c"))

    last = (await events(broken))[-1]

    assert isinstance(last, RunFailed)
    assert isinstance(last.error, Escaped)
    assert isinstance(last.error.__cause__, kind)
    await asyncio.wait([broken.task])
    assert (await (await runs.start(request_of(stream=False, conversation_id="c"))).result()).content == "Hi"


async def test_a_failure_is_logged_once_with_its_run_and_a_fault_of_ours_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = Runs(ChatClient(ScriptedModel(ModelUnavailable("connection refused"), KeyError("bug"))))
    for _ in range(2):
        await asyncio.wait([(await runs.start(request_of(stream=False))).task])

    expected, ours = caplog.records
    assert (expected.levelno, expected.exc_info) == (logging.WARNING, None)
    assert "ModelUnavailable: connection refused" in expected.message
    assert ours.levelno == logging.ERROR
    assert ours.exc_info is not None


# --- waiting for the first event


async def test_answering_returns_with_the_models_first_event() -> None:
    run = await Runs(ChatClient(ScriptedModel("Hi"))).start(request_of(stream=True))

    await run.answering(timeout=10)

    assert TextDelta("Hi") in [entry.event for entry in await anext(run.journal.follow())]


async def test_answering_gives_up_when_its_time_is_over() -> None:
    reply = Hesitant()
    run = await Runs(ChatClient(ScriptedModel(reply))).start(request_of(stream=True))
    await reply.asked.wait()

    await run.answering(timeout=0)

    assert not run.task.done()
    run.cancel()
    await run.result()


async def test_answering_raises_what_happened_before_the_models_first_event() -> None:
    run = await Runs(ChatClient(ScriptedModel(ModelUnavailable("down")))).start(request_of(stream=True))

    with pytest.raises(ModelUnavailable):
        await run.answering(timeout=10)


async def test_answering_does_not_raise_what_happens_after_the_models_first_event() -> None:
    run = await Runs(ChatClient(ScriptedModel(Cut("half", ModelUnavailable("down"))))).start(request_of(stream=True))
    await asyncio.wait([run.task])

    await run.answering(timeout=10)


# --- cancelling


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


@pytest.mark.fault("K02")
@both_modes
@pytest.mark.parametrize("cancelled", [False, True], ids=["answered", "cancelled"])
async def test_a_context_variable_set_in_an_advisor_can_be_reset_however_the_run_ends(
    *, cancelled: bool, stream: bool
) -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    seen: list[str] = []

    class Scoped(BaseAdvisor):
        async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
            token = tenant.set("red")
            try:
                async with aclosing(call_next(request)) as events:
                    async for event in events:
                        yield event
            finally:
                tenant.reset(token)
                seen.append(tenant.get())

    reply = Hesitant()
    run = await Runs(ChatClient(ScriptedModel(reply), advisors=[Scoped(1)])).start(request_of(stream=stream))
    await reply.asked.wait()
    if cancelled:
        run.cancel()
    reply.go_on.set()
    await run.result()

    assert seen == ["nobody"]
    assert tenant.get() == "nobody"


# --- out of time


@both_modes
async def test_a_run_out_of_time_ends_as_an_answer_with_what_was_done(*, stream: bool) -> None:
    reply, memory = Hesitant(), InMemoryChatMemory()
    model = ScriptedModel(tool_calls(("add", {"a": 2, "b": 3})), reply, usage=Usage(1, 1, 2))
    client = ChatClient(model, tools=[add], advisors=[MemoryAdvisor(memory)])
    run = await Runs(client, RunLimits(deadline=0.1)).start(request_of(stream=stream, conversation_id="c"))

    answer = await run.result()

    assert reply.cancelled.is_set()
    assert (await events(run))[-1] == RunCompleted(answer)
    assert (answer.finish_reason, answer.content, answer.tool_calls) == (FinishReason.DEADLINE, "", ())
    assert [(ran.round, ran.name, ran.result) for ran in answer.tool_runs] == [(1, "add", "5")]
    assert answer.usage == Usage(1, 1, 2)
    assert answer.rounds == (Round(FinishReason.TOOL_CALLS, Usage(1, 1, 2)), Round(FinishReason.DEADLINE))
    assert await memory.get("c") == ()


@both_modes
@pytest.mark.parametrize("deadline", [True, False], ids=["out of time", "cancelled"])
async def test_what_the_model_said_and_used_is_kept_though_its_tools_did_not_end(
    *, deadline: bool, stream: bool
) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {}), content="Looking"), usage=Usage(3, 2, 5))
    runs = Runs(ChatClient(model, tools=[held.tool]), RunLimits(deadline=0.1 if deadline else None))
    run = await runs.start(request_of(stream=stream))
    await held.begun()
    if not deadline:
        run.cancel()

    answer = await run.result()

    assert (held.cancelled, answer.content, answer.usage) == (1, "Looking", Usage(3, 2, 5))
    assert answer.rounds == (Round(FinishReason.TOOL_CALLS, Usage(3, 2, 5)),)
    assert answer.finish_reason is (FinishReason.DEADLINE if deadline else FinishReason.CANCELLED)


async def test_the_text_of_a_stream_out_of_time_is_kept_and_its_round_is_closed() -> None:
    class Slow(ScriptedModel):
        async def stream(self, prompt: Prompt) -> ChatEvents:
            yield ReasoningDelta("Hm.")
            yield TextDelta("Once upon")
            await asyncio.Event().wait()

    run = await Runs(ChatClient(Slow()), RunLimits(deadline=0.05)).start(request_of(stream=True))

    answer = await run.result()

    assert (answer.content, answer.message.reasoning) == ("Once upon", "Hm.")
    assert (await events(run))[-2:] == [RoundCompleted(1, FinishReason.DEADLINE, Usage()), RunCompleted(answer)]


async def test_a_run_whose_time_is_over_between_two_rounds_has_no_round_to_close() -> None:
    class Late(ToolCallingAdvisor):
        async def before_call(self, request: ChatRequest) -> ChatRequest:
            if request.round > 1:
                await asyncio.Event().wait()
            return request

    client = ChatClient(
        ScriptedModel(tool_calls(("add", {"a": 2, "b": 3}))), tools=[add], advisors=[Late(ToolCallingManager())]
    )

    answer = await (await Runs(client, RunLimits(deadline=0.05)).start(request_of(stream=False))).result()

    assert [one.finish_reason for one in answer.rounds] == [FinishReason.TOOL_CALLS]


async def test_a_run_that_has_its_answer_is_not_out_of_time_while_it_is_closed() -> None:
    class Tidy(BaseAdvisor):
        async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
            try:
                async with aclosing(call_next(request)) as events:
                    async for event in events:
                        yield event
            finally:
                tidied = asyncio.Event()
                asyncio.get_running_loop().call_later(0.1, tidied.set)
                await tidied.wait()

    run = await Runs(ChatClient(ScriptedModel("Hi"), advisors=[Tidy(1)]), RunLimits(deadline=0.05)).start(
        request_of(stream=False)
    )

    assert (await run.result()).finish_reason is FinishReason.STOP


async def test_a_run_with_no_time_at_all_asks_nobody() -> None:
    model = ScriptedModel("Hi")
    run = await Runs(ChatClient(model), RunLimits(deadline=0)).start(request_of(stream=False))
    run.cancel()

    assert (await run.result()).finish_reason is FinishReason.CANCELLED, "what comes first counts"
    assert model.prompts == []


# --- what failures cost


@both_modes
async def test_what_a_failed_run_used_is_logged(caplog: pytest.LogCaptureFixture, *, stream: bool) -> None:
    broken = ModelProtocolError("cut", usage=Usage(10, 4, 14))
    model = ScriptedModel(tool_calls(("add", {"a": 2, "b": 3})), broken, usage=Usage(1, 1, 2))
    await asyncio.wait([(await Runs(ChatClient(model, tools=[add])).start(request_of(stream=stream))).task])

    [record] = [record for record in caplog.records if record.name == "app.runs.run"]
    assert record.getMessage().endswith("ModelProtocolError: cut (tokens used: 11 in, 5 out)")


# --- many runs


@pytest.mark.fault("M11")
async def test_a_conversation_has_one_run_at_a_time() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply, "Hi")))
    first = await runs.start(request_of(stream=False, conversation_id="c"))

    with pytest.raises(ConversationBusy, match="'c'"):
        await runs.start(request_of(stream=False, conversation_id="c"))
    reply.go_on.set()
    await first.result()

    assert (await (await runs.start(request_of(stream=False, conversation_id="c"))).result()).content == "Hi"


async def test_runs_without_a_conversation_do_not_wait_for_each_other() -> None:
    runs = Runs(ChatClient(ScriptedModel(forever="Hi")))

    answers = await asyncio.gather(*[(await runs.start(request_of(stream=False))).result() for _ in range(10)])

    assert len(answers) == 10
    assert runs.active == 0


async def test_no_more_runs_than_may_go_at_once() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply)), RunLimits(active=1))
    first = await runs.start(request_of(stream=False))

    with pytest.raises(GatewayFull, match="as many as may"):
        await runs.start(request_of(stream=False))

    reply.go_on.set()
    await first.result()


async def test_draining_refuses_new_runs_and_lets_old_ones_end() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply)))
    run = await runs.start(request_of(stream=False))
    await reply.asked.wait()

    draining = asyncio.create_task(runs.drain(timeout=60))
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown):
        await runs.start(request_of(stream=False))
    reply.go_on.set()
    await draining

    assert runs.draining
    assert (await run.result()).content == "At last."


async def test_draining_ends_what_does_not_end_in_time() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply)))
    run = await runs.start(request_of(stream=False))
    await reply.asked.wait()

    await runs.drain(timeout=0)

    with pytest.raises(ShuttingDown):
        await run.result()
    assert (reply.cancelled.is_set(), runs.active) == (True, 0)


async def test_other_work_is_waited_for_as_runs_are_and_refused_once_draining_has_begun() -> None:
    runs = Runs(ChatClient(ScriptedModel()))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    working = asyncio.create_task(runs.attend(work))
    await begun.wait()
    draining = asyncio.create_task(runs.drain(timeout=60))
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown):
        await runs.attend(work)
    assert not draining.done()
    go_on.set()
    await draining

    assert await working == "done"


@pytest.mark.fault("D04")
async def test_other_work_that_does_not_end_in_time_is_ended_once_and_may_clean_up() -> None:
    runs = Runs(ChatClient(ScriptedModel()))
    begun, cleaning, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    cleaned: list[str] = []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await go_on.wait()
            cleaned.append("up")

    working = asyncio.create_task(runs.attend(work))
    await begun.wait()
    draining = [asyncio.create_task(runs.drain(timeout=0)) for _ in range(2)]
    await cleaning.wait()
    working.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*draining)

    assert cleaned == ["up"]
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_other_work_that_fails_fails_its_caller_only() -> None:
    runs = Runs(ChatClient(ScriptedModel()))

    async def work() -> None:
        raise SystemExit(3)

    with pytest.raises(Escaped):
        await runs.attend(work)
    await runs.drain(timeout=60)


async def test_draining_an_idle_gateway_returns_at_once() -> None:
    await Runs(ChatClient(ScriptedModel())).drain(timeout=60)
