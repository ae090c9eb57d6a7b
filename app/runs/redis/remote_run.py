"""A run that goes on, or went on, at another replica."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import datetime

from app.chat import ChatResponse, RoundStarted
from app.runs.errors import RunGone
from app.runs.journal import Journal, RunCancelled, RunCompleted, RunEnd, RunEvent, RunFailed, RunStarted
from app.runs.readers import Reader
from app.runs.redis.records import Record
from app.runs.run import RunStatus, status_of


class RemoteRun:
    """A run of another replica, as it was when it was looked up. See `Run`.

    Args:
        record: what is written down of it.
        end: its end, None while it is going.
        journal: its events.
        enter: makes one more reader.
        cancel: tells its replica to end it.
    """

    def __init__(
        self,
        record: Record,
        end: RunEnd | None,
        journal: Journal,
        *,
        enter: Callable[[], Awaitable[Reader]],
        cancel: Callable[[], Awaitable[None]],
    ) -> None:
        self.id = record.id
        self.conversation_id = record.conversation_id
        self.request_id = record.request_id
        self.created_at: datetime = record.created_at
        self.ended_at: datetime | None = record.ended_at
        self.journal = journal
        self.end = end
        self._status = record.status
        self._enter = enter
        self._cancel = cancel

    @property
    def status(self) -> RunStatus:
        """See `Run.status`."""
        return self._status if self.end is None else status_of(self.end, queued=False)

    async def enter(self) -> Reader:
        """See `Run.enter`."""
        if self.end is not None:
            return Reader(lambda _: None)
        return await self._enter()

    async def answering(self, timeout: float) -> None:
        """See `Run.answering`."""
        try:
            async with asyncio.timeout(timeout):
                await self._answered()
        except TimeoutError:
            return

    async def result(self) -> ChatResponse:
        """See `Run.result`."""
        end = self.end
        if end is None:
            _, last = await self.journal.span()
            with suppress(RunGone):
                end = await self._end_behind(max(last - 1, 0))
            if end is None:  # Redis forgot the newest entries in this moment, and the end was written before them
                end = await self._end_behind(0)
        match end:
            case RunFailed(error):
                raise error
            case RunCompleted(response) | RunCancelled(response):
                return response
        raise RuntimeError(f"the journal of {self.id} has no end")

    async def request_cancel(self) -> None:
        """See `Run.request_cancel`."""
        if self.end is None:
            await self._cancel()

    async def _end_behind(self, after: int) -> RunEnd | None:
        event: RunEvent | None = None
        async with aclosing(self.journal.follow(after)) as batches:
            async for batch in batches:
                event = batch[-1].event
        return event if isinstance(event, RunEnd) else None

    async def _answered(self) -> None:
        async with aclosing(self.journal.follow()) as batches:
            async for batch in batches:
                for entry in batch:
                    if isinstance(entry.event, RunFailed):
                        raise entry.event.error
                    if not isinstance(entry.event, RunStarted | RoundStarted):
                        return
