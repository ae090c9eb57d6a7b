"""Threads for tools that are plain functions.

Why not `asyncio.to_thread` or a `ThreadPoolExecutor`: the interpreter waits for their threads when it ends, so one
tool that blocks for ever would keep the process alive; and their queues have no bound, so tools that hang would
quietly hold up every later call. Here the threads are daemons, and a call that finds no thread is refused.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from app.chat import ConfigurationError, ToolError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ToolThreadsBusy(ToolError):
    """Every thread for tools is taken, by calls that run or by timed-out ones that never came back."""


class _Job(Generic[T]):
    """One call: a function, the context it runs in, and the loop that waits for it.

    The future only says that the outcome is there. It never carries an exception, so that an outcome which nobody
    takes leaves no "exception was never retrieved" behind, and `StopIteration`, which futures refuse, is no problem.
    """

    def __init__(self, function: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._loop = loop
        self._result: T | None = None
        self._error: BaseException | None = None
        self.done: asyncio.Future[None] = loop.create_future()

    def run(self) -> None:
        """Call the function, in the calling thread."""
        try:
            self._result = self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001 - handed over: `outcome` raises it in the waiting task
            self._error = error

    def report(self) -> None:
        """Tell the waiting task, from the thread that ran the call."""
        with suppress(RuntimeError):  # the loop was closed in the meantime: nobody waits
            self._loop.call_soon_threadsafe(self._settle)

    def refuse(self, error: ToolError) -> None:
        """End a call that did not get a thread."""
        self._error = error
        self._settle()

    def _settle(self) -> None:
        if not self.done.done():  # abandoned calls are cancelled ones: their outcome is dropped
            self.done.set_result(None)

    def outcome(self) -> T:
        """The function's result, or its exception raised."""
        error, self._error = self._error, None
        if error is None:
            return self._result  # type: ignore[return-value]  # set: without an error the function has returned
        try:
            raise error
        finally:
            del error  # the traceback holds this frame: without this the two keep each other alive


class ToolThreads:
    """A bounded pool of daemon threads, for any number of event loops.

    Threads are started when needed and end when they have had no work for a while. A call that is abandoned (timed out,
    cancelled) keeps its thread until the function returns, for Python cannot stop a thread; what it then returns or
    raises is dropped.

    Args:
        max_threads: how many calls may run at once.
        max_wait: seconds a call waits for a thread when all are taken. Long enough for a burst of short calls,
            short enough that calls do not pile up behind tools that hang.
        max_idle: seconds a thread stays without work.

    Raises:
        ConfigurationError: fewer than one thread.
    """

    def __init__(self, max_threads: int = 32, *, max_wait: float = 1.0, max_idle: float = 30.0) -> None:
        if max_threads < 1:
            raise ConfigurationError(f"tools need at least one thread to run in; max_threads is {max_threads}")
        self._max_threads = max_threads
        self._max_wait = max_wait
        self._max_idle = max_idle
        self._waiting: deque[_Job[Any]] = deque()
        # Its lock may be entered anew, where a call is freed while it is held, as those of a closed loop may be.
        self._work_or_idle = threading.Condition()
        self._threads = 0
        self._busy = 0

    @property
    def busy(self) -> int:
        """How many threads are running a call, abandoned calls included."""
        return self._busy

    async def run(self, function: Callable[[], T]) -> T:
        """Call `function` in a thread, with a copy of the caller's context variables.

        Args:
            function: takes nothing; bind arguments with `functools.partial`.

        Returns:
            What the function returned.

        Raises:
            ToolThreadsBusy: no thread became free in time; the function was not called and will not be.
            BaseException: whatever the function raised. A `StopIteration` arrives as `RuntimeError`, as it does
                from every coroutine.
        """
        loop = asyncio.get_running_loop()
        job = _Job(function, loop)
        timer = None if self._submit(job) else loop.call_later(self._max_wait, self._refuse, job)
        try:
            await job.done
        except BaseException:
            self._withdraw(job)  # a call that nobody waits for any more is not begun
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return job.outcome()

    def _submit(self, job: _Job[Any]) -> bool:
        """Queue a call; whether there is a thread that takes it at once."""
        with self._work_or_idle:
            self._waiting.append(job)
            if len(self._waiting) > self._threads - self._busy and self._threads < self._max_threads:
                self._start_thread(job)
            self._work_or_idle.notify()
            return len(self._waiting) <= self._threads - self._busy

    def _start_thread(self, job: _Job[Any]) -> None:
        thread = threading.Thread(target=self._serve, name="tool", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._waiting.remove(job)
            raise ToolThreadsBusy(
                "The tool was not run: no thread could be started for it. Try again later."
            ) from error
        self._threads += 1

    def _refuse(self, job: _Job[Any]) -> None:
        if self._withdraw(job):
            logger.warning("a tool was refused: all %d threads for tools are busy", self._max_threads)
            job.refuse(
                ToolThreadsBusy(
                    f"The tool was not run: all {self._max_threads} threads for tools are busy. Try again later."
                )
            )

    def _withdraw(self, job: _Job[Any]) -> bool:
        """Take a call that waits out of the queue; False where a thread has taken it already."""
        with self._work_or_idle:
            try:
                self._waiting.remove(job)
            except ValueError:
                return False
            return True

    def _serve(self) -> None:
        while (job := self._take()) is not None:
            job.run()
            with self._work_or_idle:
                self._busy -= 1
            job.report()
            del job  # it holds the call's arguments, result and context

    def _take(self) -> _Job[Any] | None:
        with self._work_or_idle:
            if not self._work_or_idle.wait_for(lambda: self._waiting, timeout=self._max_idle):
                self._threads -= 1
                return None
            self._busy += 1
            return self._waiting.popleft()
