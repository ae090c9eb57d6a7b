"""Which runs idempotency keys have begun."""

from __future__ import annotations

import json
import logging

from app.runs.errors import SharedStateUnavailable
from app.runs.redis.connection import Connection
from app.runs.redis.scripts import RELEASE
from app.runs.store import IdempotencyKey, key_reused

logger = logging.getLogger(__name__)

_CLAIM = 15
"""Seconds that a key has to begin its run: should the process be gone by then, it may begin another one."""


class Keys:
    """The keys of all replicas. What one has begun is kept as long as its record is.

    Args:
        connection: to Redis.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._release = connection.redis.register_script(RELEASE)

    def name(self, key: IdempotencyKey) -> str:
        """What Redis knows it by."""
        return self._connection.key("key", key.principal, key.text)

    async def claim(self, key: IdempotencyKey, run_id: str) -> str | None:
        """See `RunStore.claim`."""
        redis = self._connection.redis
        while True:
            if await self._connection.ask(redis.set, self.name(key), _claim(key, run_id), nx=True, ex=_CLAIM):
                return None
            held = await self._connection.ask(redis.get, self.name(key))
            if held is None:
                continue  # it has expired in this moment
            fingerprint, begun = json.loads(held)
            if fingerprint != key.fingerprint:
                raise key_reused()
            return None if begun == run_id else str(begun)

    async def unclaim(self, key: IdempotencyKey, run_id: str) -> None:
        """See `RunStore.unclaim`."""
        try:
            await self._connection.ask(self._release, [self.name(key)], [_claim(key, run_id)])
        except SharedStateUnavailable:
            logger.info("an idempotency key whose run was refused is free in %d s", _CLAIM)
        except Exception:
            logger.exception("an idempotency key whose run was refused cannot be freed")

    async def check(self, key: IdempotencyKey, run_id: str) -> None:
        """See to it that the key is still to begin this run.

        Raises:
            SharedStateUnavailable: nobody can tell, or it took too long.
        """
        held = await self._connection.ask(self._connection.redis.get, self.name(key))
        if held is None or held.decode() != _claim(key, run_id):
            raise SharedStateUnavailable("it took too long to begin the run of this key; try again")


def _claim(key: IdempotencyKey, run_id: str) -> str:
    return json.dumps([key.fingerprint, run_id])
