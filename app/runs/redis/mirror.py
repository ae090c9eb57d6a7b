"""A journal of this process that is copied to Redis."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress

from app.runs.errors import RunLost, SharedStateUnavailable
from app.runs.in_memory_journal import InMemoryJournal
from app.runs.journal import Entry, RunEnd, RunEvent, RunFailed, Span
from app.runs.redis.journal import PAUSE, EntryTaken, RedisJournal

_BATCH = 256
"""Entries that are written at once."""

_FAREWELL = 0.5
"""Seconds that the end of a run may take to be written, before its readers are told all the same."""


class MirroredJournal:
    """A journal of this process whose entries are in Redis before its readers see them. See `Journal`.

    So a reader who comes back to another replica finds there all that it was shown here. While Redis does not answer,
    readers here are shown entries all the same, and what Redis lacks is written when it answers again.

    Args:
        own: what readers of this process follow.
        far: the journal in Redis.
        taken: called when somebody else has written the run's next entry: the run was taken for lost.
        attached: whether Redis is thought to answer.
    """

    def __init__(self, own: InMemoryJournal, far: RedisJournal, taken: Callable[[], None], *, attached: bool) -> None:
        self._own = own
        self._far = far
        self._taken = taken
        self._shown = 0
        self._pending: deque[tuple[int | None, RunEvent]] = deque()
        self._writing: list[Entry] = []
        self._items: deque[int] = deque()
        self._more = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_attached = attached
        self._is_cut = False
        self._task = asyncio.create_task(self._mirror())

    async def append(self, round_: int | None, event: RunEvent) -> None:
        """See `Journal.append`. The end is waited for until it is in Redis, for a short while."""
        self._pending.append((round_, event))
        self._more.set()
        if self._is_attached and isinstance(event, RunEnd):
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL):
                    await self._ended.wait()
            if not self._ended.is_set():
                self._is_attached = False
        if not self._is_attached:
            await self._show_all()

    async def span(self) -> Span:
        """See `Journal.span`."""
        return await self._own.span()

    def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """See `Journal.follow`."""
        return self._own.follow(after)

    @property
    def is_settled(self) -> bool:
        """Whether all is in Redis that will be."""
        return self._task.done()

    async def settled(self, timeout: float) -> None:
        """Until all is in Redis, or `timeout` seconds have passed; then it is given up."""
        await asyncio.wait([self._task], timeout=timeout)
        self._task.cancel()

    async def _mirror(self) -> None:
        while not self._is_cut and not (self._ended.is_set() and self._is_attached):
            if self._is_attached:
                await self._more.wait()
                self._more.clear()
                while self._pending and self._is_attached:
                    await self._write_next()
            else:
                await self._catch_up()

    async def _write_next(self) -> None:
        while self._pending and len(self._writing) < _BATCH:
            round_, event = self._pending.popleft()
            self._writing.append(Entry(self._shown + len(self._writing) + 1, round_, event))
        try:
            await self._write(self._writing)
        except SharedStateUnavailable:
            self._is_attached = False
        except EntryTaken:
            await self._cut()
            return
        if self._is_attached:
            await self._show_written()
        else:
            await self._show_all()

    async def _write(self, entries: Sequence[Entry]) -> None:
        first, _ = await self._own.span()
        while len(self._items) > 1 and self._items[1] <= first:
            self._items.popleft()
        kept = self._items[0] if self._items and first > 1 else None
        await self._far.write(entries, first_kept=kept)
        self._items.append(entries[0].seq)

    async def _show_written(self) -> None:
        written, self._writing = self._writing, []
        for entry in written:
            await self._show(entry.round, entry.event)

    async def _show_all(self) -> None:
        await self._show_written()
        while self._pending:
            await self._show(*self._pending.popleft())

    async def _show(self, round_: int | None, event: RunEvent) -> None:
        self._shown += 1
        await self._own.append(round_, event)
        if isinstance(event, RunEnd):
            self._ended.set()

    async def _catch_up(self) -> None:
        """Write to Redis what was shown without it, and go on as before when nothing is left."""
        await self._show_all()
        try:
            last = await self._far.last()
            if last is not None and _is_loss(last):
                await self._cut()
                return
            missing = self._own.entries(0 if last is None else last.seq, _BATCH)
            if missing:
                await self._write(missing)
            elif not self._pending:
                self._is_attached = True
        except SharedStateUnavailable:
            await asyncio.sleep(PAUSE)
        except EntryTaken:
            return  # the next look tells who has written it

    async def _cut(self) -> None:
        """Somebody has written the end of this run: what it says from now on is not told to anybody."""
        self._is_cut = True
        self._is_attached = False
        self._writing.clear()
        self._pending.clear()
        self._taken()


def _is_loss(entry: Entry) -> bool:
    return isinstance(entry.event, RunFailed) and isinstance(entry.event.error, RunLost)
