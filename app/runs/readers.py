"""Who reads a run, and what happens when nobody does any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Readers:
    """Counts the readers of one run.

    Args:
        abandoned: called when the last one has left and none has come back within `grace`; None = nothing is done.
        grace: seconds; 0 = at once.
    """

    def __init__(self, abandoned: Callable[[], None] | None = None, grace: float = 0.0) -> None:
        self._abandoned = abandoned
        self._grace = grace
        self._present: set[Reader] = set()
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def present(self) -> int:
        """How many there are."""
        return len(self._present)

    def enter(self) -> Reader:
        """One more reader. It must `leave`."""
        self._disarm()
        reader = Reader(self._leave)
        self._present.add(reader)
        return reader

    def _leave(self, reader: Reader) -> None:
        self._present.remove(reader)
        self.recheck()

    def recheck(self) -> None:
        """See whether nobody is there any more."""
        self._disarm()
        if self._present or self._abandoned is None:
            return
        if self._grace:
            self._alarm = asyncio.get_running_loop().call_later(self._grace, self._abandoned)
        else:
            self._abandoned()

    def close(self) -> None:
        """Nothing is done any more when the last one leaves."""
        self._disarm()
        self._abandoned = None

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


class Reader:
    """One who reads a run.

    Args:
        left: called once, when it goes away.
    """

    def __init__(self, left: Callable[[Reader], None]) -> None:
        self._left: Callable[[Reader], None] | None = left

    def leave(self) -> None:
        """Go away. Harmless when it has gone."""
        left, self._left = self._left, None
        if left is not None:
            left(self)

    def stay(self) -> None:
        """Count as there to the run's end, though it reads no more: it was sent away, and did not go by itself."""
        self._left = None
