"""Work goes on only as long as its caller is there, whatever else a server tells."""

from __future__ import annotations

import asyncio
from contextlib import suppress

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


async def test_who_is_cancelled_as_the_work_ends_is_cancelled() -> None:
    told: asyncio.Queue[Message] = asyncio.Queue()
    work: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    working = asyncio.create_task(while_connected(Request({"type": "http"}, told.get), work))
    await asyncio.sleep(0)

    work.set_result("done")
    await asyncio.sleep(0)  # it is interrupted
    working.cancel()

    with pytest.raises(asyncio.CancelledError):
        await working


async def test_a_server_that_overhears_the_interruption_does_not_lose_the_result() -> None:
    listening = asyncio.Event()

    async def receive() -> Message:
        listening.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def work() -> str:
        await listening.wait()
        return "done"

    assert await while_connected(Request({"type": "http"}, receive), work()) == "done"
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_what_the_work_raises_is_raised() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await while_connected(Request({"type": "http"}, asyncio.Queue[Message]().get), fail())


async def test_the_clean_up_is_waited_for_and_counts_when_it_fails() -> None:
    told: asyncio.Queue[Message] = asyncio.Queue()

    async def clean_up_badly() -> None:
        try:
            told.put_nowait({"type": "http.disconnect"})
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await while_connected(Request({"type": "http"}, told.get), clean_up_badly())


async def test_for_what_is_done_already_nobody_is_listened_to() -> None:
    async def receive() -> Message:
        raise AssertionError("nothing is received")

    work: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    work.set_result("done")

    assert await while_connected(Request({"type": "http"}, receive), work) == "done"
