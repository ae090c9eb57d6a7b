"""Users' code cannot end more than the run it belongs to.

A tool that calls `sys.exit()`, or awaits a task that somebody cancelled, raises what event loops and tasks take for
an order: the one would end the process, the other a run without a last entry, whose readers would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_PASSING = (Exception, GeneratorExit, KeyboardInterrupt)
"""Ordinary failures, and what Python itself raises to close a coroutine and on Ctrl-C."""


class Escaped(RuntimeError):
    """A tool, an advisor or the model raised what is no `Exception`; that is this one's cause."""


@contextmanager
def contained() -> Iterator[None]:
    """Make failures of what users' code raises to end its task or the process.

    Raises:
        Escaped: in place of `SystemExit`, of a cancellation that nobody asked of this task, and of anything else
            that is no `Exception`.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, _PASSING) or (isinstance(error, asyncio.CancelledError) and _is_cancelled()):
            raise
        raise Escaped(f"a tool, an advisor or the model raised {type(error).__name__}") from error


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
