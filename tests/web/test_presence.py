"""Work goes on only as long as its caller is there, whatever else a server tells."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from app.web.presence import while_connected
from tests.support.gates import PATIENCE


async def test_more_of_the_body_is_not_taken_for_the_callers_leaving() -> None:
    told: asyncio.Queue[Message] = asyncio.Queue(1)
    working = asyncio.create_task(while_connected(Request({"type": "http"}, told.get), asyncio.Event().wait()))

    async with asyncio.timeout(PATIENCE):
        for _ in range(3):
            await told.put({"type": "http.request", "body": b"", "more_body": False})
        assert not working.done()
        await told.put({"type": "http.disconnect"})
        with pytest.raises(ClientDisconnect):
            await working


async def test_work_that_is_done_is_given_though_the_caller_leaves_at_the_same_moment() -> None:
    left = asyncio.Event()

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    async def work() -> str:
        left.set()
        return "done"

    assert await while_connected(Request({"type": "http"}, receive), work()) == "done"
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_who_is_cancelled_from_outside_is_not_taken_for_left() -> None:
    told: asyncio.Queue[Message] = asyncio.Queue()
    working = asyncio.create_task(while_connected(Request({"type": "http"}, told.get), asyncio.Event().wait()))
    await asyncio.sleep(0)

    working.cancel()

    with pytest.raises(asyncio.CancelledError):
        await working
