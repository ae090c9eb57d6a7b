"""What Redis knows of each run beside its events: a hash for each, and the order in which they were begun."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from redis.asyncio.client import Pipeline

from app.runs.journal import RunEnd
from app.runs.local_run import LocalRun
from app.runs.redis.connection import LONGEST, Connection
from app.runs.redis.scripts import END
from app.runs.run import RunStatus, status_of

_TOMBSTONE = 3600
"""Seconds for which a forgotten run is told apart from one that never was."""

_ENDING = 5.0
"""Seconds after which a run that was told to end, and has not, is no longer thought to."""

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Record:
    """What is written down of a run. See `RunSummary`.

    Attributes:
        id: the run's.
        replica: where it goes on.
        conversation_id: the conversation that it is a turn of.
        request_id: the request that it was begun by.
        created_at: when it was begun.
        ended_at: when it ended, None while it is going.
        status: how far it is.
        first: the number of the oldest event that is kept of one that has ended.
        is_ending: whether it was told to end a moment ago.
        key: the Redis key of the idempotency key that began it.
        is_gone: whether it is no longer kept.
    """

    id: str
    replica: str
    conversation_id: str | None
    request_id: str | None
    created_at: datetime
    ended_at: datetime | None
    status: RunStatus
    first: int
    is_ending: bool
    key: str | None
    is_gone: bool

    @property
    def is_going(self) -> bool:
        """Whether it has not ended, as far as is written down."""
        return self.ended_at is None


class Records:
    """The records of all runs.

    Args:
        connection: to Redis.
        keep: seconds for which a run is kept after its end.
    """

    def __init__(self, connection: Connection, keep: float) -> None:
        self._connection = connection
        self._kept = max(int(keep * 1000), 1)
        self._end = connection.redis.register_script(END)

    def events(self, run_id: str) -> str:
        """The key of a run's stream."""
        return self._connection.key("run", run_id, "events")

    def readers(self, run_id: str) -> str:
        """The key of a run's readers at other replicas."""
        return self._connection.key("run", run_id, "readers")

    def add(self, pipeline: Pipeline, run: LocalRun, replica: str, key: str | None) -> None:
        """Write down that a run is there. May be done more than once. The last answer is whether it was told to end."""
        told = {
            "replica": replica,
            "conversation": run.conversation_id,
            "request": run.request_id,
            "created": run.created_at.isoformat(),
            "queued": "1" if run.status == "queued" else None,
            "key": key,
        }
        name = self._run(run.id)
        pipeline.hdel(name, *told)
        pipeline.hset(name, mapping={field: value for field, value in told.items() if value is not None})
        pipeline.expire(name, LONGEST, nx=True)  # of one that has ended it is shorter
        for index in self._indexes(run.conversation_id):
            pipeline.zadd(index, {run.id: 0})
            pipeline.expire(index, LONGEST)
        if key is not None:
            pipeline.expire(key, LONGEST)
        pipeline.exists(self._ending(run.id))

    def drop(self, pipeline: Pipeline, run: LocalRun) -> None:
        """Forget a run that did not begin."""
        pipeline.delete(self._run(run.id), self.events(run.id))
        for index in self._indexes(run.conversation_id):
            pipeline.zrem(index, run.id)

    async def find(self, run_id: str) -> Record | None:
        """The record of a run, None where there is none."""
        [record] = await self.find_all([run_id])
        return record

    async def find_all(self, run_ids: Sequence[str]) -> list[Record | None]:
        """The records of several runs."""
        pipeline = self._connection.redis.pipeline(transaction=False)
        for run_id in run_ids:
            pipeline.hgetall(self._run(run_id))
            pipeline.pttl(self._run(run_id))
            pipeline.exists(self._ending(run_id))
        told = await self._connection.ask(pipeline.execute)
        return [
            self._record(run_id, fields, pttl, is_ending=bool(ending))
            for run_id, fields, pttl, ending in zip(run_ids, told[::3], told[1::3], told[2::3], strict=True)
        ]

    async def mark_ending(self, run_id: str) -> None:
        """Write down that a run was told to end, which may be about to begin."""
        milliseconds = int(_ENDING * 1000)
        await self._connection.ask(self._connection.redis.set, self._ending(run_id), "1", px=milliseconds)

    async def mark_running(self, run_id: str) -> None:
        """Write down that a run waits no longer."""
        await self._connection.ask(self._connection.redis.hdel, self._run(run_id), "queued")

    async def end(self, record: Record, end: RunEnd, ended_at: datetime) -> bool:
        """Write down that a run has ended: from now on it is kept for a while. The first one to do so counts.

        Returns:
            Whether there is a record of it.
        """
        keys = [self._run(record.id), self.events(record.id), self.readers(record.id), self._ended]
        if record.key is not None:
            keys.append(record.key)
        member = json.dumps([record.id, record.conversation_id])
        told: list[str | float] = [ended_at.isoformat(), status_of(end, queued=False), record.first]
        arguments = [*told, self._kept, _TOMBSTONE * 1000, time.time() * 1000 + self._kept, member]
        return bool(await self._connection.ask(self._end, keys, arguments) >= 0)

    async def page(self, limit: int, *, before: str | None, conversation_id: str | None) -> list[Record]:
        """Records of runs that are kept, the one that was begun last first."""
        *_, index = self._indexes(conversation_id)
        redis = self._connection.redis
        found: list[Record] = []
        edge = "+" if before is None else f"({before}"
        while len(found) < limit:
            names = await self._connection.ask(redis.zrevrangebylex, index, edge, "-", start=0, num=_PAGE)
            records = await self.find_all([name.decode() for name in names])
            found += [record for record in records if record is not None and not record.is_gone]
            unknown = [name for name, record in zip(names, records, strict=True) if record is None]
            if unknown:  # nobody has written down their end
                await self._connection.ask(redis.zrem, index, *unknown)
            if len(names) < _PAGE:
                break
            edge = f"({names[-1].decode()}"
        return found[:limit]

    async def sweep(self) -> None:
        """Strike runs that are no longer kept from the lists."""
        redis = self._connection.redis
        swept = _PAGE
        while swept == _PAGE:
            now = time.time() * 1000
            members = await self._connection.ask(redis.zrangebyscore, self._ended, "-inf", now, start=0, num=_PAGE)
            pipeline = redis.pipeline(transaction=False)
            for member in members:
                run_id, conversation_id = json.loads(member)
                for index in self._indexes(conversation_id):
                    pipeline.zrem(index, run_id)
                pipeline.zrem(self._ended, member)
            await self._connection.ask(pipeline.execute)
            swept = len(members)

    @property
    def _ended(self) -> str:
        """The key of the set of runs that have ended, in the order in which they are forgotten."""
        return self._connection.key("ended")

    def _run(self, run_id: str) -> str:
        return self._connection.key("run", run_id)

    def _ending(self, run_id: str) -> str:
        return self._connection.key("run", run_id, "ending")

    def _indexes(self, conversation_id: str | None) -> list[str]:
        everywhere = self._connection.key("runs")
        if conversation_id is None:
            return [everywhere]
        return [everywhere, self._connection.key("conversation", conversation_id, "runs")]

    @staticmethod
    def _record(run_id: str, fields: dict[bytes, bytes], pttl: int, *, is_ending: bool) -> Record | None:
        told: dict[str, Any] = {name.decode(): value.decode("utf-8", "surrogatepass") for name, value in fields.items()}
        if "created" not in told:
            return None
        ended = told.get("ended")
        return Record(
            id=run_id,
            replica=told["replica"],
            conversation_id=told.get("conversation"),
            request_id=told.get("request"),
            created_at=datetime.fromisoformat(told["created"]),
            ended_at=None if ended is None else datetime.fromisoformat(ended),
            status=cast("RunStatus", told.get("outcome") or ("queued" if "queued" in told else "running")),
            first=int(told.get("first", 1)),
            is_ending=is_ending,
            key=told.get("key"),
            is_gone=ended is not None and pttl < _TOMBSTONE * 1000,  # by the clock of Redis alone
        )


def record_of(run: LocalRun, replica: str, key: str | None, first: int) -> Record:
    """The record of a run of this process."""
    return Record(
        id=run.id,
        replica=replica,
        conversation_id=run.conversation_id,
        request_id=run.request_id,
        created_at=run.created_at,
        ended_at=run.ended_at,
        status=run.status,
        first=first,
        is_ending=run.is_ending,
        key=key,
        is_gone=False,
    )
