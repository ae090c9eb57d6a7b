"""Threads for tools: bounded, never in the way of the process's end, and deaf to what nobody waits for any more."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

import pytest

from app.chat import ConfigurationError, ToolError
from app.tooling.threads import ToolThreads, ToolThreadsBusy
from tests.support.gates import PATIENCE, Gate

FOREVER = 1e6
caller: ContextVar[str] = ContextVar("caller", default="nobody")


async def test_a_function_runs_in_a_daemon_thread_and_its_result_comes_back() -> None:
    thread = await ToolThreads().run(threading.current_thread)

    assert thread is not threading.current_thread()
    assert thread.daemon


async def test_what_a_function_raises_comes_back_as_it_is() -> None:
    raised = KeyError("harbour")

    def fail() -> None:
        raise raised

    with pytest.raises(KeyError) as caught:
        await ToolThreads().run(fail)

    assert caught.value is raised


async def test_a_stop_iteration_cannot_end_the_caller_by_mistake() -> None:
    def take_from_an_empty_list() -> int:
        return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await ToolThreads().run(take_from_an_empty_list)


@pytest.mark.parity(134)
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
async def test_what_is_no_exception_reaches_the_caller_and_leaves_the_thread_alive(kind: type[BaseException]) -> None:
    threads = ToolThreads(1)

    def leave() -> None:
        raise kind

    with pytest.raises(kind):
        await threads.run(leave)

    assert await threads.run(lambda: "still here") == "still here"


async def test_threads_are_used_again_before_new_ones_are_started() -> None:
    threads = ToolThreads(8)

    idents = {await threads.run(threading.get_ident) for _ in range(5)}

    assert len(idents) == 1


async def test_no_more_calls_run_at_once_than_there_are_threads() -> None:
    threads, gate = ToolThreads(2, max_wait=FOREVER), Gate()
    running = [asyncio.create_task(threads.run(gate)) for _ in range(5)]
    await gate.arrivals(2)

    assert threads.busy == 2
    assert not any(task.done() for task in running)

    gate.open()
    await asyncio.gather(*running)
    assert threads.busy == 0


async def test_a_call_that_waits_gets_the_first_thread_that_is_free() -> None:
    threads, gate = ToolThreads(1, max_wait=FOREVER), Gate()
    first = asyncio.create_task(threads.run(gate))
    await gate.arrivals()
    second = asyncio.create_task(threads.run(lambda: "second"))
    await asyncio.sleep(0)

    gate.open()

    assert await second == "second"
    await first


async def test_a_call_that_got_its_thread_in_time_may_run_longer_than_calls_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, first_gate, second_gate = ToolThreads(1), Gate(), Gate()
    time_is_up: list[Callable[[], None]] = []
    loop = asyncio.get_running_loop()

    def call_later(_: float, callback: Callable[..., None], *arguments: object) -> asyncio.TimerHandle:
        time_is_up.append(partial(callback, *arguments))
        return asyncio.TimerHandle(0, callback, arguments, loop)

    monkeypatch.setattr(loop, "call_later", call_later)
    first = asyncio.create_task(threads.run(first_gate))
    await first_gate.arrivals()
    second = asyncio.create_task(threads.run(second_gate))
    await asyncio.sleep(0)
    first_gate.open()
    await second_gate.arrivals()

    time_is_up[0]()
    second_gate.open()

    await asyncio.gather(first, second)
    assert len(time_is_up) == 1


@pytest.mark.fault("K04")
async def test_each_call_sees_its_own_context_though_there_are_fewer_threads_than_calls() -> None:
    threads = ToolThreads(2, max_wait=FOREVER)

    async def ask_as(name: str) -> str:
        caller.set(name)
        return await threads.run(caller.get)

    names = [f"caller {number}" for number in range(20)]
    assert await asyncio.gather(*(ask_as(name) for name in names)) == names


@pytest.mark.fault("K04")
async def test_what_a_call_sets_in_its_context_is_gone_for_the_next_on_its_thread() -> None:
    threads = ToolThreads(1)

    await threads.run(lambda: caller.set("a guest"))

    assert await threads.run(caller.get) == "nobody"
    assert caller.get() == "nobody"


@pytest.mark.fault("D12")
async def test_a_call_is_refused_when_every_thread_is_taken_and_is_not_run_later_either() -> None:
    threads, gate, runs = ToolThreads(1, max_wait=0), Gate(), []
    blocked = asyncio.create_task(threads.run(gate))
    await gate.arrivals()

    with pytest.raises(ToolThreadsBusy, match="all 1 threads for tools are busy") as refused:
        await threads.run(lambda: runs.append("ran"))

    assert isinstance(refused.value, ToolError)
    gate.open()
    await blocked
    assert await threads.run(lambda: "free again") == "free again"
    assert runs == []


@pytest.mark.fault("D12")
async def test_timed_out_calls_keep_their_threads_and_later_ones_are_refused_instead_of_piling_up() -> None:
    threads, gate = ToolThreads(3, max_wait=0), Gate()
    calls = [asyncio.create_task(threads.run(gate)) for _ in range(50)]
    hanging, others = calls[:3], calls[3:]
    await gate.arrivals(3)
    refused = await asyncio.gather(*others, return_exceptions=True)
    for call in hanging:
        call.cancel()
    await asyncio.wait(hanging)

    assert {type(end) for end in refused} == {ToolThreadsBusy}
    assert all(call.cancelled() for call in hanging)
    assert threads.busy == 3
    gate.open()


@pytest.mark.fault("D12")
async def test_the_late_failure_of_an_abandoned_call_is_dropped_without_a_word() -> None:
    threads, gate = ToolThreads(1), Gate()
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))

    def fail_late() -> None:
        gate()
        raise ValueError("too late")

    call = asyncio.create_task(threads.run(fail_late))
    await gate.arrivals()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    gate.open()
    await threads.run(lambda: None)
    gc.collect()

    assert unhandled == []


async def test_a_call_abandoned_while_it_waits_is_never_begun() -> None:
    threads, gate, runs = ToolThreads(1, max_wait=FOREVER), Gate(), []
    blocked = asyncio.create_task(threads.run(gate))
    await gate.arrivals()
    waiting = asyncio.create_task(threads.run(lambda: runs.append("ran")))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open()
    await blocked
    await threads.run(lambda: None)

    assert runs == []


@pytest.mark.fault("K06")
def test_one_pool_serves_several_event_loops_and_outlives_a_closed_one() -> None:
    threads = ToolThreads(1, max_wait=FOREVER)

    async def leave_a_call_behind() -> Gate:
        gate = Gate()
        call = asyncio.create_task(threads.run(gate))
        await gate.arrivals()
        call.cancel()
        return gate

    async def answer() -> str:
        return await threads.run(lambda: "answered")

    gate = asyncio.run(leave_a_call_behind())
    gate.open()

    assert asyncio.run(answer()) == "answered"


async def test_a_call_that_is_freed_while_another_is_queued_does_not_wait_for_itself() -> None:
    threads = ToolThreads(1)
    abandoned = threads.run(lambda: None)
    abandoned.send(None)

    def free() -> None:
        with threads._work_or_idle:  # as a search for garbage may do at any moment
            abandoned.close()

    freeing = threading.Thread(target=free, daemon=True)
    freeing.start()
    await asyncio.to_thread(freeing.join, PATIENCE)

    assert not freeing.is_alive()


async def test_a_thread_without_work_ends_and_the_next_call_gets_another() -> None:
    threads = ToolThreads(1, max_idle=0)

    thread = await threads.run(threading.current_thread)
    await asyncio.to_thread(thread.join, PATIENCE)

    assert not thread.is_alive()
    assert await threads.run(lambda: "another") == "another"


async def test_where_no_thread_can_be_started_the_call_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, runs = ToolThreads(), []

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(ToolThreadsBusy, match="no thread could be started"):
            await threads.run(lambda: runs.append("ran"))

    assert await threads.run(lambda: "started") == "started"
    assert runs == []


def test_a_tool_that_blocks_for_ever_does_not_keep_the_process_alive() -> None:
    script = """
import asyncio, threading
from app.tooling.threads import ToolThreads

async def main():
    try:
        await asyncio.wait_for(ToolThreads().run(threading.Event().wait), 0.01)
    except TimeoutError:
        print("left")

asyncio.run(main())
"""
    ended = subprocess.run(  # noqa: S603 - our own interpreter, and the script above
        [sys.executable, "-c", script], timeout=60, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")


def test_a_pool_without_threads_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="max_threads is 0"):
        ToolThreads(0)
