"""The connection to Redis: what its failures are to callers, and the names of its keys."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ParamSpec
from urllib.parse import quote

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ClusterDownError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError, TryAgainError
from redis.exceptions import ConnectionError as NotConnected

from app.runs.errors import SharedStateUnavailable

logger = logging.getLogger(__name__)

P = ParamSpec("P")

TIMEOUT = 2.0
"""Seconds for an answer."""

BLOCK = 1.0
"""Seconds that a read waits for new entries."""

PAUSE = 0.5
"""Seconds until Redis is asked again after it did not answer. Whoever asks meanwhile is told so at once."""

LONGEST = 24 * 3600
"""Seconds after which what is kept of a run is forgotten, should nobody ever write its end."""

_ASKING = 64
"""Connections for questions that are answered at once. Who finds none free waits."""

_READING = 1_000
"""Connections for reads that wait. Who finds none free waits, and all readers hear a little later of what is new."""

_LATER = (ReadOnlyError, OutOfMemoryError, ClusterDownError, TryAgainError)
_LATER_WORDS = ("MISCONF", "NOREPLICAS", "UNBLOCKED", "BUSY ")
"""Answers that say that it can be done later, or elsewhere: kinds, and how others begin."""


class Connection:
    """Redis, as all parts of the store use it.

    Args:
        url: such as `redis://:password@host:6379/0`.
        prefix: what all keys begin with.

    Attributes:
        redis: the client.
        reading: the client for reads that wait.
        available: whether it answered the last time.
        returned: set when it answers after it did not.
    """

    def __init__(self, url: str, prefix: str = "gateway:") -> None:
        self.redis = _client(url, _ASKING, patience=TIMEOUT, timeout=TIMEOUT)
        self.reading = _client(url, _READING, patience=None, timeout=TIMEOUT + BLOCK)
        self.available = True
        self.returned = asyncio.Event()
        self._prefix = prefix
        self._asked_again_at = 0.0

    def key(self, *parts: str) -> str:
        """The name of a key. Other parts give another name, whatever callers put into them."""
        return self._prefix + ":".join(quote(part, safe="", errors="surrogatepass") for part in parts)

    async def ask(self, question: Callable[P, Awaitable[Any]], *args: P.args, **kwargs: P.kwargs) -> Any:
        """What Redis answers, in bytes: the client's own types allow for all that it can be set to.

        Args:
            question: a method of a client, a pipeline's `execute`, or a script.
            *args: what it takes.
            **kwargs: what it takes by name.

        Raises:
            SharedStateUnavailable: it does not answer, or cannot do it now. It may have done it all the same.
            ResponseError: it refuses what was asked.
        """
        now = asyncio.get_running_loop().time()
        if not self.available:
            if now < self._asked_again_at:
                raise _unavailable()
            self._asked_again_at = now + PAUSE
        try:
            answer = await _heeding_cancellation(question(*args, **kwargs))
        except ResponseError as error:
            if not isinstance(error, _LATER) and not str(error).startswith(_LATER_WORDS):
                raise
            self._lost(error)
        except (RedisError, OSError) as error:
            self._lost(error)
        else:
            if not self.available:
                logger.warning("Redis answers again")
                self.available = True
                self.returned.set()
            return answer
        raise _unavailable()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.redis.aclose()
        await self.reading.aclose()

    def _lost(self, error: Exception) -> None:
        if self.available:
            logger.warning("Redis does not answer: %s", type(error).__name__)
        self.available = False
        self._asked_again_at = asyncio.get_running_loop().time() + PAUSE


async def _heeding_cancellation(question: Awaitable[Any]) -> Any:
    """What is answered. The client loses a cancellation that comes while it sends, where Python is older than 3.12."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        return await question
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError


def items_read(answer: Any) -> Sequence[tuple[bytes, dict[bytes, bytes]]]:
    """The items of the one stream that was read, by either version of the protocol; none where none came in time."""
    if not answer:
        return []
    return list(next(iter(answer.values()))[0] if isinstance(answer, dict) else answer[0][1])


def _client(url: str, connections: int, *, patience: float | None, timeout: float) -> Redis:
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=patience,
        socket_connect_timeout=TIMEOUT,
        socket_timeout=timeout,
        # A connection that was closed meanwhile is opened again. What took too long is not asked twice.
        retry=Retry(NoBackoff(), 1, (NotConnected,)),
        encoding_errors="surrogatepass",
    )
    return Redis.from_pool(pool)


def _unavailable() -> SharedStateUnavailable:
    return SharedStateUnavailable("what the replicas share cannot be asked right now; try again in a moment")
