"""Runs of several replicas. See `RunStore`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from app.runs.errors import RunGone, RunLost, RunNotFound, SharedStateUnavailable
from app.runs.in_memory_journal import InMemoryJournal, JournalLimits
from app.runs.journal import Journal, RunEnd
from app.runs.local_run import LocalRun
from app.runs.redis.burial import Burial
from app.runs.redis.connection import PAUSE, Connection
from app.runs.redis.journal import RedisJournal, ends
from app.runs.redis.keys import Keys
from app.runs.redis.lines import Lines
from app.runs.redis.mirror import MirroredJournal
from app.runs.redis.presence import Presence
from app.runs.redis.records import Record, Records, record_of
from app.runs.redis.remote_run import RemoteRun
from app.runs.redis.replicas import Replicas
from app.runs.run import Run, RunSummary
from app.runs.store import IdempotencyKey, Place, Retention, WhenBusy

logger = logging.getLogger(__name__)

_UNTOLD = 1_000
"""Runs that are kept here after their end because Redis could not be told of it."""

_PATIENCE = 60.0
"""Seconds for which they are at least."""


class RedisRunStore:
    """A `RunStore` that replicas share.

    Args:
        url: of Redis, such as `redis://:password@host:6379/0`.
        limits: how much is kept of one run.
        retention: for how long runs are kept after their end. Their number is not limited.
        lease: seconds within which the runs of a replica that is gone are ended.
        prefix: what all names in Redis begin with.
    """

    def __init__(
        self,
        url: str,
        limits: JournalLimits | None = None,
        retention: Retention | None = None,
        *,
        lease: float = 10.0,
        prefix: str = "gateway:",
    ) -> None:
        self._limits = limits
        self._lease = lease
        self._retention = retention or Retention()
        self._connection = connection = Connection(url, prefix)
        self._claims = Keys(connection)
        self._mine: dict[str, LocalRun] = {}
        self._keys: dict[str, str] = {}
        self._mirrors: dict[str, MirroredJournal] = {}
        self._untold: dict[str, asyncio.Task[None]] = {}
        self._rechecks: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._records = records = Records(connection, self._retention.seconds)
        self._replicas = replicas = Replicas(
            connection, lease, hear=self._hear, back=self._back, bury=self._bury, tick=self._on_tick
        )
        self._lines = Lines(connection, records, replicas, self._mine)
        self._presence = Presence(connection, records, replicas, self._do)
        self._burial = Burial(connection, records, replicas, self._lines)

    async def start(self) -> None:
        """Join the replicas. Redis need not answer yet."""
        await self._replicas.start()

    @property
    def available(self) -> bool:
        """See `RunStore.available`."""
        return self._connection.available

    async def claim(self, key: IdempotencyKey, run_id: str) -> str | None:
        """See `RunStore.claim`."""
        return await self._claims.claim(key, run_id)

    async def unclaim(self, key: IdempotencyKey, run_id: str) -> None:
        """See `RunStore.unclaim`."""
        await self._claims.unclaim(key, run_id)

    async def enter(self, conversation_id: str, run_id: str, when_busy: WhenBusy) -> Place:
        """See `RunStore.enter`."""
        return await self._lines.enter(conversation_id, run_id, when_busy)

    def journal(self, run_id: str) -> Journal:
        """See `RunStore.journal`."""
        own, far = InMemoryJournal(self._limits), RedisJournal(self._connection, self._records.events(run_id))
        mirror = MirroredJournal(own, far, partial(self._taken, run_id), attached=self._connection.available)
        self._mirrors[run_id] = mirror
        return mirror

    async def add(self, run: LocalRun, key: IdempotencyKey | None, *, shared: bool) -> None:
        """See `RunStore.add`."""
        self._mine[run.id] = run
        if key is not None:
            self._keys[run.id] = self._claims.name(key)
        try:
            if key is not None:
                await self._claims.check(key, run.id)
            await self._tell_of(run)
        except SharedStateUnavailable:
            if shared:
                raise

    async def drop(self, run: LocalRun) -> None:
        """See `RunStore.drop`."""
        pipeline = self._connection.redis.pipeline(transaction=True)
        self._records.drop(pipeline, run)
        pipeline.srem(self._replicas.runs_of(self._replicas.id), run.id)
        try:
            await self._connection.ask(pipeline.execute)
        except SharedStateUnavailable:
            logger.info("Redis was not told that %s does not begin", run.id)
        except Exception:
            logger.exception("Redis cannot be told that %s does not begin", run.id)
        finally:
            self._forget(run.id)

    def ending(self, run: LocalRun) -> Awaitable[None] | None:
        """See `RunStore.ending`."""
        if run.conversation_id is None or run.id not in self._mine:
            return None
        return self._do(self._mark_ending(run.id))

    async def end(self, run: LocalRun) -> None:
        """See `RunStore.end`."""
        mirror, end = self._mirrors.pop(run.id, None), run.end
        if mirror is None or end is None:
            self._forget(run.id)
            return
        try:
            if mirror.is_settled:
                await self._tell_end(run, end)
                return
        except SharedStateUnavailable:
            logger.info("Redis is told later that %s has ended", run.id)
        except Exception:
            logger.exception("it cannot be written down that %s has ended", run.id)
            self._forget(run.id)
            return
        self._untold[run.id] = self._do(self._tell_end_later(run, end, mirror))
        if len(self._untold) > _UNTOLD:
            oldest = next(iter(self._untold))
            self._untold.pop(oldest).cancel()
            self._forget(oldest)

    async def confirm(self, run_id: str) -> None:
        """See `RunStore.confirm`."""
        await self._replicas.be_sure()
        if mirror := self._mirrors.get(run_id):
            await mirror.confirm()

    async def get(self, run_id: str) -> Run:
        """See `RunStore.get`."""
        if run := self._mine.get(run_id):
            return run
        record = await self._records.find(run_id)
        if record is None:
            raise RunNotFound(f"there is no run {run_id!r}")
        [end] = await ends(self._connection, [self._records.events(run_id)])
        if end is not None and record.is_going:
            record = await self._with_end(record, end)
        if record.is_gone or (end is None and not record.is_going):
            raise RunGone(f"run {run_id!r} has ended and is no longer kept")
        journal = RedisJournal(
            self._connection, self._records.events(run_id), first=record.first, is_going=partial(self._is_going, run_id)
        )
        enter, cancel = partial(self._presence.enter, record), partial(self._lines.cancel, run_id)
        return RemoteRun(record, end, journal, enter=enter, cancel=cancel)

    async def page(
        self, limit: int, *, before: str | None = None, conversation_id: str | None = None
    ) -> list[RunSummary]:
        """See `RunStore.page`."""
        records = await self._records.page(limit, before=before, conversation_id=conversation_id)
        going = [record for record in records if record.is_going and record.id not in self._mine]
        found = await ends(self._connection, [self._records.events(record.id) for record in going])
        ended = {
            record.id: await self._with_end(record, end)
            for record, end in zip(going, found, strict=True)
            if end is not None
        }
        return [self._mine.get(record.id) or ended.get(record.id, record) for record in records]

    async def is_read_elsewhere(self, run: LocalRun) -> bool:
        """See `RunStore.is_read_elsewhere`."""
        try:
            is_read = await self._presence.is_read(run.id)
        except SharedStateUnavailable:
            return False
        if is_read and run.id not in self._rechecks:
            loop = asyncio.get_running_loop()
            self._rechecks[run.id] = loop.call_later(self._lease, self._recheck, run)
        return is_read

    async def aclose(self) -> None:
        """See `RunStore.aclose`."""
        await asyncio.gather(*[mirror.settled(PAUSE if mirror.has_end else 0) for mirror in self._mirrors.values()])
        if self._untold:
            await asyncio.wait(self._untold.values(), timeout=PAUSE)
        for timer in self._rechecks.values():
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._replicas.stop()
        await self._connection.aclose()

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _forget(self, run_id: str) -> None:
        for kept in (self._mine, self._keys, self._mirrors, self._untold):
            kept.pop(run_id, None)

    async def _tell_of(self, run: LocalRun) -> None:
        mine = self._replicas
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.sadd(mine.runs_of(mine.id), run.id)
        self._records.add(pipeline, run, mine.id, self._keys.get(run.id))
        *_, was_told_to_end = await self._connection.ask(pipeline.execute)
        if was_told_to_end:
            run.cancel()

    async def _tell_end(self, run: LocalRun, end: RunEnd) -> None:
        first, _ = await run.journal.span()
        record = record_of(run, self._replicas.id, self._keys.get(run.id), first)
        ended_at = run.ended_at or datetime.now(UTC)
        if not await self._records.end(record, end, ended_at):
            await self._tell_of(run)
            await self._records.end(record, end, ended_at)
        mine = self._replicas.runs_of(self._replicas.id)
        await self._connection.ask(self._connection.redis.srem, mine, run.id)
        self._forget(run.id)

    async def _tell_end_later(self, run: LocalRun, end: RunEnd, mirror: MirroredJournal) -> None:
        clock = asyncio.get_running_loop().time
        patience = max(self._retention.seconds, _PATIENCE)
        given_up_at = clock() + patience
        await mirror.settled(patience)
        try:
            while clock() < given_up_at:
                try:
                    await self._tell_end(run, end)
                except SharedStateUnavailable:
                    await asyncio.sleep(PAUSE)
                else:
                    return
        finally:
            self._forget(run.id)

    async def _with_end(self, record: Record, end: RunEnd) -> Record:
        """The record of a run whose journal has an end that is not written down yet."""
        await self._records.end(record, end, datetime.now(UTC))
        return await self._records.find(record.id) or record

    async def _is_going(self, run_id: str) -> bool:
        record = await self._records.find(run_id)
        if record is None:  # should Redis have forgotten it, its replica is about to tell it again
            await asyncio.sleep(self._lease)
            record = await self._records.find(run_id)
        return record is not None and record.is_going

    def _taken(self, run_id: str, error: Exception) -> None:
        if run := self._mine.get(run_id):
            logger.warning("%s was taken for lost by another replica, and ends", run_id)
            run.lose(error)

    async def _mark_ending(self, run_id: str) -> None:
        with suppress(SharedStateUnavailable):
            await self._records.mark_ending(run_id)

    def _recheck(self, run: LocalRun) -> None:
        del self._rechecks[run.id]
        run.readers.recheck()

    async def _on_tick(self) -> None:
        await self._presence.tell_who_left()
        await self._lines.leave_those_that_should()
        await self._lines.take_out_unknown()
        await self._burial.of_unknown(self._mine)
        await self._records.sweep()

    async def _hear(self, verb: str, run_id: str) -> None:
        """Do what another replica says."""
        run = self._mine.get(run_id)
        match verb:
            case "turn":
                self._lines.your_turn(run_id)
            case "cancel" if run is not None:
                run.cancel()
            case "left" if run is not None:
                run.readers.recheck()

    def _back(self) -> None:
        for mirror in self._mirrors.values():
            mirror.doubt()
        self._do(self._come_back())

    async def _come_back(self) -> None:
        """Put in order what others did, or Redis forgot, while this replica could not be heard."""
        with suppress(SharedStateUnavailable):  # then it is done again when Redis answers
            for mirror in list(self._mirrors.values()):
                with suppress(RunLost):
                    await mirror.confirm()
            await self._lines.stand_again()
            for run in list(self._mine.values()):
                if run.end is None:
                    await self._tell_of(run)
            await self._presence.enter_again()

    async def _bury(self, replica: str) -> None:
        await self._burial.of(replica)
