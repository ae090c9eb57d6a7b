"""Work that goes on only as long as its caller is there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work. When the caller goes away it is cancelled, and its clean-up waited for.

    Args:
        request: its body has been read.
        work: what is done for it, in the calling task.

    Raises:
        ClientDisconnect: the caller went away.
        Exception: what the work raised.
    """
    with _Presence(request):
        return await work


class _Presence:
    """Cancels the task that is in it when the caller goes away, as `asyncio.timeout` does when time is up."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._has_left = False
        self._is_over = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a caller's presence is watched in a task")
        self._task = task
        self._cancelled_before = task.cancelling()
        self._watching = asyncio.create_task(self._watch())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_over = True
        self._watching.cancel()
        if self._has_left and self._task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise ClientDisconnect from None

    async def _watch(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        if not self._is_over:
            self._has_left = True
            self._task.cancel()
