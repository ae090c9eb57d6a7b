"""Running the calls of one assistant message: when each starts, how long it may take, and how all of them end.

Every call has two tasks: one runs the tool, the other watches over it. A watcher runs none of the tool's code, so it
ends in time whatever the tool does with a cancellation, and the batch is over when its watchers are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call: a result, or an error as text for the model."""

    text: str
    is_error: bool
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class _Planned:
    place: int
    call: ToolCall
    tool: Tool
    timeout: float | None


class Batch:
    """The calls of one assistant message. Made in a running event loop, planned, then run once.

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
        self._context_of = context_of
        self._failures = failures
        self._slots = asyncio.Semaphore(max_concurrency)
        self._cancel_grace = cancel_grace
        self._left_running = left_running
        self._channel = Channel()
        self._size = 0
        self._planned: list[_Planned] = []
        self._answers: dict[int, Answer] = {}
        self._watchers: list[asyncio.Task[None]] = []
        self._over = False

    @property
    def answers(self) -> list[Answer]:
        """What came of the calls, in the order they were planned; complete when `run` has ended."""
        return [self._answers[place] for place in sorted(self._answers)]

    def run_call(self, call: ToolCall, tool: Tool, timeout: float | None) -> None:
        """Plan to run the next call."""
        self._planned.append(_Planned(self._next_place(), call, tool, timeout))

    def refuse_call(self, call: ToolCall, why: str) -> None:
        """Answer the next call with an error instead of running it."""
        self._answer(self._next_place(), call, Answer(why, is_error=True))

    async def run(self) -> AsyncGenerator[CallEvent, None]:
        """Run what was planned and tell of it; each call has exactly one end, told in the order of ending.

        When this generator ends, in whatever way, every watcher has ended and every tool is done, cancelled and
        cleaned up, or left running because it ignored its cancellation for `cancel_grace` seconds.

        Raises:
            BaseException: an exception of a tool that goes to the caller; all other calls were cancelled.
        """
        unanswered = self._size
        try:
            self._start()
            while unanswered:
                event = await self._channel.get()
                if isinstance(event, BaseException):
                    raise event
                if not isinstance(event, ToolCallProgress):
                    unanswered -= 1
                yield event
        finally:
            self._stop()
            await wait_out(self._watchers)

    def _next_place(self) -> int:
        self._size += 1
        return self._size - 1

    def _start(self) -> None:
        barrier: list[asyncio.Task[None]] = []
        since: list[asyncio.Task[None]] = []
        for planned in self._planned:
            alone = planned.tool.metadata.sequential
            watcher = asyncio.create_task(self._watch(planned, [*barrier, *since] if alone else barrier))
            watcher.add_done_callback(self._watcher_ended)
            self._watchers.append(watcher)
            if alone:
                barrier, since = [watcher], []
            else:
                since.append(watcher)

    def _stop(self) -> None:
        self._over = True
        for watcher in self._watchers:
            watcher.cancel()

    def _raise(self, error: BaseException) -> None:
        """End the batch with an exception for its reader; at once, so that nothing more is started."""
        self._channel.put(error)
        self._stop()

    async def _watch(self, planned: _Planned, after: Collection[asyncio.Task[None]]) -> None:
        if after:
            await asyncio.wait(after)
        async with self._slots:
            started = time.perf_counter()
            outcome = await self._outcome(planned)
            ms = (time.perf_counter() - started) * 1000
        if isinstance(outcome, str):
            self._answer(planned.place, planned.call, Answer(outcome, is_error=False, ms=ms))
        elif self._failures.raises(outcome):
            outcome.add_note(f"raised by the tool {planned.call.name} in call {planned.call.id!r}")
            self._raise(outcome)
        else:
            self._failures.log(planned.call, outcome)
            text = well_formed_text(self._failures.text(planned.call, outcome))
            self._answer(planned.place, planned.call, Answer(text, is_error=True, ms=ms))

    def _watcher_ended(self, watcher: asyncio.Task[None]) -> None:
        # A watcher that ends without an answer would leave the reader waiting for ever.
        error = asyncio.CancelledError() if watcher.cancelled() else watcher.exception()
        if error is not None and not self._over:
            self._raise(error)

    def _answer(self, place: int, call: ToolCall, answer: Answer) -> None:
        self._answers[place] = answer
        end = ToolCallErrored if answer.is_error else ToolCallSucceeded
        self._channel.put(end(call.id, call.name, answer.text, answer.ms))

    async def _outcome(self, planned: _Planned) -> str | BaseException:
        """The tool's result, or what it raised; not later than its time allows."""
        call = planned.call
        reporter = Reporter(self._channel, call)
        context = self._context_of(call, reporter)
        task = asyncio.create_task(_call(planned.tool, call, context), name=f"tool {call.name}")
        try:
            await asyncio.wait({task}, timeout=planned.timeout)
            in_time = task.done()
        finally:
            self._channel.close(reporter)
            await self._end(task, call)
        if in_time:
            return asyncio.CancelledError() if task.cancelled() else task.result()
        logger.warning("tool %s did not end within %g s in call %r", call.name, planned.timeout, call.id)
        late = task.result() if task.done() and not task.cancelled() else None
        if isinstance(late, BaseException):
            if not isinstance(late, Exception):
                return late
            self._failures.log(call, late)
        return ToolTimeout(
            f"The tool {call.name} did not end within {planned.timeout:g} seconds. It may have taken effect."
        )

    async def _end(self, task: asyncio.Task[Any], call: ToolCall) -> None:
        if task.done():
            return
        task.cancel()
        try:
            await wait_out([task], self._cancel_grace)
        finally:
            if not task.done():
                logger.warning("tool %s ignores its cancellation in call %r; it is left running", call.name, call.id)
                self._left_running.add(task)
                task.add_done_callback(self._left_running.discard)


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


async def wait_out(tasks: Collection[asyncio.Task[Any]], timeout: float | None = None) -> None:
    """Wait until all tasks have ended, at most `timeout` seconds.

    Raises:
        CancelledError: the waiting task was cancelled; raised when the waiting is over, not before.
    """
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    cancelled: asyncio.CancelledError | None = None
    while running := [task for task in tasks if not task.done()]:
        left = None if deadline is None else deadline - loop.time()
        if left is not None and left <= 0:
            break
        try:
            await asyncio.wait(running, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
