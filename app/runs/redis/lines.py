"""The lines of conversations, kept in Redis lists: the run that stands first has the word."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from app.runs.errors import SharedStateUnavailable
from app.runs.redis.connection import Connection
from app.runs.redis.journal import LONGEST
from app.runs.redis.records import Records
from app.runs.redis.replicas import Replicas
from app.runs.store import WhenBusy, conversation_busy

logger = logging.getLogger(__name__)

_LOOK = 0.5
"""Seconds after which a run that waits looks by itself, should nobody have told it that it is its turn."""


class Lines:
    """Who has the word in each conversation.

    Args:
        connection: to Redis.
        records: of runs.
        replicas: carry word to whoever is next.
    """

    def __init__(self, connection: Connection, records: Records, replicas: Replicas) -> None:
        self._connection = connection
        self._records = records
        self._replicas = replicas
        self._waiting: dict[str, asyncio.Event] = {}
        self._to_leave: set[tuple[str, str]] = set()

    async def enter(self, conversation_id: str, run_id: str, when_busy: WhenBusy) -> RedisPlace:
        """See `RunStore.enter`."""
        try:
            before = await self._join(conversation_id, run_id)
            if when_busy == "reject":
                await self._check_idle(conversation_id, before)
            if when_busy == "cancel_previous":
                for earlier in before:
                    await self.cancel(earlier)
        except BaseException:
            await self.leave(conversation_id, run_id)
            raise
        return RedisPlace(self, conversation_id, run_id, is_first=not before)

    async def cancel(self, run_id: str) -> None:
        """Have a run ended, wherever it goes on. Unknown ones and those that have ended are passed over."""
        record = await self._records.find(run_id)
        if record is not None and record.is_going:
            await self._records.mark_ending(run_id)
            await self._replicas.tell(record.replica, "cancel", run_id)

    async def wait(self, conversation_id: str, run_id: str) -> None:
        """Until the run stands first."""
        turn = self._waiting.setdefault(run_id, asyncio.Event())
        try:
            while (first := await self._first(conversation_id)) != run_id:
                if first is None:
                    return  # the line was lost with what Redis knew: nobody else is in it
                await self._drop_if_over(conversation_id, first)
                turn.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK):
                        await turn.wait()
        finally:
            del self._waiting[run_id]

    def your_turn(self, run_id: str) -> None:
        """Somebody says that the run stands first."""
        if turn := self._waiting.get(run_id):
            turn.set()

    async def leave(self, conversation_id: str, run_id: str) -> None:
        """Take a run out of the line and tell the next one. What Redis is not told now it is told later."""
        self._to_leave.add((conversation_id, run_id))
        if self._connection.available:
            await asyncio.shield(asyncio.ensure_future(self.leave_those_that_should()))

    async def leave_those_that_should(self) -> None:
        """Tell Redis of all that have left and could not be taken out yet."""
        for conversation_id, run_id in list(self._to_leave):
            line = self._line(conversation_id)
            try:
                removed = await self._connection.ask(self._connection.redis.lrem(line, 0, run_id))
                self._to_leave.discard((conversation_id, run_id))
                if removed and (first := await self._first(conversation_id)):
                    await self._tell_first(first)
            except SharedStateUnavailable:
                return

    async def _join(self, conversation_id: str, run_id: str) -> list[str]:
        """Stand at the end of the line.

        Returns:
            Those before, the first one first.
        """
        line = self._line(conversation_id)
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.rpush(line, run_id)
        pipeline.expire(line, LONGEST)
        pipeline.lrange(line, 0, -1)
        *_, names = await self._connection.ask(pipeline.execute())
        standing = [name.decode() for name in names]
        return standing[: standing.index(run_id)]

    async def _check_idle(self, conversation_id: str, run_ids: list[str]) -> None:
        for run_id in run_ids:
            record = await self._records.find(run_id)
            # One without a record is just being begun.
            if record is None or (record.is_going and not record.is_ending):
                raise conversation_busy(conversation_id)

    async def _drop_if_over(self, conversation_id: str, run_id: str) -> None:
        """Take out a run that has ended and could not say so."""
        record = await self._records.find(run_id)
        if record is not None and not record.is_going:
            await self.leave(conversation_id, run_id)

    async def _first(self, conversation_id: str) -> str | None:
        first = await self._connection.ask(self._connection.redis.lindex(self._line(conversation_id), 0))
        return None if first is None else first.decode()

    async def _tell_first(self, run_id: str) -> None:
        if run_id in self._waiting:
            self.your_turn(run_id)
        elif record := await self._records.find(run_id):
            await self._replicas.tell(record.replica, "turn", run_id)

    def _line(self, conversation_id: str) -> str:
        return self._connection.key("conversation", conversation_id, "line")


class RedisPlace:
    """A place in the line of a conversation. See `Place`."""

    def __init__(self, lines: Lines, conversation_id: str, run_id: str, *, is_first: bool) -> None:
        self._lines = lines
        self._conversation_id = conversation_id
        self._run_id = run_id
        self._is_first = is_first

    @property
    def is_first(self) -> bool:
        """See `Place.is_first`."""
        return self._is_first

    async def wait(self) -> None:
        """See `Place.wait`."""
        await self._lines.wait(self._conversation_id, self._run_id)

    async def leave(self) -> None:
        """See `Place.leave`."""
        await self._lines.leave(self._conversation_id, self._run_id)
