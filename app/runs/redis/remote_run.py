"""A run that goes on, or went on, at another replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime

from app.chat import ChatResponse, RoundStarted
from app.runs.journal import Entry, Journal, RunCancelled, RunCompleted, RunEnd, RunFailed, RunStarted
from app.runs.readers import Reader
from app.runs.redis.records import Record
from app.runs.run import RunStatus, status_of


class RemoteRun:
    """A run of another replica, as it was when it was looked up. See `Run`.

    Args:
        record: what is written down of it.
        last: its newest entry.
        journal: its events.
        enter: makes one more reader.
        cancel: tells its replica to end it.
    """

    def __init__(
        self,
        record: Record,
        last: Entry | None,
        journal: Journal,
        *,
        enter: Callable[[], Reader],
        cancel: Callable[[], asyncio.Future[None]],
    ) -> None:
        self.id = record.id
        self.conversation_id = record.conversation_id
        self.request_id = record.request_id
        self.created_at: datetime = record.created_at
        self.ended_at: datetime | None = record.ended_at
        self.journal = journal
        self._last = last
        self._enter = enter
        self._cancel = cancel

    @property
    def status(self) -> RunStatus:
        """See `Run.status`."""
        only_begun = self._last is None or isinstance(self._last.event, RunStarted)
        return status_of(self.end, queued=only_begun and self.conversation_id is not None)

    @property
    def end(self) -> RunEnd | None:
        """See `Run.end`."""
        event = self._last.event if self._last else None
        return event if isinstance(event, RunEnd) else None

    def enter(self) -> Reader:
        """See `Run.enter`."""
        return self._enter()

    async def answering(self, timeout: float) -> None:
        """See `Run.answering`."""
        try:
            async with asyncio.timeout(timeout), aclosing(self.journal.follow()) as batches:
                async for batch in batches:
                    for entry in batch:
                        if isinstance(entry.event, RunFailed):
                            raise entry.event.error
                        if not isinstance(entry.event, RunStarted | RoundStarted):
                            return
        except TimeoutError:
            return

    async def result(self) -> ChatResponse:
        """See `Run.result`."""
        end = self.end
        if end is None:
            _, last = await self.journal.span()
            async with aclosing(self.journal.follow(max(last - 1, 0))) as batches:
                async for batch in batches:
                    event = batch[-1].event
                    end = event if isinstance(event, RunEnd) else None
        match end:
            case RunFailed(error):
                raise error
            case RunCompleted(response) | RunCancelled(response):
                return response
        raise RuntimeError(f"the journal of {self.id} has no end")

    async def request_cancel(self) -> None:
        """See `Run.request_cancel`."""
        await self._cancel()
