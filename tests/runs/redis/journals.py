"""Writing and reading journals in Redis, piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from app.chat import AssistantMessage, ChatResponse, TextDelta
from app.runs import Entry, Journal, RunCompleted, RunEvent
from tests.support.gates import PATIENCE

END = RunCompleted(ChatResponse(AssistantMessage("done")))


def words(first: int, last: int) -> list[Entry]:
    """Entries with these numbers, all different."""
    return [Entry(seq, 1, TextDelta(str(seq))) for seq in range(first, last + 1)]


def ended(seq: int, event: RunEvent = END) -> list[Entry]:
    """The last entry."""
    return [Entry(seq, 1, event)]


async def read(journal: Journal, after: int = 0) -> list[int]:
    """The numbers of the entries, to the end."""
    async with asyncio.timeout(PATIENCE):
        return [entry.seq async for batch in journal.follow(after) for entry in batch]


class Follower:
    """One who reads a journal as it is written.

    Attributes:
        seen: the numbers of what it was shown.
    """

    def __init__(self, journal: Journal, after: int = 0) -> None:
        self.seen: list[int] = []
        self._more = asyncio.Condition()
        self._task = asyncio.create_task(self._follow(journal, after))

    async def until(self, seq: int) -> None:
        """Wait until it has seen an entry."""
        async with asyncio.timeout(PATIENCE), self._more:
            await self._more.wait_for(lambda: seq in self.seen or self._task.done())
        assert seq in self.seen, self.seen

    async def rest(self) -> Sequence[int]:
        """Wait for its end. Returns the numbers of all that it has seen.

        Raises:
            Exception: what it ended with.
        """
        async with asyncio.timeout(PATIENCE):
            await self._task
        return self.seen

    async def leave(self) -> None:
        """Go away."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _follow(self, journal: Journal, after: int) -> None:
        try:
            async with aclosing(journal.follow(after)) as batches:
                async for batch in batches:
                    self.seen += [entry.seq for entry in batch]
                    async with self._more:
                        self._more.notify_all()
        finally:
            async with self._more:
                self._more.notify_all()
