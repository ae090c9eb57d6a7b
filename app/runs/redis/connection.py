"""The connection to Redis: what its failures are to callers, and the names of its keys."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from app.runs.errors import SharedStateUnavailable

logger = logging.getLogger(__name__)

TIMEOUT = 2.0
"""Seconds for an answer."""

BLOCK = 1.0
"""Seconds that a read waits for new entries."""

_CONNECTIONS = 2_000


class Connection:
    """Redis, as all parts of the store use it.

    Args:
        url: such as `redis://:password@host:6379/0`.
        prefix: what all keys begin with.

    Attributes:
        redis: the client.
        available: whether it answered the last time.
    """

    def __init__(self, url: str, prefix: str = "gateway:") -> None:
        self.redis = Redis.from_url(
            url,
            socket_connect_timeout=TIMEOUT,
            socket_timeout=TIMEOUT + BLOCK,
            max_connections=_CONNECTIONS,
            retry=Retry(NoBackoff(), 1),  # a connection that was closed meanwhile
            health_check_interval=0,
        )
        self.available = True
        self._prefix = prefix

    def key(self, *parts: str) -> str:
        """The name of a key."""
        return self._prefix + ":".join(parts)

    async def ask(self, question: Awaitable[Any]) -> Any:
        """What Redis answers, in bytes: the client's own types allow for all that it can be set to.

        Raises:
            SharedStateUnavailable: it does not answer, or cannot do it now.
            ResponseError: it refuses what was asked.
        """
        try:
            answer = await question
        except ResponseError as error:
            if not str(error).startswith(_BUSY_WORDS):
                raise
            self._lost(error)
        except (RedisError, OSError) as error:
            self._lost(error)
        else:
            if not self.available:
                logger.warning("Redis answers again")
            self.available = True
            return answer
        raise SharedStateUnavailable("what the replicas share cannot be asked right now; try again in a moment")

    async def aclose(self) -> None:
        """Close the connections."""
        await self.redis.aclose()

    def _lost(self, error: Exception) -> None:
        if self.available:
            logger.warning("Redis does not answer: %s", type(error).__name__)
        self.available = False


_BUSY_WORDS = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "OOM", "MISCONF", "NOREPLICAS", "UNBLOCKED")
"""How answers begin that say that it can be done later, or elsewhere."""
