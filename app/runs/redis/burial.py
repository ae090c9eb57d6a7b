"""What becomes of that which a replica leaves behind: its runs are ended as lost, and others have the word."""

from __future__ import annotations

import logging
from collections.abc import Container
from datetime import UTC, datetime

from app.runs.errors import RunLost
from app.runs.journal import Entry, RunEnd, RunFailed
from app.runs.redis.connection import Connection
from app.runs.redis.journal import EntryTaken, RedisJournal
from app.runs.redis.lines import Lines
from app.runs.redis.records import Records
from app.runs.redis.replicas import Replicas

logger = logging.getLogger(__name__)

LOST = "the replica that this run was going on is gone; what it said until then is kept for a while"


class Burial:
    """Ends what nobody else will end. All of it may be done by several replicas at once, and counts once.

    Args:
        connection: to Redis.
        records: of runs.
        replicas: know what each has.
        lines: of conversations.
    """

    def __init__(self, connection: Connection, records: Records, replicas: Replicas, lines: Lines) -> None:
        self._connection = connection
        self._records = records
        self._replicas = replicas
        self._lines = lines

    async def of(self, replica: str) -> None:
        """End what a replica has left behind, as long as it does not come back."""
        redis = self._connection.redis
        runs = await self._connection.ask(redis.smembers, self._replicas.runs_of(replica))
        if runs:
            logger.warning("replica %s is gone, and %d runs with it", replica, len(runs))
        for name in runs:
            if await self._replicas.present([replica]):
                return
            await self._end(replica, name.decode())
        places = await self._connection.ask(redis.hgetall, self._replicas.places_of(replica))
        for name, conversation in places.items():
            if await self._replicas.present([replica]):
                return
            await self._lines.take_out(conversation.decode("utf-8", "surrogatepass"), name.decode(), replica)

    async def of_unknown(self, known: Container[str]) -> None:
        """End runs that Redis has for this replica and that it does not know: it was told of them too late."""
        mine = self._replicas.id
        for name in await self._connection.ask(self._connection.redis.smembers, self._replicas.runs_of(mine)):
            if name.decode() not in known:
                await self._end(mine, name.decode())

    async def _end(self, replica: str, run_id: str) -> None:
        """Write the end of a run, unless somebody has."""
        record = await self._records.find(run_id)
        if record is not None:
            end = await self._write_end(RedisJournal(self._connection, self._records.events(run_id)), run_id)
            await self._records.end(record, end, datetime.now(UTC))
            if record.conversation_id is not None:
                await self._lines.take_out(record.conversation_id, run_id, replica)
        await self._connection.ask(self._connection.redis.srem, self._replicas.runs_of(replica), run_id)

    async def _write_end(self, journal: RedisJournal, run_id: str) -> RunEnd:
        while True:
            newest = await journal.newest()
            if newest is not None and isinstance(newest.last.event, RunEnd):
                return newest.last.event
            seq, round_, behind = (newest.last.seq, newest.last.round, newest.number) if newest else (0, None, 0)
            end = RunFailed(RunLost(LOST))
            try:
                await journal.write([Entry(seq + 1, round_, end)], behind=behind)
            except EntryTaken:
                continue
            logger.warning("%s is lost", run_id)
            return end
