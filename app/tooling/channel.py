"""The way of events from running calls to the one who reads the batch.

Tools may report progress from any thread and far faster than anyone reads. So each call keeps only its latest few
unread reports and older ones are dropped; the end of a call is never dropped.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
from collections import deque
from contextlib import suppress
from decimal import Decimal
from typing import TypeAlias

from pydantic_core import to_json

from app.chat import Progress, ToolCall, ToolCallErrored, ToolCallProgress, ToolCallSucceeded
from app.chat.messages import JsonValue
from app.chat.text import well_formed_text

logger = logging.getLogger(__name__)

CallEvent: TypeAlias = ToolCallProgress | ToolCallSucceeded | ToolCallErrored
"""What a running batch tells of its calls."""

UNREAD_REPORTS = 16
"""How many reports of a call wait to be read; for the next one the oldest is dropped."""


class Channel:
    """Takes events from tasks and threads and gives them to one reader, in the event loop it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waker: asyncio.Future[None] | None = None
        self._lock = threading.Lock()
        # A reporter stands in the line once for each of its unread reports: so reports and ends keep their order,
        # and a reporter that has too many can drop its oldest without anything in the line having to move.
        self._line: deque[CallEvent | BaseException | Reporter] = deque()

    def put(self, event: CallEvent | BaseException) -> None:
        """Add the end of a call, or the exception that ends the batch. Only from the event loop."""
        self._line.append(event)
        self.wake()

    def report(self, reporter: Reporter, event: ToolCallProgress) -> None:
        """Add a report. From any thread."""
        with self._lock:
            if not reporter.open:
                return
            had_room = len(reporter.unread) < UNREAD_REPORTS
            reporter.unread.append(event)
            if not had_room:
                return
            self._line.append(reporter)
        with suppress(RuntimeError):  # the loop was closed in the meantime: nobody reads
            self._loop.call_soon_threadsafe(self.wake)

    def close(self, reporter: Reporter) -> None:
        """Take no more of a call's reports: whatever a tool that was left running still says is dropped."""
        with self._lock:
            reporter.open = False

    async def get(self) -> CallEvent | BaseException:
        """The next event; waits for it."""
        while True:
            with self._lock:
                if self._line:
                    item = self._line.popleft()
                    return item.unread.popleft() if isinstance(item, Reporter) else item
            await self.woken()

    async def woken(self) -> None:
        """Wait until something is added, or `wake` is called."""
        self._waker = self._loop.create_future()
        await self._waker

    def wake(self) -> None:
        """Let the reader look again. Only from the event loop."""
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)


class Reporter:
    """Listens to the progress of one call and passes it on in a form that every wire can carry."""

    def __init__(self, channel: Channel, call: ToolCall) -> None:
        self._channel = channel
        self._call = call
        self._warned = False
        self.unread: deque[ToolCallProgress] = deque(maxlen=UNREAD_REPORTS)
        self.open = True

    def __call__(self, progress: Progress) -> None:
        """Take a report; one that comes after the call's end is dropped."""
        self._channel.report(
            self,
            ToolCallProgress(
                self._call.id,
                self._call.name,
                None if progress.message is None else well_formed_text(str(progress.message)),
                self._number(progress.current),
                self._number(progress.total),
                self._json(progress.data),
            ),
        )

    def _number(self, value: object) -> float | None:
        if value is None or isinstance(value, int):
            return value
        number = float(value) if isinstance(value, float | Decimal) else math.nan
        if math.isfinite(number):
            return number
        self._leave_out(f"a {type(value).__name__} that is no finite number")
        return None

    def _json(self, data: JsonValue) -> JsonValue:
        """A copy of `data`, which the tool may go on changing, in strict JSON."""
        if data is None:
            return None
        try:
            copy: JsonValue = json.loads(to_json(data, inf_nan_mode="null"))
        except ValueError:
            self._leave_out(f"data of type {type(data).__name__} that has no JSON form")
            return None
        return copy

    def _leave_out(self, what: str) -> None:
        """Tell the tool's author, once a call: a bad report is no reason to fail the call."""
        if not self._warned:
            self._warned = True
            logger.warning("tool %s reported %s as its progress; it is left out", self._call.name, what)
