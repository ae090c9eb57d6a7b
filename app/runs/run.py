"""A run: one request driven through the chain once, written to a journal, and watched by readers."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from app.chat import (
    ChatEvents,
    ChatResponse,
    Completed,
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
from app.runs.fold import Fold
from app.runs.in_memory import InMemoryJournal
from app.runs.journal import (
    Journal,
    RunCancelled,
    RunCompleted,
    RunEnd,
    RunEvent,
    RunFailed,
    RunStarted,
)
from app.runs.readers import Readers

logger = logging.getLogger(__name__)

_CLEAN_UP = 5.0
"""Seconds after which a run that was told to end, and has not, is no longer thought to."""

OnDisconnect: TypeAlias = Literal["cancel", "continue"]
"""What becomes of a run whose last reader has left."""

RunStatus: TypeAlias = Literal["queued", "running", "completed", "cancelled", "failed"]


def new_run_id() -> str:
    """An id that no other run has, and that is larger than those that were made before it."""
    return f"run_{next(_moments):014x}{secrets.token_hex(9)}"


def _later_and_later() -> Iterator[int]:
    """Microseconds since 1970, each larger than the one before, though the clock may be set back."""
    moment = 0
    while True:
        moment = max(moment + 1, time.time_ns() // 1000)
        yield moment


_moments = _later_and_later()


class Run:
    """A thing of its own: readers may come and go.

    Args:
        events: the chain's events; the run iterates and closes them.
        journal: where they are written.
        conversation_id: the conversation it is a turn of.
        turn: waited for before the chain is begun; None = it begins at once.
        deadline: seconds after which it ends with what was done, finish reason `deadline`; None = it has none.
        on_disconnect: whether it is cancelled when its last reader has left.
        grace: seconds in which a reader may come back before it is.
        request_id: the request that it was begun by, as the log has it.
    """

    def __init__(
        self,
        events: ChatEvents,
        *,
        journal: Journal | None = None,
        conversation_id: str | None = None,
        turn: Callable[[], Awaitable[object]] | None = None,
        deadline: float | None = None,
        on_disconnect: OnDisconnect = "cancel",
        grace: float = 0.0,
        request_id: str | None = None,
    ) -> None:
        self.id = new_run_id()
        self.journal: Journal = journal or InMemoryJournal()
        self.conversation_id = conversation_id
        self.request_id = request_id
        self.created_at = datetime.now(UTC)
        self.ended_at: datetime | None = None
        self.readers = Readers(self.cancel if on_disconnect == "cancel" else None, grace)
        self._turn = turn
        self._fold = Fold()
        self._answer: RunCompleted | None = None
        self._end: RunEnd | None = None
        self._over = asyncio.Event()
        self._answering = asyncio.Event()
        self._has_answered = False
        self._is_driving = False
        self._broken_off_for: FinishReason | Exception | None = None
        self._broken_off_at = 0.0
        self._task = asyncio.create_task(self._drive(events), name=self.id)
        self._task.add_done_callback(lambda _: self._over.set())
        self._alarm: asyncio.TimerHandle | None = None
        if deadline is not None:
            self._alarm = asyncio.get_running_loop().call_later(deadline, self._break_off, FinishReason.DEADLINE)

    @property
    def task(self) -> asyncio.Task[None]:
        """Ends when the last entry is written and everything the run held is given back."""
        return self._task

    @property
    def status(self) -> RunStatus:
        """How far it is."""
        match self._end:
            case RunCompleted():
                return "completed"
            case RunCancelled():
                return "cancelled"
            case RunFailed():
                return "failed"
            case None:
                return "queued" if self._turn is not None else "running"

    @property
    def end(self) -> RunEnd | None:
        """The last entry's event, None while the run is going."""
        return self._end

    @property
    def is_ending(self) -> bool:
        """Whether it was told to end a moment ago, and will soon have given back what it holds."""
        if self._broken_off_for is None:
            return False
        return asyncio.get_running_loop().time() - self._broken_off_at < _CLEAN_UP

    async def answering(self, timeout: float) -> None:
        """Wait for the model's first event or the run's end, at most `timeout` seconds.

        Raises:
            Exception: what the run failed with before the model's first event.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._answering.wait()
        except TimeoutError:
            return
        if isinstance(self._end, RunFailed) and not self._has_answered:
            raise _afresh(self._end.error)

    async def result(self) -> ChatResponse:
        """The answer, when the run has ended; of a cancelled run what was done.

        Raises:
            Exception: what the run failed with.
        """
        await self._over.wait()
        match self._end:
            case RunFailed(error):
                raise _afresh(error)
            case RunCompleted(response) | RunCancelled(response):
                return response
            case None:
                raise RuntimeError(f"{self.id} was destroyed before it ended")

    def cancel(self, reason: Exception | None = None) -> None:
        """End the run: the model call and the tools are cancelled. Harmless when it has ended.

        A run that has its answer keeps it.

        Args:
            reason: what the run then fails with; None = it ends as cancelled.
        """
        self._break_off(FinishReason.CANCELLED if reason is None else reason)

    async def abandon(self, error: Exception) -> None:
        """Write the end of a run that was told to end and does not come to it.

        Args:
            error: what it fails with, unless it has its answer.
        """
        if self._end is None:
            await self._close(self._answer or RunFailed(error))
            self._over.set()

    def _break_off(self, reason: FinishReason | Exception) -> None:
        if self._broken_off_for is not None:
            return  # a second cancellation would interrupt the clean-up of the first
        self._broken_off_for = reason
        self._broken_off_at = asyncio.get_running_loop().time()
        if self._is_driving:
            self._task.cancel()

    async def _drive(self, events: ChatEvents) -> None:
        self._is_driving = True
        try:
            await self._write(RunStarted())
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
            end = self._answer if is_settled else RunFailed(_afresh(error))
        finally:
            self._disarm()
        self._is_driving = False
        if self._end is None:
            await self._close(end or await self._broken_off())

    def _was_broken_off(self) -> bool:
        return self._broken_off_for is not None

    async def _follow(self, events: ChatEvents) -> RunEnd | None:
        if self._was_broken_off():
            return None
        if self._turn is not None:
            await self._turn()
            self._turn = None
        async for event in events:
            if self._was_broken_off() and not isinstance(event, Completed):
                return None  # something below took the cancellation for its own, and would go on
            if isinstance(event, Completed):
                self._disarm()  # the answer is there: closing what gave it is not to take it back
                self._answer = RunCompleted(event.response)
                await self._close_round(event.response)
                return self._answer
            await self._take(event)
        raise RuntimeError("the chain ended without Completed")

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    async def _take(self, event: Delta | ModelAnswered) -> None:
        self._fold.add(event)
        if isinstance(event, ModelAnswered):
            return
        await self._write(event)
        if not self._has_answered and not isinstance(event, RoundStarted):
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
        self._end = end
        self.ended_at = datetime.now(UTC)
        self.readers.close()
        await self._write(end)
        self._fold = Fold()  # what it held is in the end, or not wanted any more
        self._answering.set()

    async def _write(self, event: RunEvent) -> None:
        if self._end is not None and event is not self._end:
            return  # it was abandoned, and what it held came to its end after all
        await self.journal.append(self._fold.round, event)

    def _log(self, error: Exception) -> None:
        if not isinstance(error, GatewayError):
            logger.error("%s failed by a fault of ours", self.id, exc_info=error)
            return
        used = self._fold.response(FinishReason.CANCELLED).usage
        if isinstance(error, ModelError) and error.usage is not None:
            used += error.usage
        billed = "" if used == Usage() else f" (tokens used: {used.input_tokens} in, {used.output_tokens} out)"
        logger.warning("%s failed: %s: %s%s", self.id, type(error).__name__, error, billed)


def _afresh(error: Exception) -> Exception:
    """The error as if nobody had raised it: it is kept, and where it was raised holds all that was at work there."""
    behind: list[BaseException | None] = [error]
    while behind:
        one = behind.pop()
        if one is not None and one.__traceback__ is not None:
            one.__traceback__ = None
            behind += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return error
