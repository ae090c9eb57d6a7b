"""Something that happens once, for those who wait for it by something else than a coroutine of their own."""

from __future__ import annotations

import asyncio


class Once:
    """An event that is waited for by futures: a task can wait for one of them, and be called back, without another."""

    def __init__(self) -> None:
        self._has_happened = False
        self._waiting: set[asyncio.Future[None]] = set()

    def happen(self) -> None:
        """Tell all who wait. Harmless when it has happened."""
        self._has_happened = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def happened(self) -> asyncio.Future[None]:
        """Done when it has happened. Made for whoever asks, who may cancel it."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._has_happened:
            waiting.set_result(None)
        else:
            self._waiting.add(waiting)
            waiting.add_done_callback(self._waiting.discard)
        return waiting
