"""The end of all runs: new ones are refused, those that are going may end, and what does not is ended."""

from __future__ import annotations

import asyncio

import pytest

from app.client import ChatClient
from app.providers.scripted import ScriptedModel
from app.runs import (
    Escaped,
    Runs,
    ShuttingDown,
)
from tests.support.chains import request_of
from tests.support.hesitant import Hesitant

# --- runs


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


async def test_draining_an_idle_gateway_returns_at_once() -> None:
    await Runs(ChatClient(ScriptedModel())).drain(timeout=60)


# --- other work


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
