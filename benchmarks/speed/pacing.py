"""Calls at moments that are finer than an event loop's timers, which know milliseconds."""

from __future__ import annotations

import asyncio
import heapq
import signal
import time
from collections.abc import Callable
from itertools import count

_COARSEST = 200_000
"""Nanoseconds between two looks at the clock. Where more calls are due than that, those of one look are made in a row,
and the pacing does not take all the processor's time."""


class Pacer:
    """Makes calls when they are due, by the system's interval timer: to some 0.1 ms on a machine that is not busy.

    There can be one in a process, in its main thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._looking = False
        loop.add_signal_handler(signal.SIGALRM, self._look)

    def call_at(self, moment: int, call: Callable[[], None]) -> None:
        """Make a call at a moment, in nanoseconds of the monotonic clock."""
        is_first = not self._due or moment < self._due[0][0]
        heapq.heappush(self._due, (moment, next(self._numbers), call))
        if is_first and not self._looking:
            self._arm()

    def _look(self) -> None:
        now, self._looking = time.monotonic_ns(), True
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()
        self._looking = False
        self._arm()

    def _arm(self) -> None:
        if self._due:
            wait = max(_COARSEST, self._due[0][0] - time.monotonic_ns())
            signal.setitimer(signal.ITIMER_REAL, wait / 1e9)
