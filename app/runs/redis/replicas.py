"""The replicas: each renews a lease, hears what others tell it, and sees to what those leave behind that are gone."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from redis.asyncio.client import Pipeline

from app.runs.errors import SharedStateUnavailable
from app.runs.redis.connection import BLOCK, PAUSE, TIMEOUT, Connection, items_read

logger = logging.getLogger(__name__)

_LEASE_SHARE = 0.5
"""What of the lease a replica may be silent before it is missed; the rest is for noticing it."""

_TICKS = 10
"""How often a lease is renewed, and others looked at, within its time."""

_LOG_LENGTH = 1_000
_LOG_KEPT = 3600

Hear = Callable[[str, str], Awaitable[None]]
"""What is done with what another replica says: a verb, and the id of a run."""


class Replicas:
    """This process among those that share the same Redis.

    Args:
        connection: to Redis.
        lease: seconds after which the runs of a replica that is gone have been ended.
        hear: takes what others tell this one.
        back: done when the lease was renewed after others may have missed this replica, or Redis has forgotten it.
        bury: sees to all that a replica has left behind, by its id. May be done more than once.
        tick: done again and again.

    Attributes:
        id: this replica's.
        notice: seconds after which all have noticed that Redis has forgotten what it knew.
    """

    def __init__(
        self,
        connection: Connection,
        lease: float,
        *,
        hear: Hear,
        back: Callable[[], None],
        bury: Callable[[str], Awaitable[None]],
        tick: Callable[[], Awaitable[None]],
    ) -> None:
        self.id = secrets.token_hex(6)
        self._connection = connection
        self._silence = lease * _LEASE_SHARE
        self._interval = lease / _TICKS
        self.notice = self._interval + TIMEOUT
        self._hear = hear
        self._back = back
        self._bury = bury
        self._tick = tick
        self._heard_until = "0-0"
        self._clock = asyncio.get_running_loop().time
        self._tried_at = self._steady_since = self._clock()
        self._is_back = True
        self._missed: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to renew the lease and to hear. Redis need not answer yet."""
        try:
            await self._renew(is_first=True)
        except SharedStateUnavailable as error:
            logger.warning("the gateway starts without Redis: %s", error)
        works = (self._keep_lease, self._look_after, self._listen)
        self._tasks = [asyncio.create_task(work()) for work in works]

    async def stop(self) -> None:
        """Give the lease back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        redis = self._connection.redis
        try:
            async with asyncio.timeout(PAUSE):
                await self._connection.ask(redis.delete, self._lease(self.id), self._said_to(self.id))
        except (SharedStateUnavailable, TimeoutError):
            logger.info("Redis was not told of the end; what is kept there of this replica expires")

    def runs_of(self, replica: str) -> str:
        """The key of the set of a replica's runs."""
        return self._connection.key("replica", replica, "runs")

    def places_of(self, replica: str) -> str:
        """The key of the hash of a replica's places in lines: run ids, and the conversations."""
        return self._connection.key("replica", replica, "places")

    def tell(self, pipeline: Pipeline, replica: str, verb: str, run_id: str) -> None:
        """Say something to a replica."""
        said: dict[Any, Any] = {"verb": verb, "run": run_id}
        pipeline.xadd(self._said_to(replica), said, maxlen=_LOG_LENGTH)
        pipeline.expire(self._said_to(replica), _LOG_KEPT)

    async def present(self, replicas: Iterable[str]) -> set[str]:
        """Those of the replicas that are there."""
        names = sorted(set(replicas))
        if not names:
            return set()
        leases = await self._connection.ask(self._connection.redis.mget, [self._lease(name) for name in names])
        return {name for name, lease in zip(names, leases, strict=True) if lease is not None}

    async def be_sure(self) -> None:
        """See to it that nobody has missed this replica without its knowing, as far as Redis can be asked."""
        late = self._clock() - self._tried_at
        if late <= self._silence:
            return  # it is here, or knows that Redis is not
        logger.warning("this replica did nothing for %.1f s", late)
        patience = self._clock() + TIMEOUT + PAUSE
        while self._clock() < patience:  # what was asked when it fell silent fails first
            try:
                await self._renew()
            except SharedStateUnavailable:
                await asyncio.sleep(PAUSE)
            else:
                return

    def _lease(self, replica: str) -> str:
        return self._connection.key("replica", replica)

    def _said_to(self, replica: str) -> str:
        return self._connection.key("replica", replica, "said")

    @property
    def _all(self) -> str:
        """The key of the set of all replicas that may have left something behind."""
        return self._connection.key("replicas")

    async def _renew(self, *, is_first: bool = False) -> None:
        pipeline = self._connection.redis.pipeline(transaction=True)
        pipeline.set(self._lease(self.id), "here", px=int(self._silence * 1000), get=True)
        pipeline.sadd(self._all, self.id)
        silent_since, begun = self._tried_at, self._clock()
        try:
            held, _ = await self._connection.ask(pipeline.execute)
        except SharedStateUnavailable:
            self._is_back = False
            if self._clock() - begun <= max(self._silence, TIMEOUT + PAUSE):  # else it fell silent meanwhile
                self._tried_at = self._clock()
            raise
        self._tried_at = self._clock()
        if is_first:
            return
        if held is None or not self._is_back or self._tried_at - silent_since > self._silence:
            self._steady_since = self._tried_at
            self._missed.clear()
            self._is_back = True
            self._back()

    async def _keep_lease(self) -> None:
        while True:
            with suppress(TimeoutError):  # others may have missed this replica, or Redis has forgotten it
                async with asyncio.timeout(self._interval if self._is_back else min(self._interval, PAUSE)):
                    await self._connection.returned.wait()
            self._connection.returned.clear()
            try:
                await self._renew()
            except SharedStateUnavailable:
                self._is_back = False
            except Exception:
                self._is_back = False
                logger.exception("the lease cannot be renewed; trying again")

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self._tick()
                # After an outage others have to renew their leases first.
                if self._is_back and self._clock() - self._steady_since >= self._silence:
                    await self._look_for_missing()
            except SharedStateUnavailable:
                self._missed.clear()
            except Exception:
                logger.exception("the replicas cannot be looked after; trying again")

    async def _look_for_missing(self) -> None:
        """A replica that is missed twice in a row is gone."""
        names = await self._connection.ask(self._connection.redis.smembers, self._all)
        known = {name.decode() for name in names} - {self.id}
        missing = known - await self.present(known)
        for name in missing & self._missed:
            await self._bury_all_of(name)
        self._missed = missing - self._missed

    async def _bury_all_of(self, replica: str) -> None:
        await self._bury(replica)
        if not await self.present([replica]):
            await self._connection.ask(self._connection.redis.srem, self._all, replica)

    async def _listen(self) -> None:
        while True:
            behind: dict[Any, Any] = {self._said_to(self.id): self._heard_until}
            try:
                found = await self._connection.ask(self._connection.redis.xread, behind, block=int(BLOCK * 1000))
                for item, said in items_read(found):
                    self._heard_until = item.decode()
                    await self._take(said[b"verb"].decode(), said[b"run"].decode())
            except SharedStateUnavailable:
                await asyncio.sleep(PAUSE)
            except Exception:
                logger.exception("what other replicas say cannot be heard; trying again")
                await asyncio.sleep(PAUSE)

    async def _take(self, verb: str, run_id: str) -> None:
        try:
            await self._hear(verb, run_id)
        except Exception:
            logger.exception("what another replica said of %s cannot be done: %s", run_id, verb)
