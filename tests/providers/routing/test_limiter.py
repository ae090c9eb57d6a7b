"""How many calls a target gets at a time, and who waits."""

from __future__ import annotations

import asyncio

import pytest

from app.chat import ModelBusy
from app.providers.routing import Limiter, Limits
from tests.support.gates import PATIENCE


async def settled() -> None:
    """Let all that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_without_a_limit_everyone_is_let_in() -> None:
    limiter = Limiter()

    for _ in range(1000):
        await limiter.enter()

    assert (limiter.active, limiter.waiting, limiter.has_room) == (1000, 0, True)


async def test_who_finds_no_room_waits_and_is_let_in_in_turn() -> None:
    limiter = Limiter(Limits(1, queue=2))
    await limiter.enter()
    turns: list[str] = []

    async def come(name: str) -> None:
        await limiter.enter()
        turns.append(name)

    async with asyncio.TaskGroup() as tasks:
        for name in ("first", "second"):
            tasks.create_task(come(name))
        await settled()
        assert (turns, limiter.waiting, limiter.has_queue) == ([], 2, False)
        limiter.leave()
        await settled()
        assert (turns, limiter.active, limiter.waiting) == (["first"], 1, 1)
        limiter.leave()
        await settled()

    limiter.leave()
    assert (turns, limiter.active, limiter.waiting) == (["first", "second"], 0, 0)


async def test_nobody_overtakes_those_who_wait() -> None:
    limiter = Limiter(Limits(1, queue=2))
    await limiter.enter()
    waiting = asyncio.create_task(limiter.enter())
    await settled()

    limiter.leave()

    assert not limiter.has_room
    await waiting
    assert limiter.active == 1


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back() -> None:
    limiter = Limiter(Limits(1, queue=0))
    await limiter.enter()

    with pytest.raises(ModelBusy, match="1 calls") as caught:
        await limiter.enter()

    assert caught.value.code == "queue_full"
    assert caught.value.retry_after
    assert (limiter.active, limiter.waiting) == (1, 0)


async def test_the_wait_has_an_end() -> None:
    limiter = Limiter(Limits(1, queue=1, patience=0.001))
    await limiter.enter()

    with pytest.raises(ModelBusy, match=r"within 0\.001 s") as caught:
        await limiter.enter()

    assert caught.value.code == "queue_timeout"
    assert (limiter.active, limiter.waiting) == (1, 0)
    limiter.leave()
    assert limiter.active == 0


async def test_who_gives_up_waiting_takes_no_place() -> None:
    limiter = Limiter(Limits(1, queue=2))
    await limiter.enter()
    gone, stays = (asyncio.create_task(limiter.enter()) for _ in range(2))
    await settled()

    gone.cancel()
    limiter.leave()
    await asyncio.wait_for(stays, PATIENCE)

    assert gone.cancelled()
    assert (limiter.active, limiter.waiting) == (1, 0)


async def test_who_is_cancelled_just_when_the_turn_comes_hands_it_on() -> None:
    limiter = Limiter(Limits(1, queue=2))
    await limiter.enter()
    gone, stays = (asyncio.create_task(limiter.enter()) for _ in range(2))
    await settled()

    limiter.leave()
    gone.cancel()
    await asyncio.wait_for(stays, PATIENCE)

    assert gone.cancelled()
    assert (limiter.active, limiter.waiting) == (1, 0)


async def test_no_place_is_lost_in_a_storm_of_cancellations() -> None:
    limiter = Limiter(Limits(3, queue=1000))

    async def visit() -> None:
        await limiter.enter()
        try:
            await asyncio.sleep(0)
        finally:
            limiter.leave()

    visits = [asyncio.create_task(visit()) for _ in range(300)]
    for number, task in enumerate(visits):
        if number % 3:
            task.cancel()
        if number % 7 == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*visits, return_exceptions=True)

    assert (limiter.active, limiter.waiting) == (0, 0)
