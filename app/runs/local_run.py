"""A run of this process: one request driven through the chain once, written to a journal, watched by readers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import Literal, TypeAlias

from app.chat import (
    ChatEvents,
    ChatResponse,
    Completed,
    Deltas,
    FinishReason,
    GatewayError,
    ModelAnswered,
    ModelError,
    RoundCompleted,
    RoundStarted,
    Usage,
)
from app.chat.events import Delta
from app.runs.containment import contained
from app.runs.errors import afresh
from app.runs.fold import Fold
from app.runs.in_memory_journal import InMemoryJournal
from app.runs.journal import (
    Journal,
    RunCancelled,
    RunCompleted,
    RunEnd,
    RunFailed,
    RunStarted,
)
from app.runs.once import Once
from app.runs.readers import Reader, Readers
from app.runs.run import RunStatus, new_run_id, status_of

logger = logging.getLogger(__name__)

_CLEAN_UP = 5.0
"""Seconds after which a run that was told to end, and has not, is no longer thought to."""

OnDisconnect: TypeAlias = Literal["cancel", "continue"]
"""What becomes of a run whose last reader has left."""


class LocalRun:
    """A run of this process, which goes on by itself once it was begun. See `Run`.

    Args:
        events: the chain's events; the run iterates and closes them.
        run_id: its id; None = a new one.
        journal: where they are written.
        conversation_id: the conversation it is a turn of.
        turn: waited for before the chain is begun; None = it begins at once.
        release: lets whoever waits for this run begin; awaited when all it held is given back, before its end is told.
        ending: called when it is told to end; what it returns is waited for by whoever tells it.
        ended: awaited when its end is told.
        deadline: seconds after which it ends with what was done, finish reason `deadline`; None = it has none.
        on_disconnect: whether it is cancelled when its last reader has left.
        abandoned: what is done then; None = it is cancelled.
        grace: seconds in which a reader may come back before it is.
        request_id: the request that it was begun by, as the log has it.
    """

    def __init__(
        self,
        events: ChatEvents,
        *,
        run_id: str | None = None,
        journal: Journal | None = None,
        conversation_id: str | None = None,
        turn: Callable[[], Awaitable[None]] | None = None,
        release: Callable[[], Awaitable[None]] | None = None,
        ending: Callable[[LocalRun], Awaitable[None] | None] | None = None,
        ended: Callable[[LocalRun], Awaitable[None]] | None = None,
        deadline: float | None = None,
        on_disconnect: OnDisconnect = "cancel",
        abandoned: Callable[[LocalRun], None] | None = None,
        grace: float = 0.0,
        request_id: str | None = None,
    ) -> None:
        self.id = run_id or new_run_id()
        self.journal: Journal = journal or InMemoryJournal()
        self.conversation_id = conversation_id
        self.request_id = request_id
        self.created_at = datetime.now(UTC)
        self.ended_at: datetime | None = None
        self.readers = Readers(
            partial(abandoned or LocalRun.cancel, self) if on_disconnect == "cancel" else None, grace
        )
        self._turn = turn
        self._release = release
        self._ending = ending
        self._ended = ended
        self._fold = Fold()
        self._answer: RunCompleted | None = None
        self._end: RunEnd | None = None
        self._is_closed = False
        self.over = Once()
        """That its result is there."""
        self._answering = asyncio.Event()
        self._has_answered = False
        self._is_driving = False
        self._broken_off_for: FinishReason | Exception | None = None
        self._broken_off_at = 0.0
        self._deadline = deadline
        self._alarm: asyncio.TimerHandle | None = None
        self._events = events
        self._others_told: Awaitable[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> LocalRun:
        """Drive the chain. Whoever drops the run before has done nothing."""
        self._task = asyncio.create_task(self._drive(self._events), name=self.id)
        self._task.add_done_callback(lambda _: self.over.happen())
        if self._deadline is not None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(self._deadline, self._break_off, FinishReason.DEADLINE)
        return self

    @property
    def task(self) -> asyncio.Task[None]:
        """Ends when the last entry is written and everything the run held is given back."""
        if self._task is None:
            raise RuntimeError(f"{self.id} was not begun")
        return self._task

    @property
    def status(self) -> RunStatus:
        """See `Run.status`."""
        return status_of(self._end, queued=self._turn is not None)

    @property
    def end(self) -> RunEnd | None:
        """See `Run.end`."""
        return self._end

    @property
    def is_ending(self) -> bool:
        """Whether it was told to end a moment ago, and will soon have given back what it holds."""
        if self._broken_off_for is None:
            return False
        return asyncio.get_running_loop().time() - self._broken_off_at < _CLEAN_UP

    async def enter(self) -> Reader:
        """See `Run.enter`."""
        return self.readers.enter()

    async def answering(self, timeout: float) -> None:
        """See `Run.answering`."""
        try:
            async with asyncio.timeout(timeout):
                await self._answering.wait()
        except TimeoutError:
            return
        if isinstance(self._end, RunFailed) and not self._has_answered:
            raise afresh(self._end.error)

    async def result(self) -> ChatResponse:
        """See `Run.result`."""
        await self.over.happened()
        match self._end:
            case RunFailed(error):
                raise afresh(error)
            case RunCompleted(response) | RunCancelled(response):
                return response
            case None:
                raise RuntimeError(f"{self.id} was destroyed before it ended")

    async def request_cancel(self) -> None:
        """See `Run.request_cancel`."""
        self.cancel()
        if self._others_told is not None:
            await self._others_told

    def cancel(self, reason: Exception | None = None) -> None:
        """End the run: the model call and the tools are cancelled. Harmless when it has ended.

        A run that has its answer keeps it.

        Args:
            reason: what the run then fails with; None = it ends as cancelled.
        """
        self._break_off(FinishReason.CANCELLED if reason is None else reason)

    def lose(self, error: Exception) -> None:
        """Others have written the end of the run: that is its end, whatever it still does.

        Args:
            error: what it fails with, though it may have its answer.
        """
        self._is_closed = True
        self._set_end(RunFailed(error))
        self.readers.close()
        self.over.happen()
        self._break_off(error)

    async def abandon(self, error: Exception) -> None:
        """Write the end of a run that was told to end and does not come to it.

        Args:
            error: what it fails with, unless it has its answer.
        """
        if not self._is_closed:
            await self._close(self._answer or RunFailed(error))
            self.over.happen()

    def _break_off(self, reason: FinishReason | Exception) -> None:
        if self._broken_off_for is not None:
            return  # a second cancellation would interrupt the clean-up of the first
        self._broken_off_for = reason
        self._broken_off_at = asyncio.get_running_loop().time()
        if self._ending is not None:
            self._others_told = self._ending(self)
        if self._is_driving:
            self.task.cancel()

    async def _drive(self, events: ChatEvents) -> None:
        self._is_driving = True
        try:
            if not self._is_closed:
                await self.journal.append(None, RunStarted())
            with contained():
                async with aclosing(events):
                    end = await self._follow(events)
        except asyncio.CancelledError:
            if self._broken_off_for is None:
                raise
            end = self._answer
        except Exception as error:  # noqa: BLE001 - whatever ends a run is told to its readers
            self._log(error)
            # What fails while it is told to end, or behind its answer, changes neither.
            is_settled = self._was_broken_off() or self._answer is not None
            end = self._answer if is_settled else RunFailed(afresh(error))
        finally:
            self._disarm()
        self._is_driving = False
        if self._release is not None:
            await self._release()
        if not self._is_closed:
            await self._close(end or await self._broken_off())
        if self._ended is not None:
            await self._ended(self)

    def _was_broken_off(self) -> bool:
        return self._broken_off_for is not None

    async def _follow(self, events: ChatEvents) -> RunEnd | None:
        if self._was_broken_off():
            return None
        if self._turn is not None:
            await self._turn()
            self._turn = None
        async for event in events:
            if isinstance(event, Completed):
                self._disarm()  # the answer is there: closing what gave it is not to take it back
                self._answer = RunCompleted(event.response)
                await self._close_round(event.response)
                return self._answer
            if self._broken_off_for is not None:
                return None  # something below took the cancellation for its own, and would go on
            if isinstance(event, ModelAnswered):
                self._fold.add(event)
            elif isinstance(event, Deltas):
                await self._take(*event.each)
            else:
                await self._take(event)
        raise RuntimeError("the chain ended without Completed")

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    async def _take(self, *events: Delta) -> None:
        for event in events:  # of one round: its beginning comes by itself
            self._fold.add(event)
        if not self._is_closed:  # else it was abandoned, and what it held came to its end after all
            await self.journal.append(self._fold.round, *events)
        if not self._has_answered and not isinstance(events[-1], RoundStarted):
            self._has_answered = True
            self._answering.set()

    async def _close_round(self, response: ChatResponse) -> None:
        # An advisor that answered by itself made no model call: there is no round to close.
        if self._fold.round is not None and response.rounds:
            last = response.rounds[-1]
            await self._take(RoundCompleted(self._fold.round, last.finish_reason, last.usage, last.target))

    async def _broken_off(self) -> RunEnd:
        reason = self._broken_off_for
        if isinstance(reason, Exception):
            return RunFailed(reason)
        if reason is not FinishReason.DEADLINE:
            return RunCancelled(self._fold.response(FinishReason.CANCELLED))
        if closing := self._fold.closing(reason):
            await self._take(closing)
        return RunCompleted(self._fold.response(reason))

    async def _close(self, end: RunEnd) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self.readers.close()
        await self.journal.append(self._fold.round, end)
        if self._end is None:  # else others have written another one meanwhile
            self._set_end(end)

    def _set_end(self, end: RunEnd) -> None:
        # Not before it can be read: who is told that a run has ended finds its end in the journal.
        self._end = end
        self.ended_at = datetime.now(UTC)
        self._fold = Fold()  # what it held is in the end, or not wanted any more
        self._answering.set()

    def _log(self, error: Exception) -> None:
        if not isinstance(error, GatewayError):
            logger.error("%s failed by a fault of ours", self.id, exc_info=error)
            return
        used = self._fold.response(FinishReason.CANCELLED).usage
        if isinstance(error, ModelError) and error.usage is not None:
            used += error.usage
        billed = "" if used == Usage() else f" (tokens used: {used.input_tokens} in, {used.output_tokens} out)"
        logger.warning("%s failed: %s: %s%s", self.id, type(error).__name__, error, billed)
