"""Running the calls of one assistant message: when each starts, how long it may take, and how all of them end.

Every call is a task, and nobody waits for it: what comes next is done when the task says that it has ended, or when a
timer says that its time is up. So a tool that takes no notice of being cancelled cannot hold up the batch.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from app.chat import (
    Tool,
    ToolCall,
    ToolCallErrored,
    ToolCallProgress,
    ToolCallSucceeded,
    ToolContext,
    ToolFailed,
    ToolTimeout,
)
from app.chat.text import well_formed_text
from app.chat.tools import ProgressListener
from app.tooling.channel import CallEvent, Channel, Reporter
from app.tooling.failures import FailurePolicy

logger = logging.getLogger(__name__)

ContextOf: TypeAlias = Callable[[ToolCall, ProgressListener], ToolContext]
"""Makes a call's context."""

CallEnd: TypeAlias = ToolCallSucceeded | ToolCallErrored
"""What came of a call: a result, or an error as text for the model."""


@dataclass(slots=True, eq=False)
class _Run:
    """A call that is to be run, and where it stands.

    Attributes:
        place: among the calls of the batch.
        call: what was asked for.
        tool: what is run.
        timeout: seconds it may take; None = as long as it likes.
        started: when it began.
        reporter: listens to its progress, once it has begun.
        task: runs the tool, once it has begun.
        timer: goes off when its time is up; once it is cancelled, when that has taken too long.
        is_late: its time was up, so it was cancelled.
    """

    place: int
    call: ToolCall
    tool: Tool
    timeout: float | None
    started: float = field(init=False)
    reporter: Reporter = field(init=False)
    task: asyncio.Task[str | BaseException] = field(init=False)
    timer: asyncio.TimerHandle | None = None
    is_late: bool = False


class Batch:
    """The calls of one assistant message. Made in a running event loop, planned, started, read, and stopped.

    Args:
        context_of: makes a call's context.
        failures: what becomes of exceptions.
        max_concurrency: how many tools may run at once.
        cancel_grace: seconds that a cancelled tool has for cleaning up.
        left_running: where tools that ignore their cancellation are kept until they end after all.
    """

    def __init__(
        self,
        context_of: ContextOf,
        *,
        failures: FailurePolicy,
        max_concurrency: int,
        cancel_grace: float,
        left_running: set[asyncio.Task[Any]],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._context_of = context_of
        self._failures = failures
        self._max_concurrency = max_concurrency
        self._cancel_grace = cancel_grace
        self._left_running = left_running
        self._channel = Channel()
        self._size = 0
        self._untold = 0
        self._waiting: deque[_Run] = deque()
        self._running: dict[_Run, None] = {}  # as they began, and so they are cancelled
        self._ends: dict[int, CallEnd] = {}
        self._is_over = False

    @property
    def ends(self) -> list[CallEnd]:
        """What came of the calls, in the order they were planned; complete when `next_event` has told all."""
        return [self._ends[place] for place in sorted(self._ends)]

    def run_call(self, call: ToolCall, tool: Tool, timeout: float | None) -> None:
        """Plan to run the next call."""
        self._waiting.append(_Run(self._next_place(), call, tool, timeout))

    def refuse_call(self, call: ToolCall, why: str) -> None:
        """Answer the next call with an error instead of running it."""
        self._tell(self._next_place(), ToolCallErrored(call.id, call.name, why, 0.0))

    def start(self) -> None:
        """Begin all calls that may run now. The others follow as soon as they may, whether anybody reads or not."""
        while self._waiting and self._may_begin(self._waiting[0]):
            self._begin(self._waiting.popleft())

    async def next_event(self) -> CallEvent | None:
        """What is to be told next: each call has exactly one end, told in the order of ending. None = no more.

        Raises:
            BaseException: an exception of a tool that goes to the caller; all other calls were cancelled.
        """
        if not self._untold:
            return None
        event = await self._channel.get()
        if isinstance(event, BaseException):
            raise event
        if not isinstance(event, ToolCallProgress):
            self._untold -= 1
        return event

    async def stop(self) -> None:
        """End the batch, however far it is.

        Afterwards every tool is done, cancelled and cleaned up, or left running because it ignored its cancellation
        for `cancel_grace` seconds.

        Raises:
            CancelledError: the waiting task was cancelled; raised when the waiting is over, not before.
        """
        self._cancel_all()
        cancelled: asyncio.CancelledError | None = None
        while self._running:
            try:
                await self._channel.woken()
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _next_place(self) -> int:
        self._size += 1
        self._untold += 1
        return self._size - 1

    def _may_begin(self, run: _Run) -> bool:
        """Whether the calls that are running leave room for one that follows them."""
        if not self._running:
            return True
        if len(self._running) >= self._max_concurrency or _is_alone(run):
            return False
        return not any(map(_is_alone, self._running))

    def _begin(self, run: _Run) -> None:
        call = run.call
        run.reporter = Reporter(self._channel, call)
        work = _call(run.tool, call, self._context_of(call, run.reporter))
        run.started = time.perf_counter()
        run.task = self._loop.create_task(work, name=f"tool {call.name}")
        self._running[run] = None
        run.task.add_done_callback(partial(self._ended, run))
        if run.timeout is not None:
            run.timer = self._loop.call_later(run.timeout, self._time_is_up, run)

    def _ended(self, run: _Run, task: asyncio.Task[Any]) -> None:
        if run in self._running:
            self._finish(run)
        else:
            self._left_running.discard(task)

    def _time_is_up(self, run: _Run) -> None:
        run.is_late = self._cancel(run)

    def _cancel(self, run: _Run) -> bool:
        """Have a tool clean up, but not for too long; False where it has just ended."""
        if not run.task.cancel():
            return False
        if run.timer is not None:
            run.timer.cancel()
        run.timer = self._loop.call_later(self._cancel_grace, self._leave, run)
        self._channel.close(run.reporter)
        return True

    def _cancel_all(self) -> None:
        """Begin nothing more, and let nothing go on."""
        if self._is_over:
            return
        self._is_over = True
        self._waiting.clear()
        for run in self._running:
            if not run.is_late:
                self._cancel(run)

    def _leave(self, run: _Run) -> None:
        if run.task.done():
            return
        call = run.call
        logger.warning("tool %s ignores its cancellation in call %r; it is left running", call.name, call.id)
        self._left_running.add(run.task)
        self._finish(run)

    def _finish(self, run: _Run) -> None:
        """Take what came of a call that has ended or is left running, and go on with the others."""
        del self._running[run]
        self._channel.close(run.reporter)
        if run.timer is not None:
            run.timer.cancel()
        if self._is_over:
            self._channel.wake()
            return
        try:
            self._take(run, self._outcome(run))
            self.start()
        except BaseException as error:  # noqa: BLE001 - handed over: the reader would wait for ever
            self._raise(error)

    def _outcome(self, run: _Run) -> str | BaseException:
        """The tool's result, or what it raised; a time-out where it took longer than its time."""
        task, call = run.task, run.call
        if not run.is_late:
            return asyncio.CancelledError() if task.cancelled() else task.result()
        timeout = run.timeout
        logger.warning("tool %s did not end within %g s in call %r", call.name, timeout, call.id)
        late = task.result() if task.done() and not task.cancelled() else None
        if isinstance(late, BaseException):
            if not isinstance(late, Exception):
                return late
            self._failures.log(call, late)
        return ToolTimeout(f"The tool {call.name} did not end within {timeout:g} seconds. It may have taken effect.")

    def _take(self, run: _Run, outcome: str | BaseException) -> None:
        call = run.call
        ms = (time.perf_counter() - run.started) * 1000
        if isinstance(outcome, str):
            self._tell(run.place, ToolCallSucceeded(call.id, call.name, outcome, ms))
        elif self._failures.raises(outcome):
            outcome.add_note(f"raised by the tool {call.name} in call {call.id!r}")
            self._raise(outcome)
        else:
            self._failures.log(call, outcome)
            text = well_formed_text(self._failures.text(call, outcome))
            self._tell(run.place, ToolCallErrored(call.id, call.name, text, ms))

    def _tell(self, place: int, end: CallEnd) -> None:
        self._ends[place] = end
        self._channel.put(end)

    def _raise(self, error: BaseException) -> None:
        """End the batch with an exception for its reader; at once, so that nothing more is started."""
        self._channel.put(error)
        self._cancel_all()


def _is_alone(run: _Run) -> bool:
    return run.tool.metadata.sequential


async def _call(tool: Tool, call: ToolCall, context: ToolContext) -> str | BaseException:
    """The tool's result, or what it raised: a `SystemExit` that left this task would end the event loop."""
    try:
        result: object = await tool.call(call.arguments, context)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - handed over: the batch raises it where it is read
        return error
    if isinstance(result, str):
        return well_formed_text(result)
    kind = type(result).__name__
    logger.error("tool %s gave a result of type %s, not text", call.name, kind)
    return ToolFailed(f"The tool {call.name} gave a result of type {kind} where text is expected.")
