"""The lines of conversations, kept in Redis lists: the run that stands first has the word."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from app.runs.errors import RunLost, SharedStateUnavailable
from app.runs.local_run import LocalRun
from app.runs.redis.connection import LONGEST, Connection
from app.runs.redis.records import Record, Records
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
        mine: the runs of this replica.
    """

    def __init__(
        self, connection: Connection, records: Records, replicas: Replicas, mine: Mapping[str, LocalRun]
    ) -> None:
        self._connection = connection
        self._records = records
        self._replicas = replicas
        self._mine = mine
        self._clock = asyncio.get_running_loop().time
        self._places: dict[str, RedisPlace] = {}
        self._to_leave: dict[str, str] = {}

    async def enter(self, conversation_id: str, run_id: str, when_busy: WhenBusy) -> RedisPlace:
        """See `RunStore.enter`."""
        place = self._places[run_id] = RedisPlace(self, conversation_id, run_id)
        try:
            before = await self._join(place)
            if when_busy == "reject":
                await self._check_idle(conversation_id, before)
            if when_busy == "cancel_previous":
                for earlier in before:
                    await self.cancel(earlier)
        except BaseException:
            await self.leave(place)
            raise
        place.is_first = place.has_the_word = not before
        return place

    async def cancel(self, run_id: str) -> None:
        """Have a run ended, wherever it goes on. One that has ended is passed over."""
        if run := self._mine.get(run_id):
            run.cancel()
            return
        record = await self._records.find(run_id)
        if record is None or record.is_going:
            await self._records.mark_ending(run_id)  # seen by one that is about to begin
        if record is not None and record.is_going:
            await self._tell(record, "cancel")

    async def wait(self, place: RedisPlace) -> None:
        """Until a place is the first one."""
        while not place.has_the_word:
            place.called.clear()
            if await self._takes_the_word(place):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await place.called.wait()

    def your_turn(self, run_id: str) -> None:
        """Somebody says that a run stands first."""
        if place := self._places.get(run_id):
            place.called.set()

    async def leave(self, place: RedisPlace) -> None:
        """Give a place up and tell the next one. What Redis is not told now it is told later."""
        if self._places.pop(place.run_id, None) is not None:
            self._to_leave[place.run_id] = place.conversation_id
            leaving = asyncio.ensure_future(self.leave_those_that_should())
            try:
                await asyncio.shield(leaving)
            except Exception:
                logger.exception("%s cannot give up its place in conversation %r", place.run_id, place.conversation_id)

    async def leave_those_that_should(self) -> None:
        """Tell Redis of all that have left and could not be taken out yet."""
        for run_id, conversation_id in list(self._to_leave.items()):
            try:
                await self.take_out(conversation_id, run_id, self._replicas.id)
            except SharedStateUnavailable:
                return
            self._to_leave.pop(run_id, None)

    async def take_out(self, conversation_id: str, run_id: str, replica: str) -> None:
        """Take a run of a replica out of the line and tell the one that is then the first."""
        line = self._line(conversation_id)
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.lrem(line, 0, run_id)
        pipeline.hdel(self._replicas.places_of(replica), run_id)
        pipeline.lindex(line, 0)
        removed, _, first = await self._connection.ask(pipeline.execute)
        if not removed or first is None:
            return
        next_one = first.decode()
        if next_one in self._places:
            self.your_turn(next_one)
        elif record := await self._records.find(next_one):
            await self._tell(record, "turn")

    async def stand_again(self) -> None:
        """Take the places of this replica anew that Redis has forgotten, those that have the word before all others."""
        for place in list(self._places.values()):
            run = self._mine.get(place.run_id)
            if (run is None or run.end is None) and not (await self._look(place))[1]:
                await self._stand(place)

    async def take_out_unknown(self) -> None:
        """Take out what stands for this replica and is none of its places.

        A question that Redis did not answer may have been heard all the same, after what was asked then.
        """
        redis = self._connection.redis
        held = await self._connection.ask(redis.hgetall, self._replicas.places_of(self._replicas.id))
        for name, conversation in held.items():
            if name.decode() not in self._places:
                await self.take_out(conversation.decode("utf-8", "surrogatepass"), name.decode(), self._replicas.id)

    async def _join(self, place: RedisPlace) -> list[str]:
        """Stand at the end of the line.

        Returns:
            Those before, the first one first.
        """
        line = self._line(place.conversation_id)
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.hset(self._replicas.places_of(self._replicas.id), place.run_id, place.conversation_id)
        pipeline.rpush(line, place.run_id)
        pipeline.expire(line, LONGEST)
        pipeline.lrange(line, 0, -1)
        *_, names = await self._connection.ask(pipeline.execute)
        standing = [name.decode() for name in names]
        return standing[: standing.index(place.run_id)]

    async def _check_idle(self, conversation_id: str, run_ids: Sequence[str]) -> None:
        records = await self._records.find_all(run_ids)
        for run_id, record in zip(run_ids, records, strict=True):
            if run := self._mine.get(run_id):
                is_busy = not run.is_ending
            else:  # one without a record is just being begun
                is_busy = record is None or (record.is_going and not record.is_ending)
            if is_busy:
                raise conversation_busy(conversation_id)

    async def _takes_the_word(self, place: RedisPlace) -> bool:
        with suppress(SharedStateUnavailable):
            if await self._is_first(place):
                place.has_the_word = True
                await self._records.mark_running(place.run_id)
        return place.has_the_word

    async def _is_first(self, place: RedisPlace) -> bool:
        first, stands = await self._look(place)
        if first == place.run_id:
            return self._clock() >= place.not_before
        if not stands:
            record = await self._records.find(place.run_id)
            if record is not None and not record.is_going:
                raise RunLost("other replicas took this run for lost while it waited")
            await self._stand(place)
        elif first is not None and first not in self._mine:
            record = await self._records.find(first)
            if record is not None and not record.is_going:  # it has ended and could not say so
                await self.take_out(place.conversation_id, first, record.replica)
        return False

    async def _look(self, place: RedisPlace) -> tuple[str | None, bool]:
        """Who is the first one, and whether the place is in the line at all."""
        line = self._line(place.conversation_id)
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.lindex(line, 0)
        pipeline.lpos(line, place.run_id)
        first, position = await self._connection.ask(pipeline.execute)
        return None if first is None else first.decode(), position is not None

    async def _stand(self, place: RedisPlace) -> None:
        line = self._line(place.conversation_id)
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.hset(self._replicas.places_of(self._replicas.id), place.run_id, place.conversation_id)
        pipeline.lrem(line, 0, place.run_id)
        if place.has_the_word:
            pipeline.lpush(line, place.run_id)
        else:
            pipeline.rpush(line, place.run_id)
            place.not_before = self._clock() + self._replicas.notice  # whoever has the word stands in front by then
        pipeline.expire(line, LONGEST)
        await self._connection.ask(pipeline.execute)

    async def _tell(self, record: Record, verb: str) -> None:
        pipeline = self._connection.redis.pipeline(transaction=False)
        self._replicas.tell(pipeline, record.replica, verb, record.id)
        await self._connection.ask(pipeline.execute)

    def _line(self, conversation_id: str) -> str:
        return self._connection.key("conversation", conversation_id, "line")


class RedisPlace:
    """A place in the line of a conversation. See `Place`.

    Attributes:
        conversation_id: the conversation.
        run_id: the run that stands there, or what stands for something else.
        is_first: see `Place.is_first`.
        has_the_word: whether all that were before have left.
        not_before: when it may have the word at the earliest, by the time of the event loop.
        called: set when somebody says that it is the first one.
    """

    def __init__(self, lines: Lines, conversation_id: str, run_id: str) -> None:
        self.conversation_id = conversation_id
        self.run_id = run_id
        self.is_first = False
        self.has_the_word = False
        self.not_before = 0.0
        self.called = asyncio.Event()
        self._lines = lines

    async def wait(self) -> None:
        """See `Place.wait`."""
        await self._lines.wait(self)

    async def leave(self) -> None:
        """See `Place.leave`."""
        await self._lines.leave(self)
