"""Runs of several replicas. See `RunStore`."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from app.runs.errors import RunGone, RunLost, RunNotFound, SharedStateUnavailable
from app.runs.in_memory_journal import InMemoryJournal, JournalLimits
from app.runs.journal import Entry, Journal, RunEnd, RunFailed
from app.runs.local_run import LocalRun
from app.runs.readers import Reader
from app.runs.redis.connection import Connection
from app.runs.redis.journal import LONGEST, PAUSE, EntryTaken, RedisJournal
from app.runs.redis.lines import Lines
from app.runs.redis.mirror import MirroredJournal
from app.runs.redis.records import Record, Records, record_of
from app.runs.redis.remote_run import RemoteRun
from app.runs.redis.replicas import Replicas
from app.runs.run import Run
from app.runs.store import IdempotencyKey, Place, Retention, WhenBusy, key_reused

logger = logging.getLogger(__name__)

_LOST = "the replica that this run was going on is gone; what it said until then is kept for a while"


class RedisRunStore:
    """A `RunStore` that replicas share.

    Args:
        url: of Redis, such as `redis://:password@host:6379/0`.
        limits: how much is kept of one run.
        retention: for how long runs are kept after their end. Their number is not limited here.
        lease: seconds within which the runs of a replica that is gone are ended.
    """

    def __init__(
        self,
        url: str,
        limits: JournalLimits | None = None,
        retention: Retention | None = None,
        *,
        lease: float = 10.0,
    ) -> None:
        self._limits = limits
        self._lease = lease
        self._keep = (retention or Retention()).seconds
        self._connection = Connection(url)
        self._records = Records(self._connection, self._keep)
        self._replicas = Replicas(self._connection, lease, hear=self._hear, bury=self._bury, tick=self._on_tick)
        self._lines = Lines(self._connection, self._records, self._replicas)
        self._mine: dict[str, LocalRun] = {}
        self._keys: dict[str, str] = {}
        self._mirrors: dict[str, MirroredJournal] = {}
        self._readers: dict[tuple[str, str], str] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Join the replicas. Redis need not answer yet."""
        await self._replicas.start()

    @property
    def available(self) -> bool:
        """See `RunStore.available`."""
        return self._connection.available

    async def claim(self, key: IdempotencyKey, run_id: str) -> str | None:
        """See `RunStore.claim`."""
        name, redis = self._key(key), self._connection.redis
        claim = json.dumps([key.fingerprint, run_id])
        if await self._connection.ask(redis.set(name, claim, nx=True, ex=LONGEST)):
            return None
        held = await self._connection.ask(redis.get(name))
        if held is None:  # it has expired in this moment
            return await self.claim(key, run_id)
        fingerprint, begun = json.loads(held)
        if fingerprint != key.fingerprint:
            raise key_reused()
        return None if begun == run_id else str(begun)

    async def unclaim(self, key: IdempotencyKey) -> None:
        """See `RunStore.unclaim`."""
        await self._connection.ask(self._connection.redis.delete(self._key(key)))

    async def enter(self, conversation_id: str, run_id: str, when_busy: WhenBusy) -> Place:
        """See `RunStore.enter`."""
        return await self._lines.enter(conversation_id, run_id, when_busy)

    def journal(self, run_id: str) -> Journal:
        """See `RunStore.journal`."""
        own, far = InMemoryJournal(self._limits), self._far(run_id)
        mirror = MirroredJournal(own, far, lambda: self._taken(run_id), attached=self._connection.available)
        self._mirrors[run_id] = mirror
        return mirror

    async def add(self, run: LocalRun, key: IdempotencyKey | None, *, shared: bool) -> None:
        """See `RunStore.add`."""
        self._mine[run.id] = run
        if key is not None:
            self._keys[run.id] = self._key(key)
        try:
            await self._tell_of(run)
        except SharedStateUnavailable:
            if shared:
                raise

    async def end(self, run: LocalRun) -> None:
        """See `RunStore.end`."""
        mirror = self._mirrors.pop(run.id)
        try:
            if mirror.is_settled:
                await self._written_down(run)
                return
        except SharedStateUnavailable:
            logger.info("Redis is told later that %s has ended", run.id)
        self._do(self._written_down_later(run, mirror))

    async def get(self, run_id: str) -> Run:
        """See `RunStore.get`."""
        if run := self._mine.get(run_id):
            return run
        record = await self._records.find(run_id)
        if record is None:
            raise RunNotFound(f"there is no run {run_id!r}")
        if record.is_gone:
            raise RunGone(f"run {run_id!r} has ended and is no longer kept")
        return await self._remote(record)

    async def page(self, limit: int, *, before: str | None = None, conversation_id: str | None = None) -> list[Run]:
        """See `RunStore.page`."""
        records = await self._records.page(limit, before=before, conversation_id=conversation_id)
        return [self._mine.get(record.id) or await self._remote(record) for record in records]

    async def is_read_elsewhere(self, run: LocalRun) -> bool:
        """See `RunStore.is_read_elsewhere`."""
        readers = self._records.readers(run.id)
        try:
            count = await self._connection.ask(self._connection.redis.zcount(readers, time.time(), "+inf"))
        except SharedStateUnavailable:
            return False
        if count:
            self._do(self._recheck_later(run))
        return bool(count)

    async def aclose(self) -> None:
        """See `RunStore.aclose`."""
        for mirror in self._mirrors.values():
            await mirror.settled(PAUSE)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=PAUSE)
        for task in list(self._tasks):
            task.cancel()
        await self._replicas.stop()
        await self._connection.aclose()

    def _key(self, key: IdempotencyKey) -> str:
        return self._connection.key("key", key.principal, key.text)

    def _far(self, run_id: str) -> RedisJournal:
        return RedisJournal(self._connection, self._records.events(run_id))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell_of(self, run: LocalRun) -> None:
        redis, mine = self._connection.redis, self._replicas
        await self._records.add(run, mine.id, self._keys.get(run.id))
        pipeline = redis.pipeline(transaction=True)
        pipeline.sadd(mine.replicas, mine.id)
        pipeline.sadd(mine.runs_of(mine.id), run.id)
        await self._connection.ask(pipeline.execute())

    async def _written_down(self, run: LocalRun) -> None:
        record = record_of(run, self._replicas.id, self._keys.get(run.id))
        await self._records.end(record, run.ended_at or datetime.now(UTC))
        redis = self._connection.redis
        await self._connection.ask(redis.srem(self._replicas.runs_of(self._replicas.id), run.id))
        self._mine.pop(run.id, None)
        self._keys.pop(run.id, None)

    async def _written_down_later(self, run: LocalRun, mirror: MirroredJournal) -> None:
        await mirror.settled(LONGEST)
        while True:
            await asyncio.sleep(PAUSE)
            try:
                await self._tell_of(run)
                await self._written_down(run)
            except SharedStateUnavailable:
                continue
            return

    async def _remote(self, record: Record) -> RemoteRun:
        journal = self._far(record.id)
        return RemoteRun(
            record,
            await journal.last(),
            journal,
            enter=lambda: self._reader(record),
            cancel=lambda: asyncio.ensure_future(self._lines.cancel(record.id)),
        )

    def _taken(self, run_id: str) -> None:
        if run := self._mine.get(run_id):
            logger.warning("%s was taken for lost by another replica, and ends", run_id)
            run.cancel(RunLost(_LOST))

    def _reader(self, record: Record) -> Reader:
        name = f"{self._replicas.id}-{secrets.token_hex(6)}"
        reader = Reader(lambda _: self._do(self._left(record, name)))
        self._readers[record.id, name] = record.replica
        self._do(self._renew_readers())
        return reader

    async def _left(self, record: Record, name: str) -> None:
        del self._readers[record.id, name]
        redis = self._connection.redis
        try:
            await self._connection.ask(redis.zrem(self._records.readers(record.id), name))
            await self._replicas.tell(record.replica, "left", record.id)
        except SharedStateUnavailable:
            return  # the reader's time runs out

    async def _renew_readers(self) -> None:
        if not self._readers:
            return
        pipeline = self._connection.redis.pipeline(transaction=False)
        for run_id, name in self._readers:
            pipeline.zadd(self._records.readers(run_id), {name: time.time() + self._lease})
            pipeline.expire(self._records.readers(run_id), int(self._lease) + 1)
        try:
            await self._connection.ask(pipeline.execute())
        except SharedStateUnavailable:
            return  # it is done again with the next tick

    async def _recheck_later(self, run: LocalRun) -> None:
        await asyncio.sleep(self._lease)
        run.readers.recheck()

    async def _on_tick(self) -> None:
        await self._renew_readers()
        await self._lines.leave_those_that_should()
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

    async def _bury(self, run_id: str) -> None:
        """Write the end of a run whose replica is gone, unless somebody has."""
        record = await self._records.find(run_id)
        if record is None:
            return
        journal = self._far(run_id)
        while not isinstance((last := await journal.last()) and last.event, RunEnd):
            seq, round_ = (last.seq, last.round) if last else (0, None)
            try:
                await journal.write([Entry(seq + 1, round_, RunFailed(RunLost(_LOST)))])
                logger.warning("%s is lost", run_id)
            except EntryTaken:
                continue
        await self._records.end(replace(record, is_gone=False), datetime.now(UTC))
        if record.conversation_id is not None:
            await self._lines.leave(record.conversation_id, run_id)
