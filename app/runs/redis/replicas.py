"""The replicas: each renews a lease, hears what others tell it, and sees to the runs of those that are gone."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from app.runs.errors import SharedStateUnavailable
from app.runs.redis.connection import BLOCK, Connection
from app.runs.redis.journal import PAUSE

logger = logging.getLogger(__name__)

_LEASE_SHARE = 0.5
"""What of the lease a replica may be silent before it is missed; the rest is for noticing it."""

_TICKS = 10
"""How often a lease is renewed, and others looked at, within its time."""

_LOG_LENGTH = 1_000

Hear = Callable[[str, str], Awaitable[None]]
"""What is done with what another replica says: a verb, and the id of a run."""


class Replicas:
    """This process among those that share the same Redis.

    Args:
        connection: to Redis.
        lease: seconds after which the runs of a replica that is gone have been ended.
        hear: takes what others tell this one.
        bury: ends a run, by its id, whose replica is gone. May be called more than once.
        tick: done whenever the lease was renewed.

    Attributes:
        id: this replica's.
    """

    def __init__(
        self,
        connection: Connection,
        lease: float,
        *,
        hear: Hear,
        bury: Callable[[str], Awaitable[None]],
        tick: Callable[[], Awaitable[None]],
    ) -> None:
        self.id = secrets.token_hex(6)
        self._connection = connection
        self._silence = lease * _LEASE_SHARE
        self._interval = lease / _TICKS
        self._hear = hear
        self._bury = bury
        self._tick = tick
        self._heard_until = "0-0"
        self._steady_since: float | None = None
        self._missed: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to renew the lease and to hear. Redis need not answer yet."""
        try:
            await self._renew()
        except SharedStateUnavailable:
            self._steady_since = None
        self._tasks = [asyncio.create_task(self._keep()), asyncio.create_task(self._listen())]

    async def stop(self) -> None:
        """Give the lease back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        redis = self._connection.redis
        try:
            async with asyncio.timeout(PAUSE):
                await self._connection.ask(redis.delete(self._lease(self.id), self._said_to(self.id)))
        except (SharedStateUnavailable, TimeoutError):
            logger.info("Redis was not told of the end; what is kept there of this replica expires")

    def runs_of(self, replica: str) -> str:
        """The key of the set of a replica's runs."""
        return self._connection.key("replica", replica, "runs")

    @property
    def replicas(self) -> str:
        """The key of the set of replicas that have runs."""
        return self._connection.key("replicas")

    async def tell(self, replica: str, verb: str, run_id: str) -> None:
        """Say something to a replica.

        Raises:
            SharedStateUnavailable: Redis does not answer.
        """
        said: dict[Any, Any] = {"verb": verb, "run": run_id}
        pipeline = self._connection.redis.pipeline(transaction=False)
        pipeline.xadd(self._said_to(replica), said, maxlen=_LOG_LENGTH)
        pipeline.expire(self._said_to(replica), 3600)
        await self._connection.ask(pipeline.execute())

    def _lease(self, replica: str) -> str:
        return self._connection.key("replica", replica)

    def _said_to(self, replica: str) -> str:
        return self._connection.key("replica", replica, "said")

    async def _renew(self) -> None:
        redis = self._connection.redis
        await self._connection.ask(redis.set(self._lease(self.id), "here", px=int(self._silence * 1000)))

    async def _keep(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            try:
                await self._renew()
                await self._tick()
                self._steady_since = self._steady_since or clock()
                # After an outage others have to renew their leases first.
                if clock() - self._steady_since >= self._silence:
                    await self._look_for_missing()
            except SharedStateUnavailable:
                self._steady_since = None
                self._missed.clear()
            except Exception:
                logger.exception("the replicas cannot be looked after; trying again")
            await asyncio.sleep(self._interval)

    async def _look_for_missing(self) -> None:
        """A replica that is missed twice in a row is gone."""
        redis = self._connection.redis
        known = sorted(name.decode() for name in await self._connection.ask(redis.smembers(self.replicas)))
        others = [name for name in known if name != self.id]
        if not others:
            self._missed.clear()
            return
        leases = await self._connection.ask(redis.mget([self._lease(name) for name in others]))
        missing = {name for name, lease in zip(others, leases, strict=True) if lease is None}
        for name in missing & self._missed:
            await self._bury_all_of(name)
        self._missed = missing - self._missed

    async def _bury_all_of(self, replica: str) -> None:
        redis = self._connection.redis
        runs = await self._connection.ask(redis.smembers(self.runs_of(replica)))
        if runs:
            logger.warning("replica %s is gone, and %d runs with it", replica, len(runs))
        for run_id in runs:
            await self._bury(run_id.decode())
            await self._connection.ask(redis.srem(self.runs_of(replica), run_id))
        await self._connection.ask(redis.srem(self.replicas, replica))

    async def _listen(self) -> None:
        redis = self._connection.redis
        while True:
            try:
                found = await self._connection.ask(
                    redis.xread({self._said_to(self.id): self._heard_until}, block=int(BLOCK * 1000))
                )
                for item, said in _items(found):
                    self._heard_until = item.decode()
                    await self._hear(said[b"verb"].decode(), said[b"run"].decode())
            except SharedStateUnavailable:
                await asyncio.sleep(PAUSE)
            except Exception:
                logger.exception("what another replica said cannot be done")


def _items(found: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The items of the one stream that was read, by either version of the protocol."""
    if not found:
        return []
    return list(next(iter(found.values()))[0] if isinstance(found, dict) else found[0][1])
