"""The alarm ends waits as a time-out does, with one timer for many of them."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar
from typing import TypeVar

import pytest

from app.providers.clock import Alarm, Alarms
from tests.support.gates import PATIENCE
from tests.support.loop_time import LoopTime

T = TypeVar("T")


async def wait(alarm: Alarm, begin: Callable[[], Awaitable[T]], moment: float | None) -> T:
    with alarm.at(moment):
        return await begin()


def soon(seconds: float) -> float:
    """The moment so many seconds from now."""
    return asyncio.get_running_loop().time() + seconds


async def for_ever() -> None:
    await asyncio.Event().wait()


async def at_once() -> str:
    return "done"


@pytest.mark.parametrize("first", [10.0, 1000.0], ids=["earlier", "later"])
async def test_a_wait_ends_at_its_own_time_whatever_the_time_of_the_one_before(
    first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, alarm = LoopTime(monkeypatch), Alarm()
    assert await wait(alarm, at_once, soon(first)) == "done"
    waiting = asyncio.ensure_future(wait(alarm, for_ever, soon(100)))

    await time.passes(99)
    assert not waiting.done()
    await time.passes(1.1)
    with pytest.raises(TimeoutError):
        await waiting


async def test_a_wait_without_an_end_goes_on_when_the_timer_of_an_earlier_one_goes_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time, alarm, go_on = LoopTime(monkeypatch), Alarm(), asyncio.Event()
    await wait(alarm, at_once, soon(1))
    waiting = asyncio.ensure_future(wait(alarm, go_on.wait, None))

    await time.passes(5)
    go_on.set()

    assert await waiting is True


async def test_between_two_waits_nobody_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    time, alarm = LoopTime(monkeypatch), Alarm()
    await wait(alarm, at_once, soon(1))
    await time.passes(5)

    assert await wait(alarm, at_once, soon(1)) == "done"


async def test_what_is_over_before_it_begins_is_not_begun() -> None:
    begun = False

    async def begin() -> None:
        nonlocal begun
        begun = True

    with pytest.raises(TimeoutError):
        await wait(Alarm(), begin, soon(0))

    assert not begun


async def test_a_cancellation_from_outside_is_no_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    time, alarm = LoopTime(monkeypatch), Alarm()
    waiting = asyncio.ensure_future(wait(alarm, for_ever, soon(1)))
    await time.passes(0)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_time_out_together_with_a_cancellation_from_outside_is_a_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time, alarm = LoopTime(monkeypatch), Alarm()

    async def cancelled_too() -> None:
        try:
            await for_ever()
        finally:
            waiting.cancel()

    waiting = asyncio.ensure_future(wait(alarm, cancelled_too, soon(1)))
    await time.passes(1.1)

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_what_ends_all_the_same_when_its_time_is_over_has_ended_and_its_task_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time, alarm = LoopTime(monkeypatch), Alarm()

    async def stubborn() -> str:
        try:
            await for_ever()
        except asyncio.CancelledError:
            return "done"
        raise AssertionError("it waits for ever")

    async def work() -> tuple[str, int]:
        given = await wait(alarm, stubborn, soon(1))
        task = asyncio.current_task()
        assert task is not None
        return given, task.cancelling()

    working = asyncio.ensure_future(work())
    await time.passes(1.1)

    assert await working == ("done", 0)


@pytest.fixture
async def set_timers(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.TimerHandle]:
    """The timers that were set in the running loop."""
    timers: list[asyncio.TimerHandle] = []
    loop = asyncio.get_running_loop()
    call_at = loop.call_at

    def noted(moment: float, ring: Callable[[], None], *, context: Context) -> asyncio.TimerHandle:
        timers.append(call_at(moment, ring, context=context))
        return timers[-1]

    monkeypatch.setattr(loop, "call_at", noted)
    return timers


async def test_an_alarm_that_is_closed_leaves_no_timer(set_timers: list[asyncio.TimerHandle]) -> None:
    alarm = Alarm()
    for _ in range(3):
        await wait(alarm, at_once, soon(PATIENCE))
    alarm.close()

    assert [timer.cancelled() for timer in set_timers] == [True]


async def test_calls_one_after_the_other_have_one_timer_until_no_more_are_made(
    set_timers: list[asyncio.TimerHandle],
) -> None:
    alarms = Alarms()
    for _ in range(3):
        alarm = alarms.lent()
        await wait(alarm, at_once, soon(PATIENCE))
        alarms.back(alarm)
    assert [timer.cancelled() for timer in set_timers] == [False]

    alarms.close()

    assert [timer.cancelled() for timer in set_timers] == [True]


async def test_calls_at_the_same_time_have_an_alarm_each(monkeypatch: pytest.MonkeyPatch) -> None:
    time, alarms = LoopTime(monkeypatch), Alarms()
    short, long = (asyncio.ensure_future(wait(alarms.lent(), for_ever, soon(seconds))) for seconds in (1, 100))

    await time.passes(2)

    with pytest.raises(TimeoutError):
        await short
    assert not long.done()
    long.cancel()


def test_an_alarm_is_lent_to_its_own_loop_only() -> None:
    alarms = Alarms()

    async def waited() -> Alarm:
        alarm = alarms.lent()
        await wait(alarm, at_once, soon(PATIENCE))
        alarms.back(alarm)
        return alarm

    assert asyncio.run(waited()) is not asyncio.run(waited())


async def test_a_timer_keeps_nothing_of_the_call_that_set_it() -> None:
    class Request:
        """Something that a call's context holds."""

    of_call: ContextVar[Request] = ContextVar("of_call")
    alarm = Alarm()

    async def call() -> weakref.ref[Request]:
        request = Request()
        of_call.set(request)
        await wait(alarm, at_once, soon(PATIENCE))
        return weakref.ref(request)

    request = await asyncio.ensure_future(call())
    await asyncio.sleep(0)  # what ran the task lets go of it

    assert request() is None
    alarm.close()


async def test_only_a_task_can_wait() -> None:
    alarm, told = Alarm(), asyncio.get_running_loop().create_future()

    def enter() -> None:
        with pytest.raises(RuntimeError, match="only tasks"), alarm.at(None):
            raise AssertionError("it was let in")
        told.set_result(None)

    asyncio.get_running_loop().call_soon(enter)
    await told
