"""Tools that cannot be stopped, for tests of how the process ends all the same."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from app.tooling import tool

_NEVER = threading.Event()


@tool(timeout=600)
def hang() -> str:
    """Hang in a thread of the gateway."""
    _NEVER.wait()
    return "never"


@tool(timeout=600)
async def ignore() -> str:
    """Ignore that nobody wants it any more."""
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()


@tool(timeout=600)
async def stall() -> str:
    """Stall in a thread that the tool has begun itself, which the interpreter waits for."""
    await asyncio.to_thread(_NEVER.wait)
    return "never"
