"""Waiting for what another thread does, and making it wait, without sleeping."""

from __future__ import annotations

import asyncio
import threading

PATIENCE = 30.0
"""Seconds after which a test that waits for something gives up."""


class Gate:
    """Holds up the threads that call it until it is opened. Made in the event loop that watches it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrivals = asyncio.Semaphore(0)
        self._opened = threading.Event()

    def __call__(self) -> None:
        """Wait at the gate."""
        self._loop.call_soon_threadsafe(self._arrivals.release)
        if not self._opened.wait(PATIENCE):
            raise TimeoutError("nobody opened the gate")

    async def arrivals(self, count: int = 1) -> None:
        """Wait until so many more threads have come to the gate."""
        async with asyncio.timeout(PATIENCE):
            for _ in range(count):
                await self._arrivals.acquire()

    def open(self) -> None:
        """Let everyone through, now and later."""
        self._opened.set()
