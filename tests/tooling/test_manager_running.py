"""Which calls run at once, how long they may take, and that all of them end with their batch."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chat import (
    AssistantMessage,
    ToolCall,
    ToolCallErrored,
    ToolCallSucceeded,
    ToolContext,
    ToolFailed,
    ToolTimeout,
)
from app.providers.scripted import tool_calls
from app.tooling.manager import ToolCallingManager
from app.tooling.threads import ToolThreads
from tests.support.executing import QUESTION, Executed, execute
from tests.support.gates import PATIENCE, Gate
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, Held, echo, failing, in_thread

SOON = 0.01
"""A time-out that is over at once."""


def times(count: int, name: str) -> AssistantMessage:
    """A message that asks for the tool so many times, each time with other arguments."""
    return tool_calls(*((name, {"n": number}) for number in range(count)))


async def stubborn(_: str, __: ToolContext) -> str:
    """Takes no notice of being cancelled, once."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "I was not finished"
    raise AssertionError("the event was never set")


def use_up(seconds: float) -> None:
    """Stop the event loop for longer: when it goes on, a timer is due, and whatever was to go on at once is before."""
    until = time.monotonic() + 2 * seconds
    while time.monotonic() < until:
        pass


@both_modes
async def test_calls_of_one_message_run_at_once(stream: bool) -> None:
    held = Held()
    running = asyncio.create_task(execute(times(3, "held"), [held.tool], stream=stream))
    await held.begun(3)

    held.let_go.set()

    assert (await running).texts == ['{"n": 0}', '{"n": 1}', '{"n": 2}']


@both_modes
async def test_no_more_calls_run_at_once_than_the_cap_allows(stream: bool) -> None:
    held = Held()
    manager = ToolCallingManager(max_concurrency=2)
    running = asyncio.create_task(execute(times(5, "held"), [held.tool], stream=stream, manager=manager))
    await held.begun(2)

    held.let_go.set()

    assert len((await running).results) == 5
    assert held.most == 2


@both_modes
async def test_a_sequential_tool_runs_alone_after_those_before_and_before_those_after(stream: bool) -> None:
    log: list[str] = []

    async def noted(arguments: str, _: ToolContext) -> str:
        log.append(f"{arguments} begins")
        for _step in range(3):
            await asyncio.sleep(0)
        log.append(f"{arguments} ends")
        return arguments

    calls = [("any", "a"), ("any", "b"), ("alone", "c"), ("alone", "d"), ("any", "e"), ("any", "f")]
    tools = [HandWrittenTool("any", noted), HandWrittenTool("alone", noted, sequential=True)]
    await execute(tool_calls(*calls), tools, stream=stream)

    assert log == [
        *["a begins", "b begins", "a ends", "b ends"],
        *["c begins", "c ends", "d begins", "d ends"],
        *["e begins", "f begins", "e ends", "f ends"],
    ]


async def test_ends_are_told_as_they_come_and_results_in_the_order_asked() -> None:
    held = Held()
    running = ToolCallingManager().stream(
        tool_calls(("held", {}), ("echo", {}), ("bad", {})),
        tools=[held.tool, echo(), failing("bad", ToolFailed("No."))],
        history=[QUESTION],
    )
    async with asyncio.timeout(PATIENCE), aclosing(running):
        first, second = await anext(running), await anext(running)
        held.let_go.set()
        third = await anext(running)

    assert isinstance(first, ToolCallSucceeded)
    assert isinstance(second, ToolCallErrored)
    assert isinstance(third, ToolCallSucceeded)
    assert [first.name, second.name, third.name] == ["echo", "bad", "held"]
    assert (second.call_id, second.error) == ("call_3", "No.")


@both_modes
@pytest.mark.fault("D11")
async def test_a_tool_that_hangs_becomes_an_error_and_the_others_are_answered(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held()

    done = await execute(
        tool_calls(("held", {}), ("echo", {})),
        [held.tool, echo()],
        stream=stream,
        manager=ToolCallingManager(timeout=SOON),
    )

    assert done.texts == ["The tool held did not end within 0.01 seconds. It may have taken effect.", "{}"]
    assert done.failed == [True, False]
    assert done.execution.tool_runs[0].ms >= SOON * 1000
    assert (held.running, held.cancelled) == (0, 1)
    assert caplog.messages == ["tool held did not end within 0.01 s in call 'call_1'"]


@both_modes
@pytest.mark.fault("D11")
async def test_a_tools_own_timeout_goes_before_the_general_one(stream: bool) -> None:
    hasty = Held("hasty", timeout=SOON)
    patient = Held("patient", timeout=PATIENCE)

    async def let_go_when_the_hasty_one_is_over() -> None:
        await hasty.ended.wait()
        patient.let_go.set()

    letting_go = asyncio.create_task(let_go_when_the_hasty_one_is_over())
    in_general_short = await execute(
        tool_calls(("hasty", {}), ("patient", {})),
        [hasty.tool, patient.tool],
        stream=stream,
        manager=ToolCallingManager(timeout=SOON / 10),
    )
    await letting_go

    assert in_general_short.failed == [True, False]
    assert "0.01 seconds" in in_general_short.texts[0]


@both_modes
async def test_without_any_timeout_a_tool_has_all_the_time_it_wants(stream: bool) -> None:
    held = Held()
    running = asyncio.create_task(
        execute(times(1, "held"), [held.tool], stream=stream, manager=ToolCallingManager(timeout=None))
    )
    await held.begun()
    held.let_go.set()

    assert (await running).failed == [False]


@both_modes
@pytest.mark.fault("D11")
async def test_what_a_tool_gives_after_its_time_is_not_its_result(stream: bool) -> None:
    done = await execute(
        times(1, "depth"),
        [HandWrittenTool("depth", stubborn)],
        stream=stream,
        manager=ToolCallingManager(timeout=SOON),
    )

    assert done.failed == [True]
    assert "did not end within" in done.texts[0]


@both_modes
async def test_a_result_that_is_there_when_the_time_is_up_counts(stream: bool) -> None:
    async def only_just(_: str, __: ToolContext) -> str:
        use_up(SOON)
        await asyncio.sleep(0)
        return "11 m"

    tools = [HandWrittenTool("depth", only_just)]
    done = await execute(times(1, "depth"), tools, stream=stream, manager=ToolCallingManager(timeout=SOON))

    assert done.texts == ["11 m"]


@both_modes
async def test_a_tool_that_has_cleaned_up_when_the_time_for_that_is_up_is_not_left_running(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def only_just(_: str, __: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            use_up(SOON)
            await asyncio.sleep(0)
        raise AssertionError("the event was never set")

    tools = [HandWrittenTool("depth", only_just)]
    manager = ToolCallingManager(timeout=SOON, cancel_grace=SOON)
    done = await execute(times(1, "depth"), tools, stream=stream, manager=manager)

    assert "did not end within" in done.texts[0]
    assert caplog.messages == ["tool depth did not end within 0.01 s in call 'call_1'"]


@both_modes
@pytest.mark.fault("D11")
async def test_a_tool_that_ignores_its_cancellation_is_left_alone_after_a_while(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    let_go, ended = asyncio.Event(), asyncio.Event()

    async def ignore(_: str, __: ToolContext) -> str:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return "at last"

    manager = ToolCallingManager(timeout=SOON, cancel_grace=SOON)
    done = await execute(
        tool_calls(("deaf", {}), ("echo", {})),
        [HandWrittenTool("deaf", ignore), echo()],
        stream=stream,
        manager=manager,
    )

    assert done.failed == [True, False]
    assert manager.left_running == 1
    assert "tool deaf ignores its cancellation in call 'call_1'; it is left running" in caplog.messages
    let_go.set()
    await asyncio.wait_for(ended.wait(), PATIENCE)
    await asyncio.sleep(0)
    assert manager.left_running == 0


@both_modes
async def test_a_failure_while_cleaning_up_after_a_timeout_is_logged(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_late(_: str, __: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("lost the rope")

    done = await execute(
        times(1, "depth"),
        [HandWrittenTool("depth", fail_late)],
        stream=stream,
        manager=ToolCallingManager(timeout=SOON),
    )

    assert "did not end within" in done.texts[0]
    assert any("tool depth failed in call 'call_1': ValueError" in message for message in caplog.messages)


@both_modes
@pytest.mark.parity(134)
async def test_an_exit_while_cleaning_up_after_a_timeout_still_goes_to_the_caller(stream: bool) -> None:
    async def leave_late(_: str, __: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            raise SystemExit

    with pytest.raises(SystemExit):
        await execute(
            times(1, "depth"),
            [HandWrittenTool("depth", leave_late)],
            stream=stream,
            manager=ToolCallingManager(timeout=SOON),
        )


@both_modes
@pytest.mark.parity(133)
async def test_a_timeout_can_be_made_to_end_the_run(stream: bool) -> None:
    with pytest.raises(ToolTimeout):
        await execute(
            times(1, "held"),
            [Held().tool],
            stream=stream,
            manager=ToolCallingManager(timeout=SOON, raise_errors=(ToolTimeout,)),
        )


@both_modes
@pytest.mark.fault("D12")
async def test_a_blocked_function_costs_its_thread_and_no_more(stream: bool) -> None:
    threads, gate = ToolThreads(1, max_wait=0), Gate()

    def block(_: ToolContext) -> str:
        gate()
        return "too late"

    tools = [in_thread("blocked", block, threads), in_thread("next", lambda _: "done", threads)]
    manager = ToolCallingManager(timeout=0.1)
    await threads.run(lambda: None)  # the thread is there: a tenth of a second is enough to begin
    timed_out = await execute(times(1, "blocked"), tools, stream=stream, manager=manager)
    refused = await execute(times(1, "next"), tools, stream=stream, manager=manager)

    assert "did not end within" in timed_out.texts[0]
    assert refused.texts == ["The tool was not run: all 1 threads for tools are busy. Try again later."]
    assert threads.busy == 1
    gate.open()


async def test_who_stops_reading_early_leaves_nothing_running() -> None:
    held, waiting = Held(), Held("waiting", sequential=True)
    running = ToolCallingManager().stream(
        tool_calls(("echo", {}), ("held", {}), ("waiting", {})),
        tools=[echo(), held.tool, waiting.tool],
        history=[QUESTION],
    )
    async with asyncio.timeout(PATIENCE):
        await anext(running)
        await held.begun()
        await running.aclose()

    assert (held.running, held.cancelled) == (0, 1)
    assert waiting.tool.asked == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("timeout", [None, PATIENCE])
async def test_who_leaves_cancels_a_tool_whether_its_time_is_limited_or_not(timeout: float | None) -> None:
    held = Held()
    running = ToolCallingManager(timeout=timeout).stream(
        tool_calls(("echo", {}), ("held", {})), tools=[echo(), held.tool], history=[QUESTION]
    )
    async with asyncio.timeout(PATIENCE):
        await anext(running)
        await held.begun()
        await running.aclose()

    assert (held.running, held.cancelled) == (0, 1)


async def test_who_leaves_cancels_tools_in_the_order_in_which_they_began() -> None:
    cancelled: list[str] = []

    async def noting(arguments: str, _: ToolContext) -> str:
        try:
            return str(await asyncio.Event().wait())
        finally:
            cancelled.append(arguments)

    asked = times(20, "noting")
    running = ToolCallingManager(max_concurrency=21).stream(
        replace(asked, tool_calls=(*asked.tool_calls, ToolCall("last", "echo", "{}"))),
        tools=[HandWrittenTool("noting", noting), echo()],
        history=[QUESTION],
    )
    async with asyncio.timeout(PATIENCE):
        await anext(running)
        await running.aclose()

    assert cancelled == [call.arguments for call in asked.tool_calls]


async def test_who_leaves_waits_for_a_tool_that_cleans_up_after_its_time_and_does_not_cancel_it_again() -> None:
    cleaning, cleaned = asyncio.Event(), asyncio.Event()
    notes: list[str] = []

    async def tidy(_: str, __: ToolContext) -> str:
        try:
            return str(await asyncio.Event().wait())
        finally:
            cleaning.set()
            await cleaned.wait()
            notes.append("cleaned up")

    running = ToolCallingManager(timeout=SOON, cancel_grace=PATIENCE).stream(
        tool_calls(("echo", {}), ("tidy", {})), tools=[echo(), HandWrittenTool("tidy", tidy)], history=[QUESTION]
    )
    async with asyncio.timeout(PATIENCE):
        await anext(running)
        await cleaning.wait()
        leaving = asyncio.create_task(running.aclose())
        await asyncio.sleep(0)
        assert not leaving.done()
        cleaned.set()
        await leaving

    assert notes == ["cleaned up"]


async def cancelled_while_cleaning_up(stream: bool, cancellations: int) -> list[str]:
    """Cancel a batch whose tool takes a while to clean up; what the tool noted of itself."""
    notes: list[str] = []
    began, cleaning, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def tidy(_: str, __: ToolContext) -> str:
        try:
            began.set()
            return str(await asyncio.Event().wait())
        finally:
            cleaning.set()
            await cleaned.wait()
            notes.append("cleaned up")

    running: asyncio.Task[Executed] = asyncio.create_task(
        execute(times(1, "tidy"), [HandWrittenTool("tidy", tidy)], stream=stream)
    )
    await began.wait()
    running.cancel()
    await cleaning.wait()
    for _ in range(cancellations - 1):
        running.cancel()
        await asyncio.sleep(0)
    assert not running.done()
    cleaned.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    return notes


@both_modes
@pytest.mark.parity(134)
@pytest.mark.fault("D04", "D13")
@pytest.mark.parametrize("cancellations", [1, 3])
async def test_a_cancelled_batch_ends_when_its_tools_have_cleaned_up(stream: bool, cancellations: int) -> None:
    assert await cancelled_while_cleaning_up(stream, cancellations) == ["cleaned up"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@both_modes
async def test_a_cancelled_batch_starts_nothing_more(stream: bool) -> None:
    held = Held()
    manager = ToolCallingManager(max_concurrency=1)
    running = asyncio.create_task(execute(times(3, "held"), [held.tool], stream=stream, manager=manager))
    await held.begun()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert len(held.tool.asked) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


@both_modes
async def test_whoever_cancels_the_tasks_inside_does_not_leave_the_caller_waiting(stream: bool) -> None:
    held = Held()
    running = asyncio.create_task(execute(times(1, "held"), [held.tool], stream=stream))
    await held.begun()
    for task in asyncio.all_tasks() - {asyncio.current_task(), running}:
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


@both_modes
@pytest.mark.fault("K03", "K08")
async def test_batches_at_the_same_time_see_only_their_own_context(stream: bool) -> None:
    manager = ToolCallingManager()
    threads = ToolThreads(4, max_wait=PATIENCE)
    met = asyncio.Barrier(4)

    async def who(_: str, context: ToolContext) -> str:
        await met.wait()
        return f"{context['user']} {context.principal} {context.conversation_id}"

    def who_in_a_thread(context: ToolContext) -> str:
        return f"{context['user']} {context.principal} {context.conversation_id}"

    tools = [HandWrittenTool("who", who), in_thread("who_in_a_thread", who_in_a_thread, threads)]
    batches = await asyncio.gather(
        *(
            execute(
                tool_calls(("who", {}), ("who_in_a_thread", {})),
                tools,
                stream=stream,
                manager=manager,
                tool_context={"user": f"user {n}"},
                principal=f"principal {n}",
                conversation_id=f"conversation {n}",
            )
            for n in range(4)
        )
    )

    assert [batch.texts for batch in batches] == [[f"user {n} principal {n} conversation {n}"] * 2 for n in range(4)]


@dataclass(frozen=True)
class Planned:
    """A call of a random batch."""

    fails: bool
    sequential: bool
    threaded: bool
    steps: int


class Stage:
    """Plays planned calls and checks, as they run, that no rule of concurrency is broken."""

    def __init__(self, plan: list[Planned], cap: int) -> None:
        self.plan = plan
        self.cap = cap
        self.begun: set[int] = set()
        self.ended: set[int] = set()

    def tools(self, threads: ToolThreads) -> Iterable[HandWrittenTool]:
        """A tool for each call, named by its place."""
        for place, planned in enumerate(self.plan):

            async def play(_: str, __: ToolContext, place: int = place, planned: Planned = planned) -> str:
                self.begin(place)
                for _step in range(planned.steps):
                    await asyncio.sleep(0)
                if planned.threaded:
                    await threads.run(lambda: None)
                self.ended.add(place)
                if planned.fails:
                    raise ToolFailed(f"failed at {place}")
                return f"done at {place}"

            yield HandWrittenTool(f"tool_{place}", play, sequential=planned.sequential)

    def begin(self, place: int) -> None:
        """Check what may run beside the call that begins."""
        running = self.begun - self.ended
        assert len(running) < self.cap
        barriers = {n for n, planned in enumerate(self.plan) if planned.sequential}
        assert not running & barriers
        if place in barriers:
            assert self.ended == set(range(place))
        else:
            assert {n for n in barriers if n < place} <= self.ended
        self.begun.add(place)


@pytest.mark.parity(67)
@pytest.mark.fault("L07")
@pytest.mark.parametrize("stream", [False, True], ids=["call", "stream"])
@settings(max_examples=60)
@given(
    plan=st.lists(
        st.builds(Planned, st.booleans(), st.booleans(), st.booleans(), st.integers(0, 3)), min_size=1, max_size=8
    ),
    cap=st.integers(1, 4),
    seed=st.randoms(use_true_random=False),
)
def test_whatever_the_batch_every_call_has_its_result_in_its_place(
    stream: bool, plan: list[Planned], cap: int, seed: random.Random
) -> None:
    stage = Stage(plan, cap)
    message = AssistantMessage("", tuple(ToolCall(f"id {n}", f"tool_{n}", "{}") for n in range(len(plan))))

    async def run() -> Executed:
        tools = list(stage.tools(ToolThreads(8, max_wait=PATIENCE, max_idle=0)))
        seed.shuffle(tools)
        manager = ToolCallingManager(max_concurrency=cap)
        done = await execute(message, tools, stream=stream, manager=manager)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return done

    done = asyncio.run(run())

    assert [result.id for result in done.results] == [f"id {n}" for n in range(len(plan))]
    assert done.failed == [planned.fails for planned in plan]
    assert done.texts == [f"{'failed' if planned.fails else 'done'} at {n}" for n, planned in enumerate(plan)]
    assert [run.id for run in done.execution.tool_runs] == [result.id for result in done.results]
