"""Tools that visit the test and stay, each in its own way, for tests of how the process ends all the same.

A visit is a connection to the test's `Door`: so the test knows that the tool is at work, and can let it go.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from app.tooling import tool


def _stay(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port)) as line:
        return line.recv(100).decode()


@tool(timeout=600)
async def wait(port: int) -> str:
    """Wait as a tool should: cancelled, it ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return (await reader.read(100)).decode()
    finally:
        writer.close()


@tool(timeout=600)
def hang(port: int) -> str:
    """Hang in a thread of the gateway."""
    return _stay(port)


@tool(timeout=600)
async def stall(port: int) -> str:
    """Stall in a thread that the tool has begun itself, which the interpreter waits for."""
    return await asyncio.to_thread(_stay, port)


@tool(timeout=600)
async def ignore(port: int) -> str:
    """Ignore that nobody wants it any more."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    while not writer.is_closing():
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
    return "never"


@tool(timeout=600)
async def block(port: int) -> str:
    """Block the event loop, and the whole gateway with it."""
    return _stay(port)
