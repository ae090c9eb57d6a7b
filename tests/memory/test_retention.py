"""Conversations that nobody adds to are forgotten while the gateway runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.memory import InMemoryChatMemory, MemoryUnavailable
from app.memory.retention import forget_old
from tests.memory.histories import plain_turn
from tests.support.gates import PATIENCE

DAY = timedelta(days=1)


class Aging(InMemoryChatMemory):
    """A store whose conversations can be made older, and which fails as often as it is told."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self._failures = list(failures)
        self.pruned = asyncio.Semaphore(0)

    async def add(self, name: str, age: timedelta) -> None:
        await self.append(name, plain_turn(1))
        kept = await self.read(name)
        assert await self.replace(kept, replace(kept, updated_at=kept.updated_at - age))

    async def prune(self, before: datetime) -> int:
        self.pruned.release()
        if self._failures:
            raise self._failures.pop(0)
        return await super().prune(before)

    async def looks(self, count: int) -> None:
        """Wait for so many more looks, and for what follows the last one."""
        for _ in range(count):
            await asyncio.wait_for(self.pruned.acquire(), PATIENCE)
        await asyncio.sleep(0)


@asynccontextmanager
async def sweeping(memory: Aging, keep: timedelta = DAY) -> AsyncIterator[None]:
    task = asyncio.create_task(forget_old(memory, keep, every=0.001))
    yield
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_old_conversations_are_forgotten_at_the_start_and_later_on(caplog: pytest.LogCaptureFixture) -> None:
    memory = Aging()
    await memory.add("old", 2 * DAY)
    await memory.add("young", DAY / 2)
    with caplog.at_level(logging.INFO):
        async with sweeping(memory):
            await memory.looks(1)
            assert await memory.conversation_ids() == ("young",)
            await memory.add("older", 3 * DAY)
            await memory.looks(2)
            assert await memory.conversation_ids() == ("young",)

    assert caplog.messages == ["forgot 1 conversations that nobody added to for 1 day, 0:00:00"] * 2


async def test_a_store_that_cannot_be_asked_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    memory = Aging(MemoryUnavailable("down"), ZeroDivisionError())
    await memory.add("old", 2 * DAY)
    async with sweeping(memory):
        await memory.looks(3)

    assert await memory.conversation_ids() == ()
    warned, failed = caplog.records[:2]
    assert (warned.levelno, warned.exc_info) == (logging.WARNING, None)
    assert failed.levelno == logging.ERROR
    assert failed.exc_info


async def test_nobody_who_is_as_old_as_may_be_is_forgotten() -> None:
    memory = Aging()
    moment = datetime.now(UTC)
    await memory.append("barley", plain_turn(1))
    kept = await memory.read("barley")
    assert await memory.replace(kept, replace(kept, updated_at=moment))

    assert await memory.prune(moment) == 0
    assert await memory.prune(moment + timedelta(microseconds=1)) == 1
