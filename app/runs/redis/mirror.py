"""A journal of this process that is copied to Redis."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from itertools import islice

from app.runs.errors import RunLost, SharedStateUnavailable
from app.runs.in_memory_journal import InMemoryJournal
from app.runs.journal import Entry, RunEnd, RunEvent, RunFailed, Span
from app.runs.redis.connection import PAUSE
from app.runs.redis.journal import EntryTaken, Item, RedisJournal

logger = logging.getLogger(__name__)

_BATCH = 32
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
        taken: called with why when others have ended the run, which they took for lost.
        attached: whether Redis is thought to answer.
    """

    def __init__(
        self, own: InMemoryJournal, far: RedisJournal, taken: Callable[[Exception], None], *, attached: bool
    ) -> None:
        self._own = own
        self._far = far
        self._taken = taken
        self._shown = 0
        self._pending: deque[tuple[int | None, RunEvent]] = deque()
        self._items: deque[int] = deque()
        self._more = asyncio.Event()
        self._ended = asyncio.Event()
        self._doubted = asyncio.Event()
        self._verdict = asyncio.Event()
        self._verdict.set()
        self._is_sure = attached
        """Whether Redis is thought to have what is shown, and nothing else."""
        self._is_detached = not attached
        """Whether entries are shown though Redis may not have them."""
        self._loss: RunLost | None = None
        self._task: asyncio.Task[None] | None = None
        self.has_end = False
        """Whether the end was appended, though it may not be anywhere yet."""

    async def append(self, round_: int | None, *events: RunEvent) -> None:
        """See `Journal.append`. The end is waited for until it is in Redis, for a short while."""
        if self._loss is not None:
            return  # the run has its end
        self.has_end = isinstance(events[-1], RunEnd)
        self._pending.extend((round_, event) for event in events)
        self._more.set()
        if self._task is None:
            self._task = asyncio.create_task(self._copy())
        if self.has_end and not self._is_detached:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL):
                    await self._ended.wait()
            if not self._ended.is_set():
                self._is_sure, self._is_detached = False, True
        if self._is_detached:
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
        return self._task is None or self._task.done()

    async def settled(self, timeout: float) -> None:
        """Until all is in Redis, or `timeout` seconds have passed; then it is given up."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout)
            self._task.cancel()

    def doubt(self) -> None:
        """Show nothing more before it is clear what is in Redis."""
        self._is_sure = self._is_detached = False
        self._verdict.clear()
        self._more.set()
        self._doubted.set()

    async def confirm(self) -> None:
        """Wait until there is no doubt.

        Raises:
            RunLost: others have ended the run.
        """
        if not self.is_settled:
            await self._verdict.wait()
        if self._loss is not None:
            raise self._loss

    async def _copy(self) -> None:
        try:
            while self._loss is None and not (self._ended.is_set() and self._is_sure):
                if self._is_sure:
                    await self._more.wait()
                    self._more.clear()
                    while self._pending and self._is_sure:
                        await self._write_next()
                else:
                    await self._catch_up()
        except Exception:
            logger.exception("other replicas are not told any more of what a run does")
            await self._detach()

    async def _write_next(self) -> None:
        next_ones = islice(self._pending, _BATCH)
        entries = [Entry(seq, round_, event) for seq, (round_, event) in enumerate(next_ones, self._shown + 1)]
        try:
            await self._write(entries, behind=self._items[-1] if self._items else 0)
        except SharedStateUnavailable:
            await self._detach()
        except EntryTaken:
            self.doubt()
        else:
            await self._show_to(entries[-1].seq)

    async def _write(self, entries: Sequence[Entry], *, behind: int) -> None:
        first, _ = await self._own.span()
        while len(self._items) > 1 and self._items[1] <= first:
            self._items.popleft()
        kept = self._items[0] if self._items and first > 1 else None
        await self._far.write(entries, behind=behind, first_kept=kept)
        self._items.append(entries[0].seq)

    async def _catch_up(self) -> None:
        """See what is in Redis and write what is lacking; go on as before when nothing is."""
        try:
            newest = await self._far.newest()
            if newest is not None and (loss := _loss(newest.last)):
                await self._cut(newest.last, loss)
                return
            self._know(newest)
            seq = newest.last.seq if newest else 0
            await self._show_to(seq)
            missing = self._own.entries(seq, _BATCH)
            if missing and missing[0].seq > seq + 1:  # what is between is dropped here, and so it is there
                self._items.clear()
                await self._far.write(missing, behind=newest.number if newest else 0, first_kept=missing[0].seq)
                self._items.append(missing[0].seq)
            elif missing:
                await self._write(missing, behind=newest.number if newest else 0)
            else:
                self._is_sure, self._is_detached = True, False
                self._more.set()
                self._verdict.set()
        except SharedStateUnavailable:
            await self._detach()
            self._doubted.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE):
                    await self._doubted.wait()
        except EntryTaken:
            return  # the next look tells what it is

    def _know(self, newest: Item | None) -> None:
        """Take what is in Redis for what was written there."""
        while self._items and (newest is None or self._items[-1] > newest.number):
            self._items.pop()
        if newest is not None and (not self._items or self._items[-1] != newest.number):
            self._items.append(newest.number)

    async def _detach(self) -> None:
        self._is_sure, self._is_detached = False, True
        self._verdict.set()
        await self._show_all()

    async def _show_all(self) -> None:
        await self._show_to(self._shown + len(self._pending))

    async def _show_to(self, seq: int) -> None:
        while self._shown < seq and self._pending:
            await self._show(*self._pending.popleft())

    async def _show(self, round_: int | None, event: RunEvent) -> None:
        self._shown += 1
        await self._own.append(round_, event)
        if isinstance(event, RunEnd):
            self._ended.set()

    async def _cut(self, last: Entry, loss: RunLost) -> None:
        """Somebody has written the end of this run: that is its end here too."""
        self._loss = loss
        self._pending.clear()
        if not self._ended.is_set():
            await self._show(last.round, last.event)
        self._verdict.set()
        self._taken(loss)


def _loss(entry: Entry) -> RunLost | None:
    match entry.event:
        case RunFailed(RunLost() as error):
            return error
        case _:
            return None
