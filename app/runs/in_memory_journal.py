"""A journal in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from itertools import count

from app.runs.errors import EventsGone
from app.runs.journal import Entry, RunEnd, RunEvent, Span
from app.runs.sizes import size_of

_BATCH = 512
"""Entries that a reader is given at once: whoever comes late is not handed megabytes in one piece."""


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """How much of one run is kept.

    Attributes:
        events: entries.
        bytes: what they take, about: their texts in UTF-8, 200 for each entry, and 64 for each item in one.
    """

    events: int = 20_000
    bytes: int = 8 * 1024 * 1024


class InMemoryJournal:
    """A journal in this process. A reader never holds the writer up.

    It keeps no entries but what they are made of, and makes them for those who read.

    Args:
        limits: how much is kept.
    """

    def __init__(self, limits: JournalLimits | None = None) -> None:
        self._limits = limits or JournalLimits()
        self._events: list[RunEvent] = []
        self._rounds: list[int | None] = []
        self._bytes = 0
        self._dropped = 0
        self._ended = False
        self._waiting: set[asyncio.Future[None]] = set()

    async def append(self, round_: int | None, *events: RunEvent) -> None:
        """See `Journal.append`."""
        self._events += events
        self._rounds += [round_] * len(events)
        self._bytes += sum(map(size_of, events))
        if self._bytes > self._limits.bytes or len(self._events) > self._limits.events:
            self._drop()
        self._ended = isinstance(events[-1], RunEnd)
        for reader in self._waiting:
            if not reader.done():
                reader.set_result(None)

    async def span(self) -> Span:
        """See `Journal.span`."""
        return Span(self._dropped + 1, self._dropped + len(self._events))

    def entries(self, after: int, limit: int) -> Sequence[Entry]:
        """Entries with a number above `after` that are there, the oldest first, `limit` at most."""
        start = max(after - self._dropped, 0)
        rounds, events = self._rounds[start : start + limit], self._events[start : start + limit]
        return list(map(Entry._make, zip(count(self._dropped + start + 1), rounds, events, strict=False)))

    async def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """See `Journal.follow`."""
        while True:
            if after < self._dropped:
                raise EventsGone(self._dropped + 1, after)
            if after < self._dropped + len(self._events):
                batch = self.entries(after, _BATCH)
                after += len(batch)
                yield batch
                if len(batch) == _BATCH:
                    await asyncio.sleep(0)  # others have their turn, though there is more and its reader takes it all
            elif self._ended:
                return
            else:
                more: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.add(more)
                try:
                    await more
                finally:
                    self._waiting.remove(more)

    def _drop(self) -> None:
        """Let the oldest entries go, until what is left is within the limits."""
        too_many = len(self._events) - self._limits.events
        dropped = 0
        while dropped < len(self._events) - 1 and (dropped < too_many or self._bytes > self._limits.bytes):
            self._bytes -= size_of(self._events[dropped])
            dropped += 1
        del self._events[:dropped], self._rounds[:dropped]
        self._dropped += dropped
