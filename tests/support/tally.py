"""A number that grows, and can be waited for."""

from __future__ import annotations

import asyncio


class Tally:
    """Counts what happens."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def add(self) -> None:
        """It happened once more."""
        self.count += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def more(self, times: int) -> None:
        """Wait until it has happened so many more times."""
        count = self.count + times
        while self.count < count:
            await self._changed.wait()
