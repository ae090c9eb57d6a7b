"""A run's journal as a Redis stream.

Entries that were ready together are one item of the stream, whose id is the number of the first of them: so an item is
written whole or not at all. An item is written only behind the one that its writer takes for the newest. So whoever
takes a run for lost and whoever goes on with it cannot both write the next entry, a question that Redis answers late
does no harm, and what Redis has forgotten is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.runs.codec import decode, encode
from app.runs.errors import EventsGone, RunGone, SharedStateUnavailable
from app.runs.journal import Entry, RunEnd, RunEvent, Span
from app.runs.redis.connection import BLOCK, LONGEST, PAUSE, Connection, items_read
from app.runs.redis.scripts import APPEND

_ENTRIES = 512
"""Entries that a reader is given at once: whoever comes late is not handed megabytes in one piece."""

_ITEMS = 32
"""Items that are read at once."""

_FIELD = b"e"


class EntryTaken(Exception):
    """The newest item is another one than the writer thought."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a stream.

    Attributes:
        number: of its first entry, by which it is known.
        entries: those in it.
    """

    number: int
    entries: Sequence[Entry]

    @property
    def last(self) -> Entry:
        """Its last entry."""
        return self.entries[-1]


async def _for_ever() -> bool:
    return True


class RedisJournal:
    """A run's entries in a Redis stream. See `Journal`.

    Args:
        connection: to Redis.
        key: of the stream.
        first: the number of its oldest entry, where the item with that one holds older ones too.
        is_going: whether more is to come, asked where nothing came for a while; None = always.
    """

    def __init__(
        self,
        connection: Connection,
        key: str,
        *,
        first: int = 1,
        is_going: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._connection = connection
        self._key = key
        self._first = first
        self._is_going = is_going or _for_ever
        self._append = connection.redis.register_script(APPEND)

    async def append(self, round_: int | None, *events: RunEvent) -> None:
        """See `Journal.append`. They become one item."""
        newest = await self.newest()
        first = newest.last.seq + 1 if newest else 1
        entries = [Entry(seq, round_, event) for seq, event in enumerate(events, first)]
        await self.write(entries, behind=newest.number if newest else 0)

    async def write(self, entries: Sequence[Entry], *, behind: int, first_kept: int | None = None) -> None:
        """Write entries as one item, all or none.

        Args:
            entries: with numbers that follow each other.
            behind: the number of the newest item, 0 where there is none.
            first_kept: items with smaller numbers are dropped; None = none is.

        Raises:
            EntryTaken: the newest item is another one.
            SharedStateUnavailable: Redis does not answer; it may have written them all the same.
        """
        lines = b"\n".join(encode(entry.round, entry.event) for entry in entries)
        kept = "" if first_kept is None else _id(first_kept)
        told: list[str | bytes | int] = [_id(behind), _id(entries[0].seq), lines, kept, LONGEST]
        if not await self._connection.ask(self._append, [self._key], told):
            raise EntryTaken(f"item {behind} is not the newest one")

    async def span(self) -> Span:
        """See `Journal.span`."""
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.xrange(self._key, count=1)
        pipeline.xrevrange(self._key, count=1)
        first, last = await self._connection.ask(pipeline.execute)
        return Span(max(_seq(first[0][0]), self._first), _item(last[0]).last.seq) if first else Span(1, 0)

    async def newest(self) -> Item | None:
        """The newest item, None where there is none."""
        found = await self._connection.ask(self._connection.redis.xrevrange, self._key, count=1)
        return _item(found[0]) if found else None

    async def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """See `Journal.follow`. While Redis does not answer, it waits."""
        item: int | None = None  # what is read next stands behind this one
        while True:
            is_sure = item is None
            try:
                if item is None and (item := await self._item_before(after + 1)) is None:
                    return
                batch = [entry for entry in await self._behind(item) if entry.seq > after]
                if not batch:
                    await self._check_going(after)
            except SharedStateUnavailable:
                await asyncio.sleep(PAUSE)
                continue
            if not batch or (batch[0].seq != after + 1 and not is_sure):
                item = None  # the items may have been written anew, and are others now
                continue
            if batch[0].seq != after + 1:
                raise EventsGone(batch[0].seq, after)
            for start in range(0, len(batch), _ENTRIES):
                yield batch[start : start + _ENTRIES]
            item = after = batch[-1].seq
            if isinstance(batch[-1].event, RunEnd):
                return

    async def _item_before(self, seq: int) -> int | None:
        """A number behind which the item with an entry stands, or will; None where the one before it is the last.

        Raises:
            RunGone: the last one is another one, and the reader had more.
        """
        found = await self._connection.ask(self._connection.redis.xrevrange, self._key, max=_id(seq), count=1)
        if not found:
            return 0
        item = _item(found[0])
        if item.last.seq >= seq:
            return item.number - 1
        if not isinstance(item.last.event, RunEnd):
            return item.number
        if item.last.seq < seq - 1:
            raise RunGone(f"the run ended with event {item.last.seq}, and this reader had {seq - 1}")
        return None

    async def _behind(self, item: int) -> Sequence[Entry]:
        """Entries of items behind one; waits for a while where there are none."""
        behind: dict[Any, Any] = {self._key: _id(item)}
        milliseconds = int(BLOCK * 1000)
        found = await self._connection.ask(self._connection.reading.xread, behind, count=_ITEMS, block=milliseconds)
        return [entry for one in items_read(found) for entry in _item(one).entries]

    async def _check_going(self, after: int) -> None:
        if await self._is_going():
            return
        newest = await self.newest()
        if newest is None or newest.last.seq <= after:  # else it came in this moment
            raise RunGone("the run is no longer kept")


async def ends(connection: Connection, keys: Sequence[str]) -> list[RunEnd | None]:
    """The ends that several journals have, by their keys, None where one has none."""
    pipeline = connection.redis.pipeline(transaction=False)
    for key in keys:
        pipeline.xrevrange(key, count=1)
    newest = [_item(found[0]).last.event if found else None for found in await connection.ask(pipeline.execute)]
    return [event if isinstance(event, RunEnd) else None for event in newest]


def _id(seq: int) -> str:
    return f"{seq}-0"


def _seq(item: bytes) -> int:
    return int(item.partition(b"-")[0])


def _item(read: tuple[bytes, dict[bytes, bytes]]) -> Item:
    number, fields = _seq(read[0]), read[1]
    return Item(number, [decode(seq, line) for seq, line in enumerate(fields[_FIELD].split(b"\n"), number)])
