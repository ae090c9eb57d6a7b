"""How long a call to a model server may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from app.chat import ModelTimeout
from app.providers.transport import WireResponse

T = TypeVar("T")

Late: TypeAlias = Callable[[], ModelTimeout]
"""What to say where time is up."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a model server may take, in seconds; None is for ever.

    Attributes:
        connect: until a connection stands, with the wait for a free one of the pool.
        first_byte: from the request to the head of a streamed answer. A blocking answer has no head of its own: the
            server is silent until it has thought, so only `total` bounds it.
        idle: silence within an answer: of a stream from its head on, of a blocking answer once its body has begun.
            Only content breaks it, keep-alives do not; time in which the reader of the stream is busy does not count.
        end: from the finish reason to the end of a body. After it the answer is taken for whole: some servers leave
            the connection open.
        total: the whole call, with the time that the reader of a stream takes; `ChatOptions.timeout` is put in its
            place.
    """

    connect: float | None = 10.0
    first_byte: float | None = 300.0
    idle: float | None = 300.0
    end: float | None = 5.0
    total: float | None = 900.0


class Clock:
    """The time limits of one call, from now on.

    Args:
        timeouts: the limits.
        total: in place of their `total`, None leaves it.
        stream: whether the answer comes in pieces.
    """

    def __init__(self, timeouts: Timeouts, total: float | None, *, stream: bool) -> None:
        self._now = asyncio.get_running_loop().time
        self._total = timeouts.total if total is None else total
        self._ends = None if self._total is None else self._now() + self._total
        self._first_byte = timeouts.first_byte if stream else None
        self._idle = timeouts.idle
        self._begun = stream
        self._end = timeouts.end
        self._silent_since = self._now()

    def content_came(self) -> None:
        """The silence is over, and what came has been taken: silence begins anew."""
        self._begun = True
        self._silent_since = self._now()

    def at_most(self, seconds: float | None) -> float | None:
        """The moment `seconds` from now, or the end of the whole call if that is earlier."""
        return self._earlier(None if seconds is None else self._now() + seconds)

    async def head(self, send: Callable[[], Awaitable[T]]) -> T:
        """Wait for the head of an answer.

        Raises:
            ModelTimeout: it did not come in time.
        """

        def late() -> ModelTimeout:
            said = f"The model server did not begin to answer within {self._first_byte} s."
            return ModelTimeout(said, code="first_byte_timeout")

        until = self.at_most(self._first_byte)
        self._check(until, late)
        head = await self._wait(send, until, late)
        self._silent_since = self._now()
        return head

    async def piece(self, response: WireResponse, *, at_end: bool) -> bytes:
        """The next piece of its body, waited for where it has to be; `at_end` when the finish reason is known.

        Raises:
            ModelTimeout: it did not come in time, or there was no content for too long.
        """
        limit = self._end if at_end else self._idle if self._begun else None

        def late() -> ModelTimeout:
            said = f"The model server was silent for {limit} s in the middle of its answer."
            return ModelTimeout(said, code="idle_timeout")

        until = self._earlier(None if limit is None else self._silent_since + limit)
        self._check(until, late)
        piece = response.take()
        return await self._wait(response.read, until, late) if piece is None else piece

    def _earlier(self, moment: float | None) -> float | None:
        """This moment, or the end of the whole call if that is earlier."""
        if moment is None or self._ends is None:
            return self._ends if moment is None else moment
        return min(moment, self._ends)

    def _check(self, until: float | None, late: Late) -> None:
        # Also where the next piece is there already: a flood of keep-alives never lets us wait.
        if until is not None and until <= self._now():
            raise self._error(until, late)

    async def _wait(self, begin: Callable[[], Awaitable[T]], until: float | None, late: Late) -> T:
        try:
            async with asyncio.timeout_at(until):
                return await begin()
        except TimeoutError:
            raise self._error(until, late) from None

    def _error(self, until: float | None, late: Late) -> ModelTimeout:
        if self._total is not None and until == self._ends:
            return ModelTimeout(
                f"The model server's answer took longer than {self._total:.3g} s.", code="total_timeout"
            )
        return late()
