"""Runs: a request driven once through the chain, written down, read by whoever comes."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import aclosing
from contextvars import ContextVar
from time import time_ns
from typing import Any

import pytest

from app.chat import (
    AssistantMessage,
    BaseAdvisor,
    CallNext,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    ModelProtocolError,
    ModelUnavailable,
    RoundCompleted,
    RoundStarted,
    TextDelta,
    ToolCallSucceeded,
    Usage,
)
from app.client import ChatClient
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from app.runs import (
    Escaped,
    RunCompleted,
    RunFailed,
    RunLimits,
    RunOptions,
    Runs,
    RunStarted,
)
from app.runs.run import new_run_id
from app.tooling import tool
from tests.support.advisors import Silent
from tests.support.chains import request_of
from tests.support.following import entries, events
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import failing


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


# --- what failures leave in the log


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


@both_modes
async def test_what_a_failed_run_used_is_logged(caplog: pytest.LogCaptureFixture, *, stream: bool) -> None:
    broken = ModelProtocolError("cut", usage=Usage(10, 4, 14))
    model = ScriptedModel(tool_calls(("add", {"a": 2, "b": 3})), broken, usage=Usage(1, 1, 2))
    await asyncio.wait([(await Runs(ChatClient(model, tools=[add])).start(request_of(stream=stream))).task])

    [record] = [record for record in caplog.records if record.name == "app.runs.local_run"]
    assert record.getMessage().endswith("ModelProtocolError: cut (tokens used: 11 in, 5 out)")


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


# --- how far it is


@both_modes
async def test_a_run_tells_whether_it_waits_or_runs_or_has_its_answer(*, stream: bool) -> None:
    first, second = Hesitant(), Hesitant()
    runs = Runs(ChatClient(ScriptedModel(first, second)))
    request = request_of(stream=stream, conversation_id="c")
    going, waiting = await runs.start(request), await runs.start(request, RunOptions(when_busy="queue"))
    assert (going.status, waiting.status) == ("running", "queued")
    await first.asked.wait()
    assert (going.status, waiting.status) == ("running", "queued")
    assert (going.end, going.ended_at) == (None, None)

    first.go_on.set()
    answer = await going.result()
    await second.asked.wait()

    assert (going.status, waiting.status) == ("completed", "running")
    assert going.end == RunCompleted(answer)
    assert going.ended_at is not None
    assert going.created_at <= going.ended_at
    second.go_on.set()
    await waiting.result()


@both_modes
async def test_a_run_tells_how_it_ended(*, stream: bool) -> None:
    cancelled_reply, late_reply = Hesitant(), Hesitant()
    model = ScriptedModel(ModelUnavailable("down"), cancelled_reply, late_reply)
    runs, in_a_hurry = Runs(ChatClient(model)), Runs(ChatClient(model), RunLimits(deadline=0.01))
    failed = await runs.start(request_of(stream=stream))
    await asyncio.wait([failed.task])
    cancelled = await runs.start(request_of(stream=stream))
    await cancelled_reply.asked.wait()
    cancelled.cancel()
    assert (cancelled.is_ending, cancelled.status) == (True, "running")
    await cancelled.result()
    late = await in_a_hurry.start(request_of(stream=stream))
    await late.result()

    assert [run.status for run in (failed, cancelled, late)] == ["failed", "cancelled", "completed"]


async def test_ids_are_in_the_order_in_which_runs_were_begun() -> None:
    runs = Runs(ChatClient(ScriptedModel(forever="Hi")))

    ids = [(await runs.start(request_of(stream=False))).id for _ in range(50)]

    assert ids == sorted(set(ids))
    assert all(re.fullmatch("run_[0-9a-f]{32}", id_) for id_ in ids)
    await runs.drain(PATIENCE)


async def test_ids_are_in_order_though_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time_ns()
    clock = iter([now, now, now - 10**15, now + 10**6])
    with monkeypatch.context() as patch:
        patch.setattr("time.time_ns", lambda: next(clock))
        ids = [new_run_id() for _ in range(4)]

    assert ids == sorted(set(ids))
