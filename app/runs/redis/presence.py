"""Who reads a run at other replicas than its own, which cancels it when nobody does."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

from app.runs.errors import SharedStateUnavailable
from app.runs.readers import Reader
from app.runs.redis.connection import LONGEST, Connection
from app.runs.redis.records import Record, Records
from app.runs.redis.replicas import Replicas

logger = logging.getLogger(__name__)


class Presence:
    """The readers of runs that go on elsewhere. Each counts as long as the replica that it reads at is there.

    Args:
        connection: to Redis.
        records: of runs.
        replicas: carry word that a reader has left.
        do: does work in the background.
    """

    def __init__(
        self,
        connection: Connection,
        records: Records,
        replicas: Replicas,
        do: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._connection = connection
        self._records = records
        self._replicas = replicas
        self._do = do
        self._here: dict[str, Record] = {}
        self._left: dict[str, Record] = {}

    async def enter(self, record: Record) -> Reader:
        """One more reader of a run of another replica.

        Raises:
            SharedStateUnavailable: that one cannot be told.
        """
        name = f"{self._replicas.id}/{secrets.token_hex(6)}"
        self._here[name] = record
        try:
            await self._note(name, record)
        except BaseException:
            self._leave(name)
            raise
        return Reader(lambda _: self._leave(name))

    async def is_read(self, run_id: str) -> bool:
        """Whether a run has readers at other replicas that are there."""
        found = await self._connection.ask(self._connection.redis.smembers, self._records.readers(run_id))
        replicas = {name.decode().partition("/")[0] for name in found}
        return bool(await self._replicas.present(replicas - {self._replicas.id}))

    async def enter_again(self) -> None:
        """Note readers anew whom Redis may have forgotten."""
        for name, record in list(self._here.items()):
            await self._note(name, record)

    async def tell_who_left(self) -> None:
        """Tell of readers who have left, and whose run could not be told."""
        for name, record in list(self._left.items()):
            pipeline = self._connection.redis.pipeline(transaction=False)
            pipeline.srem(self._records.readers(record.id), name)
            self._replicas.tell(pipeline, record.replica, "left", record.id)
            await self._connection.ask(pipeline.execute)
            self._left.pop(name, None)

    async def _note(self, name: str, record: Record) -> None:
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.sadd(self._records.readers(record.id), name)
        pipeline.expire(self._records.readers(record.id), LONGEST)
        await self._connection.ask(pipeline.execute)

    def _leave(self, name: str) -> None:
        self._left[name] = self._here.pop(name)
        self._do(self._tell_now())

    async def _tell_now(self) -> None:
        try:
            await self.tell_who_left()
        except SharedStateUnavailable:
            logger.info("a run is told later that a reader has left")
