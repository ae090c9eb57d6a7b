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
        work: what is done for it.

    Raises:
        ClientDisconnect: the caller went away.
        Exception: what the work raised.
    """
    doing = asyncio.create_task(work)
    watching = asyncio.create_task(_disconnect(request))
    try:
        await asyncio.wait({doing, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        doing.cancel()  # does nothing to what is done
        watching.cancel()
        await asyncio.wait({doing, watching})
    if doing.cancelled():
        raise ClientDisconnect
    return doing.result()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
