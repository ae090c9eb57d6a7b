"""When to ask again, and how often at most.

The loop that asks is in `app.providers.routing.model` and is our own. tenacity and stamina repeat a callable or a
`with` block and decide by the exception alone; here the same exception is final once an event has been delivered, the
next try may go to another target with a wait of its own, and a wait ends in time for the target that waited longest.
With that said, of either library nothing but a `while` would be left.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often one call asks, and how long it waits between.

    The waits are short, for somebody waits at the other end, and an error that comes within the second is still an
    error of its own and not the end of a stream. Who asked can wait longer, and is told for how long.

    Attributes:
        attempts: how often one target is asked, the first time included.
        base_delay: seconds: the upper end of the first wait; it doubles with each further one.
        max_delay: seconds: where the doubling ends.
        max_retry_after: seconds: a server that wants more patience is not asked again; its wish goes to the caller.
    """

    attempts: int = 3
    base_delay: float = 0.1
    max_delay: float = 2.0
    max_retry_after: float = 2.0

    def delay(
        self, tries: int, retry_after: float | None, uniform: Callable[[], float] = random.random
    ) -> float | None:
        """Seconds until a target may be asked again.

        Full jitter: any time from none to the back-off's end, so that callers who failed together come back apart.

        Args:
            tries: how often it was asked.
            retry_after: what it wished for.
            uniform: gives a number from 0 to 1.

        Returns:
            None where it should not be asked again.
        """
        if tries >= self.attempts or (retry_after is not None and retry_after > self.max_retry_after):
            return None
        highest = min(self.max_delay, self.base_delay * 2.0 ** min(tries - 1, 60))
        return max(retry_after or 0.0, uniform() * highest)


class RetryBudget:
    """Bounds the retries of a process, so that an outage is not multiplied by everyone's patience.

    In any window of time there are at most `floor` retries and `ratio` more for each call.

    Args:
        ratio: retries for each call.
        floor: retries that there always are, for a gateway with few calls.
        window: seconds.
        now: a clock in seconds.
    """

    def __init__(
        self, *, ratio: float = 0.2, floor: int = 10, window: float = 10.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._ratio = ratio
        self._floor = floor
        self._calls = _Recent(window, now)
        self._retries = _Recent(window, now)

    def called(self) -> None:
        """A call began."""
        self._calls.add()

    def take(self) -> bool:
        """Take a retry out of the budget. Returns whether there was one."""
        if self._retries.count() + 1 > self._floor + self._ratio * self._calls.count():
            return False
        self._retries.add()
        return True


class _Recent:
    """Counts what happened within the last seconds."""

    def __init__(self, window: float, now: Callable[[], float]) -> None:
        self._window = window
        self._now = now
        self._times: deque[float] = deque()

    def add(self) -> None:
        now = self._now()
        self._forget(now)  # also where nobody asks how many there are
        self._times.append(now)

    def count(self) -> int:
        self._forget(self._now())
        return len(self._times)

    def _forget(self, now: float) -> None:
        oldest = now - self._window
        while self._times and self._times[0] <= oldest:
            self._times.popleft()
