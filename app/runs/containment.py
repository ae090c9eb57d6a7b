"""Users' code cannot end more than the run it belongs to.

A tool that calls `sys.exit()`, or awaits a task that somebody cancelled, raises what event loops and tasks take for
an order: the one would end the process, the other a run without a last entry, whose readers would wait for ever.
"""

from __future__ import annotations

import asyncio

_PASSING = (Exception, GeneratorExit, KeyboardInterrupt)
"""Ordinary failures, and what Python itself raises to close a coroutine and on Ctrl-C."""


class Escaped(RuntimeError):
    """A tool, an advisor or the model raised what is no `Exception`; that is this one's cause."""


class contained:  # noqa: N801 - written as `contextlib` writes its own
    """Make failures of what users' code raises in this context to end its task or the process.

    Raises:
        Escaped: in place of `SystemExit`, of a cancellation that nobody asked of this task, and of anything else
            that is no `Exception`.
    """

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if error is None or isinstance(error, _PASSING):
            return
        if not (isinstance(error, asyncio.CancelledError) and _is_cancelled()):
            raise Escaped(f"a tool, an advisor or the model raised {type(error).__name__}") from error


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
