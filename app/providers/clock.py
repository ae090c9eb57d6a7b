"""How long a call to a model server may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any, TypeVar

from app.chat import ModelTimeout
from app.providers.transport import WireResponse

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a model server may take, in seconds; None is for ever.

    Attributes:
        connect: until a connection stands, with the wait for a free one of the pool.
        first_byte: from the request to the head of a streamed answer. A blocking answer has no head of its own: the
            server is silent until it has thought, so only `total` bounds it.
        idle: silence within an answer: of a stream from its head on, of a blocking answer once its body has begun.
            Only content breaks it, keep-alives do not; time in which the reader of the stream is busy does not count.
        end: from the finish reason to the end of a body. After it the answer is taken for whole: some servers leave
            the connection open.
        total: the whole call, with the time that the reader of a stream takes; `ChatOptions.timeout` is put in its
            place.
    """

    connect: float | None = 10.0
    first_byte: float | None = 300.0
    idle: float | None = 300.0
    end: float | None = 5.0
    total: float | None = 900.0


class Clock:
    """The time limits of one call, from now on until it is closed.

    Args:
        timeouts: the limits.
        total: in place of their `total`, None leaves it.
        alarms: lend the one that ends its waits.
        stream: whether the answer comes in pieces.
    """

    def __init__(self, timeouts: Timeouts, total: float | None, alarms: Alarms, *, stream: bool) -> None:
        self._alarms = alarms
        self._alarm = alarms.lent()
        self._now = self._alarm.loop.time
        self._silent_since = self._now()
        self._total = timeouts.total if total is None else total
        self._ends = None if self._total is None else self._silent_since + self._total
        self._first_byte = timeouts.first_byte if stream else None
        self._idle = timeouts.idle
        self._begun = stream
        self._end = timeouts.end

    def close(self) -> None:
        """Nothing will be waited for any more. To be called once."""
        self._alarms.back(self._alarm)

    def at_most(self, seconds: float | None) -> float | None:
        """The moment `seconds` from now, or the end of the whole call if that is earlier."""
        return self._earlier(None if seconds is None else self._now() + seconds)

    async def head(self, send: Callable[[], Awaitable[T]]) -> T:
        """Wait for the head of an answer.

        Raises:
            ModelTimeout: it did not come in time.
        """
        until = self.at_most(self._first_byte)
        try:
            with self._alarm.at(until):
                head = await send()
        except TimeoutError:
            late = f"The model server did not begin to answer within {self._first_byte} s."
            raise self._late(until, late, "first_byte_timeout") from None
        self._silent_since = self._now()
        return head

    async def piece(self, response: WireResponse, *, came: bool, at_end: bool) -> bytes:
        """The next piece of its body, waited for where it has to be.

        Args:
            response: the answer.
            came: whether there was content in the piece before: silence begins anew.
            at_end: whether the finish reason is known.

        Raises:
            ModelTimeout: it did not come in time, or there was no content for too long.
        """
        if came:
            self._begun, self._silent_since = True, self._now()
        limit = self._end if at_end else self._idle if self._begun else None
        until = self._earlier(None if limit is None else self._silent_since + limit)
        try:
            alarm = self._alarm.at(until)
            piece = response.take()
            if piece is None:
                with alarm:
                    piece = await response.read()
        except TimeoutError:
            late = f"The model server was silent for {limit} s in the middle of its answer."
            raise self._late(until, late, "idle_timeout") from None
        return piece

    def _earlier(self, moment: float | None) -> float | None:
        """This moment, or the end of the whole call if that is earlier."""
        if moment is None or self._ends is None:
            return self._ends if moment is None else moment
        return min(moment, self._ends)

    def _late(self, until: float | None, message: str, code: str) -> ModelTimeout:
        if self._total is not None and until == self._ends:
            message, code = f"The model server's answer took longer than {self._total:.3g} s.", "total_timeout"
        return ModelTimeout(message, code=code)


class Alarm:
    """Ends waits that take too long, one after the other, as `asyncio.timeout_at` does, by one timer for all of them.

    with alarm.at(moment):  # raises TimeoutError if it is not left by then, or is over already
        await something()

    The timer is not moved for each wait, which costs more than most of them take: where it goes off during a later
    one, whose end is not yet, it is set anew.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        """Whose waits it can end."""
        self._timer: asyncio.TimerHandle | None = None
        self._goes_off = 0.0
        self._waiting: asyncio.Task[Any] | None = None
        self._cancellations = 0
        self._until: float | None = None
        self._has_rung = False

    def at(self, moment: float | None) -> Alarm:
        """The end of the wait that is to be entered next; None = it has all the time.

        Raises:
            TimeoutError: it is over, also where what is waited for is there: a flood of it never lets us wait.
        """
        if moment is not None and moment <= self.loop.time():
            raise TimeoutError
        self._until = moment
        return self

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only tasks can wait")
        if self._until is not None and (self._timer is None or self._goes_off > self._until):
            self._set(self._until)
        self._waiting, self._cancellations, self._has_rung = task, task.cancelling(), False

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._waiting = self._waiting, None
        if self._has_rung and task is not None:
            left = task.uncancel()
            if left <= self._cancellations and kind is asyncio.CancelledError:  # else somebody has cancelled it, too
                raise TimeoutError from None

    def close(self) -> None:
        """Nothing will be waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, moment: float) -> None:
        self.close()
        self._goes_off = moment
        # In a context of its own: that of the task would be kept for as long as the timer is.
        self._timer = self.loop.call_at(moment, self._ring, context=Context())

    def _ring(self) -> None:
        self._timer = None
        if self._waiting is None or self._until is None:
            return  # whoever waits next sets it
        if self._until > self.loop.time():
            self._set(self._until)
        else:
            self._has_rung = True
            self._waiting.cancel()


class Alarms:
    """Alarms that go from one call to the next, with the timers that they have: most calls need to set none."""

    def __init__(self) -> None:
        self._free: list[Alarm] = []

    def lent(self) -> Alarm:
        """One for the running loop. It is to be given back when nobody waits any more."""
        while self._free:
            alarm = self._free.pop()
            if alarm.loop is asyncio.get_running_loop():
                return alarm
        return Alarm()  # those of other loops are let go: there is hardly ever more than one

    def back(self, alarm: Alarm) -> None:
        """Take one back."""
        self._free.append(alarm)

    def close(self) -> None:
        """No timer is left of those that are not lent."""
        while self._free:
            self._free.pop().close()
