"""A journal in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from app.chat import (
    ChatResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallErrored,
    ToolCallReady,
    ToolCallSucceeded,
)
from app.runs.errors import EventsGone
from app.runs.journal import Entry, RunCancelled, RunCompleted, RunEnd, RunEvent, RunFailed, Span

_BATCH = 512
"""Entries that a reader is given at once: whoever comes late is not handed megabytes in one piece."""

_OVERHEAD = 200
"""Bytes that an entry takes beside its text."""


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """How much of one run is kept.

    Attributes:
        events: entries.
        bytes: of their texts in UTF-8, and about 200 for each entry.
    """

    events: int = 20_000
    bytes: int = 8 * 1024 * 1024


class InMemoryJournal:
    """A journal in this process. A reader never holds the writer up.

    Args:
        limits: how much is kept.
    """

    def __init__(self, limits: JournalLimits | None = None) -> None:
        self._limits = limits or JournalLimits()
        self._entries: list[Entry] = []
        self._sizes: list[int] = []
        self._bytes = 0
        self._dropped = 0
        self._ended = False
        self._waiting: list[asyncio.Future[None]] = []

    async def append(self, round_: int | None, event: RunEvent) -> None:
        """See `Journal.append`."""
        size = _OVERHEAD + _size(event)
        self._entries.append(Entry(self._dropped + len(self._entries) + 1, round_, event))
        self._sizes.append(size)
        self._bytes += size
        self._drop()
        self._ended = isinstance(event, RunEnd)
        waiting, self._waiting = self._waiting, []
        for reader in waiting:
            if not reader.done():
                reader.set_result(None)

    async def span(self) -> Span:
        """See `Journal.span`."""
        return Span(self._dropped + 1, self._dropped + len(self._entries))

    def entries(self, after: int, limit: int) -> Sequence[Entry]:
        """Entries with a number above `after` that are there, the oldest first, `limit` at most."""
        start = max(after - self._dropped, 0)
        return self._entries[start : start + limit]

    async def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """See `Journal.follow`."""
        while True:
            if after < self._dropped:
                raise EventsGone(f"events up to {self._dropped} are no longer kept, and this reader had {after}")
            if batch := self.entries(after, _BATCH):
                after += len(batch)
                yield batch
            elif self._ended:
                return
            else:
                more: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(more)
                await more

    def _drop(self) -> None:
        """Let the oldest entries go, until what is left is within the limits."""
        too_many = len(self._entries) - self._limits.events
        dropped = 0
        while dropped < len(self._entries) - 1 and (dropped < too_many or self._bytes > self._limits.bytes):
            self._bytes -= self._sizes[dropped]
            dropped += 1
        if dropped:
            del self._entries[:dropped], self._sizes[:dropped]
            self._dropped += dropped


def _size(event: RunEvent) -> int:
    """Bytes of an event's texts."""
    match event:
        case TextDelta(text) | ReasoningDelta(text) | ToolCallArguments(_, _, text):
            return _utf8(text)
        case ToolCallReady(call):
            return _utf8(call.arguments)
        case ToolCallSucceeded(_, _, text) | ToolCallErrored(_, _, text):
            return _utf8(text)
        case RunCompleted(response) | RunCancelled(response):
            return _answer_size(response)
        case RunFailed(error):
            return _utf8(str(error))
        case _:
            return 0


def _answer_size(response: ChatResponse) -> int:
    runs = sum(_utf8(run.arguments) + _utf8(run.result or run.error or "") for run in response.tool_runs)
    return _utf8(response.content) + _utf8(response.message.reasoning or "") + runs


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
