"""Work that goes on only as long as its caller is there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")


async def while_connected(request: Request, work: asyncio.Future[T] | Coroutine[Any, Any, T]) -> T:
    """The result of the work. When the caller goes away it is cancelled, and its clean-up waited for.

    The calling task listens to the caller meanwhile, so that a future needs no task at all.

    Args:
        request: its body has been read.
        work: what is done for it.

    Raises:
        ClientDisconnect: the caller went away.
        Exception: what the work raised.
    """
    working = asyncio.ensure_future(work)
    try:
        await _listen(request, working)
    except BaseException as error:
        working.cancel()
        await asyncio.wait([working])
        if working.cancelled() or not isinstance(error, ClientDisconnect):
            raise
    try:
        return working.result()
    finally:
        del working  # it holds the error that it raised, and the error would hold it


async def _listen(request: Request, working: asyncio.Future[Any]) -> None:
    """Listen to the caller until the work is done, which interrupts this task as `asyncio.timeout` does."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a caller is listened to in a task")
    cancelled_before = task.cancelling()
    is_listening, is_interrupted = True, False

    def interrupt(_: asyncio.Future[Any]) -> None:
        nonlocal is_interrupted
        if is_listening:
            is_interrupted = True
            task.cancel()

    working.add_done_callback(interrupt)
    try:
        while not working.done():
            if (await request.receive())["type"] == "http.disconnect":
                raise ClientDisconnect
    except asyncio.CancelledError:
        if not is_interrupted or task.cancelling() - 1 > cancelled_before:
            raise
    finally:
        is_listening = False
        working.remove_done_callback(interrupt)
        if is_interrupted:
            task.uncancel()
