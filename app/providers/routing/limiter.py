"""How many calls a target gets at a time, and how many may wait for their turn."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from app.chat import ModelBusy

_RETRY_AFTER = 5.0
"""Seconds after which to come back to a full queue: when one of its many places is free is not to be known."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The room at one target.

    Attributes:
        concurrency: calls at a time; None = any number.
        queue: calls that may wait for their turn.
        patience: seconds a call waits; None = as long as its caller does.
    """

    concurrency: int | None = None
    queue: int = 100
    patience: float | None = 30.0


class Limiter:
    """Lets calls in, first come, first served. Each one that was let in has to `leave`.

    Args:
        limits: how many.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.active = 0

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether a call would be let in at once."""
        limit = self._limits.concurrency
        return limit is None or (self.active < limit and not self._waiting)

    @property
    def has_queue(self) -> bool:
        """Whether a call could wait."""
        return self.waiting < self._limits.queue

    def entered(self) -> bool:
        """Take a place, if there is one at once. Returns whether there was."""
        if not self.has_room:
            return False
        self.active += 1
        return True

    async def enter(self, at_most: float | None = None) -> None:
        """Take a place, waiting for it where there is none.

        Args:
            at_most: seconds the caller can wait, where that is less than may be waited.

        Raises:
            ModelBusy: the queue is full, or the turn did not come in time.
        """
        if self.entered():
            return
        if not self.has_queue:
            raise ModelBusy(
                f"The model server has its {self._limits.concurrency} calls, and as many wait as may.",
                code="queue_full",
                retry_after=_RETRY_AFTER,
            )
        patience = min((s for s in (at_most, self._limits.patience) if s is not None), default=None)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave()  # the turn came together with the end of the wait
            else:
                with suppress(ValueError):  # a place that came free has passed it by already
                    self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                raise ModelBusy(
                    f"The model server had no room for the call within {patience} s.",
                    code="queue_timeout",
                    retry_after=_RETRY_AFTER,
                ) from None
            raise

    def leave(self) -> None:
        """Give the place back: to the next who waits, if anybody does."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.active -= 1
