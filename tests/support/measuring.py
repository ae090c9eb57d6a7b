"""Which lines are run is measured outside of greenlets, in which SQLAlchemy asks PostgreSQL."""

from __future__ import annotations

import sys
from typing import Any

from greenlet import greenlet, settrace  # type: ignore[import-untyped] # it has no types


class _Pause:
    """Is told of every switch, and lets nothing be traced within greenlets.

    Coverage takes the lines of a greenlet for those of whoever switched to it, unless it tells greenlets apart, for
    which every call of a function takes three times as long. The same lines are run in threads, for SQLite.
    """

    def __init__(self) -> None:
        self._trace: Any = None

    def __call__(self, event: str, switch: tuple[greenlet, greenlet]) -> None:
        """Stop tracing where a greenlet goes on, and resume where the thread's own one does."""
        _, target = switch
        if target.parent is None:
            if self._trace is not None:
                sys.settrace(self._trace)
                self._trace = None
        elif (trace := sys.gettrace()) is not None:
            self._trace = trace
            sys.settrace(None)


def measure_outside_of_greenlets() -> None:
    """From now on, in this thread."""
    settrace(_Pause())
