"""How long a call to a model server may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from app.chat import ModelTimeout

T = TypeVar("T")


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
        self._silent = 0.0

    def content_came(self) -> None:
        """The silence is over."""
        self._begun = True
        self._silent = 0.0

    def at_most(self, seconds: float | None) -> float | None:
        """The moment `seconds` from now, or the end of the whole call if that is earlier."""
        if seconds is None:
            return self._ends
        moment = self._now() + seconds
        return moment if self._ends is None else min(moment, self._ends)

    async def head(self, send: Callable[[], Awaitable[T]]) -> T:
        """Wait for the head of an answer.

        Raises:
            ModelTimeout: it did not come in time.
        """
        late = f"The model server did not begin to answer within {self._first_byte} s."
        return await self._wait(send, self._first_byte, ModelTimeout(late, code="first_byte_timeout"))

    async def piece(self, read: Callable[[], Awaitable[T]], *, at_end: bool) -> T:
        """Wait for a piece of its body; `at_end` when the finish reason is known.

        Raises:
            ModelTimeout: it did not come in time, or there was no content for too long.
        """
        limit = self._end if at_end else self._idle if self._begun else None
        left = None if limit is None else limit - self._silent
        late = f"The model server was silent for {limit} s in the middle of its answer."
        began = self._now()
        try:
            return await self._wait(read, left, ModelTimeout(late, code="idle_timeout"))
        finally:
            self._silent += self._now() - began

    async def _wait(self, begin: Callable[[], Awaitable[T]], seconds: float | None, late: ModelTimeout) -> T:
        until = self.at_most(seconds)
        if self._total is not None and until == self._ends:
            late = ModelTimeout(
                f"The model server's answer took longer than {self._total:.3g} s.", code="total_timeout"
            )
        if until is not None and until <= self._now():
            raise late  # also where the next piece is there already: a flood of keep-alives never lets us wait
        try:
            async with asyncio.timeout_at(until):
                return await begin()
        except TimeoutError:
            raise late from None
