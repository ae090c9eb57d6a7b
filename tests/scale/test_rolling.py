"""New replicas in place of the old ones, under load: who comes back gets its whole answer, once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from tests.scale.caller import Caller, Script
from tests.scale.conftest import Tell
from tests.scale.stack import Stack, command, docker

pytestmark = [pytest.mark.scale, pytest.mark.server]

STREAMS = 50


async def test_fifty_streams_while_each_replica_is_restarted(stack: Stack, tell: Tell) -> None:
    async def restart() -> None:
        for replica in await stack.replicas():
            await docker("restart", replica.id)
            await stack.settled()

    await _told_all(stack, tell, restart)


async def test_fifty_streams_while_each_replica_is_replaced(stack: Stack, tell: Tell) -> None:
    before = {replica.id for replica in await stack.replicas()}

    async def roll() -> None:
        await command("deploy/roll")

    await _told_all(stack, tell, roll)

    assert before.isdisjoint(replica.id for replica in await stack.replicas())


async def _told_all(stack: Stack, tell: Tell, roll: Callable[[], Awaitable[None]]) -> None:
    """Fifty streams are open all the time; each caller begins the next one when it has its answer."""
    callers = [_caller(stack.proxy, number) for number in range(STREAMS)]
    is_over = asyncio.Event()

    async def call(number: int) -> None:
        await callers[number].hear()
        while not is_over.is_set():
            callers.append(caller := _caller(stack.proxy, number))
            await caller.hear()

    async with asyncio.TaskGroup() as group:
        for number in range(STREAMS):
            group.create_task(call(number))
        for caller in callers[:STREAMS]:
            await caller.has(5)
        began = time.monotonic()
        await roll()
        took = time.monotonic() - began
        is_over.set()

    for caller in callers:
        caller.assert_whole()
        assert await stack.calls(caller.script.name) == caller.script.calls
    told = sum((caller.told for caller in callers), Counter[str]())
    cuts = sum(caller.cuts for caller in callers)
    tell(f"took {took:.0f} s; {len(callers)} answers, all whole; lines cut: {cuts}; told to ask again: {dict(told)}")


def _caller(url: str, number: int) -> Caller:
    """Every second one reads its run from wherever it comes to, which may be the other replica."""
    return Caller(url, Script(words=60 + number, tool=number % 5 == 0), leaves=number % 2 == 0)
