"""A run's journal as a Redis stream.

Entries that were ready together are one item of the stream, whose id is the number of the first of them: so an item is
written whole or not at all, and Redis refuses a number that somebody else has written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from redis.exceptions import ResponseError

from app.runs.codec import decode, encode
from app.runs.errors import EventsGone, SharedStateUnavailable
from app.runs.journal import Entry, RunEnd, RunEvent, Span
from app.runs.redis.connection import BLOCK, Connection

PAUSE = 0.5
"""Seconds until Redis is asked again after it did not answer."""

LONGEST = 24 * 3600
"""Seconds after which what was written of a run is forgotten, should nobody ever write its end."""

_ITEMS = 64
"""Items that are read at once."""

_FIELD = b"e"


class EntryTaken(Exception):
    """An entry of this number was written by somebody else."""


class RedisJournal:
    """A run's entries in a Redis stream. See `Journal`.

    Args:
        connection: to Redis.
        key: of the stream.
    """

    def __init__(self, connection: Connection, key: str) -> None:
        self._connection = connection
        self._key = key

    async def append(self, round_: int | None, event: RunEvent) -> None:
        """See `Journal.append`."""
        last = await self.last()
        await self.write([Entry(1 if last is None else last.seq + 1, round_, event)])

    async def write(self, entries: Sequence[Entry], *, first_kept: int | None = None) -> None:
        """Write entries, all or none.

        Args:
            entries: with numbers that follow each other, above those that are there.
            first_kept: of items with smaller numbers all entries are dropped; None = nothing is.

        Raises:
            EntryTaken: there are entries of these numbers.
            SharedStateUnavailable: Redis does not answer; it may have written them all the same.
        """
        lines = b"\n".join(encode(entry.round, entry.event) for entry in entries)
        pipeline = self._connection.redis.pipeline(transaction=False)
        pipeline.xadd(self._key, {_FIELD: lines}, id=_id(entries[0].seq))
        if first_kept is not None:
            pipeline.xtrim(self._key, minid=_id(first_kept), approximate=False)
        pipeline.expire(self._key, LONGEST)
        try:
            await self._connection.ask(pipeline.execute())
        except ResponseError as error:
            raise EntryTaken(str(error)) from error

    async def span(self) -> Span:
        """See `Journal.span`."""
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.xrange(self._key, count=1)
        pipeline.xrevrange(self._key, count=1)
        first, last = await self._connection.ask(pipeline.execute())
        return Span(_entries(first)[0].seq, _entries(last)[-1].seq) if first else Span(1, 0)

    async def last(self) -> Entry | None:
        """The newest entry, None where there is none."""
        found = await self._connection.ask(self._connection.redis.xrevrange(self._key, count=1))
        return _entries(found)[-1] if found else None

    async def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """See `Journal.follow`. While Redis does not answer, it waits."""
        item = 0  # the stream's items are read from the one that holds the next entry
        while True:
            try:
                item = item or await self._item_before(after + 1)
                batch = [entry for entry in await self._next(item, after) if entry.seq > after]
            except SharedStateUnavailable:
                await asyncio.sleep(PAUSE)
                continue
            if not batch:
                continue
            if batch[0].seq != after + 1:
                raise EventsGone(f"events up to {batch[0].seq - 1} are no longer kept, and this reader had {after}")
            yield batch
            item = after = batch[-1].seq
            if isinstance(batch[-1].event, RunEnd):
                return

    async def _item_before(self, seq: int) -> int:
        """An id behind which the item with this entry stands."""
        found = await self._connection.ask(self._connection.redis.xrevrange(self._key, max=_id(seq), count=1))
        return _seq(found[0][0]) - 1 if found else 0

    async def _next(self, item: int, after: int) -> Sequence[Entry]:
        redis = self._connection.redis
        found = await self._connection.ask(redis.xread({self._key: _id(item)}, count=_ITEMS, block=int(BLOCK * 1000)))
        if found:
            return _entries(next(iter(found.values()))[0] if isinstance(found, dict) else found[0][1])
        last = await self.last()
        if last is None or last.seq < after or isinstance(last.event, RunEnd):
            raise EventsGone("the events of the run are no longer kept")
        return ()


def _id(seq: int) -> str:
    return f"{seq}-0"


def _seq(item: bytes) -> int:
    return int(item.partition(b"-")[0])


def _entries(items: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> list[Entry]:
    return [
        decode(seq, line) for item, fields in items for seq, line in enumerate(fields[_FIELD].split(b"\n"), _seq(item))
    ]
