"""What Redis knows of each run beside its events: one hash a run, and the order in which they were begun."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from app.runs.local_run import LocalRun
from app.runs.redis.connection import Connection
from app.runs.redis.journal import LONGEST
from app.runs.run import Run

_TOMBSTONE = 3600
"""Seconds for which a forgotten run is told apart from one that never was."""

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Record:
    """What is written down of a run.

    Attributes:
        id: the run's.
        replica: where it goes on.
        conversation_id: the conversation that it is a turn of.
        request_id: the request that it was begun by.
        created_at: when it was begun.
        ended_at: when it ended, None while it is going.
        is_ending: whether it was told to end.
        key: the Redis key of the idempotency key that began it.
        is_gone: whether it is no longer kept.
    """

    id: str
    replica: str
    conversation_id: str | None
    request_id: str | None
    created_at: datetime
    ended_at: datetime | None
    is_ending: bool
    key: str | None
    is_gone: bool

    @property
    def is_going(self) -> bool:
        """Whether it has not ended."""
        return self.ended_at is None


class Records:
    """The records of all runs.

    Args:
        connection: to Redis.
        keep: seconds for which a run is kept after its end.
    """

    def __init__(self, connection: Connection, keep: float) -> None:
        self._connection = connection
        self._keep = keep

    def events(self, run_id: str) -> str:
        """The key of a run's stream."""
        return self._connection.key("run", run_id, "events")

    def readers(self, run_id: str) -> str:
        """The key of a run's readers at other replicas."""
        return self._connection.key("run", run_id, "readers")

    async def add(self, run: LocalRun, replica: str, key: str | None) -> None:
        """Write down that a run was begun."""
        told = {
            "replica": replica,
            "conversation": run.conversation_id,
            "request": run.request_id,
            "created": run.created_at.isoformat(),
            "key": key,
        }
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.hset(self._run(run.id), mapping={name: value for name, value in told.items() if value is not None})
        pipeline.expire(self._run(run.id), LONGEST)
        for index in self._indexes(run.conversation_id):
            pipeline.zadd(index, {run.id: 0})
            pipeline.expire(index, LONGEST)
        await self._connection.ask(pipeline.execute())

    async def find(self, run_id: str) -> Record | None:
        """The record of a run, None where there is none."""
        told = await self._connection.ask(self._connection.redis.hgetall(self._run(run_id)))
        if not told:
            return None
        text = {name.decode(): value.decode() for name, value in told.items()}
        ended = datetime.fromisoformat(text["ended"]) if "ended" in text else None
        return Record(
            id=run_id,
            replica=text["replica"],
            conversation_id=text.get("conversation"),
            request_id=text.get("request"),
            created_at=datetime.fromisoformat(text["created"]),
            ended_at=ended,
            is_ending="ending" in text,
            key=text.get("key"),
            is_gone=ended is not None and (datetime.now(UTC) - ended).total_seconds() >= self._keep,
        )

    async def mark_ending(self, run_id: str) -> None:
        """Write down that a run was told to end."""
        await self._connection.ask(self._connection.redis.hset(self._run(run_id), "ending", "1"))

    async def end(self, record: Record, ended_at: datetime) -> None:
        """Write down that a run has ended: from now on it is kept for a while. May be done more than once."""
        kept = max(int(self._keep * 1000), 1)
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.hsetnx(self._run(record.id), "ended", ended_at.isoformat())
        pipeline.pexpire(self._run(record.id), kept + _TOMBSTONE * 1000)
        pipeline.pexpire(self.events(record.id), kept)
        pipeline.delete(self.readers(record.id))
        if record.key is not None:
            pipeline.pexpire(record.key, kept)
        await self._connection.ask(pipeline.execute())

    async def page(self, limit: int, *, before: str | None, conversation_id: str | None) -> list[Record]:
        """Records of runs that are kept, the one that was begun last first."""
        *_, index = self._indexes(conversation_id)
        found: list[Record] = []
        edge = "+" if before is None else f"({before}"
        while len(found) < limit:
            names = await self._connection.ask(
                self._connection.redis.zrevrangebylex(index, edge, "-", start=0, num=_PAGE)
            )
            for name in names:
                record = await self.find(name.decode())
                if record is None or record.is_gone:
                    await self._connection.ask(self._connection.redis.zrem(index, name))
                elif len(found) < limit:
                    found.append(record)
            if len(names) < _PAGE:
                break
            edge = f"({names[-1].decode()}"
        return found

    async def sweep(self) -> None:
        """Strike some runs that are no longer kept from the list, chosen at random as Redis does with expired keys."""
        index = self._connection.key("runs")
        for name in await self._connection.ask(self._connection.redis.zrandmember(index, _PAGE)):
            record = await self.find(name.decode())
            if record is None or record.is_gone:
                await self._connection.ask(self._connection.redis.zrem(index, name))

    def _run(self, run_id: str) -> str:
        return self._connection.key("run", run_id)

    def _indexes(self, conversation_id: str | None) -> list[str]:
        everywhere = self._connection.key("runs")
        if conversation_id is None:
            return [everywhere]
        return [everywhere, self._connection.key("conversation", conversation_id, "runs")]


def record_of(run: Run, replica: str, key: str | None) -> Record:
    """The record of a run of this process."""
    return Record(
        id=run.id,
        replica=replica,
        conversation_id=run.conversation_id,
        request_id=run.request_id,
        created_at=run.created_at,
        ended_at=run.ended_at,
        is_ending=False,
        key=key,
        is_gone=False,
    )
