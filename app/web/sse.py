"""A run as a stream of server-sent events.

Our own bytes, several ready events in one write, never an event split over two. Of sse-starlette's response class this
uses the headers, and that it knows when a server is told to stop, whichever server it is. Not used are its encoding,
its line ends, its ping, which is a plain timer and does not ask whether the line is idle, and its tasks and cancel
scopes, which took a seventh of what a short stream costs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

from sse_starlette import EventSourceResponse
from sse_starlette.sse import AppStatus
from starlette.types import Message, Receive, Scope, Send

from app.runs import Entry, EventsGone, Reader, Run, RunFailed, RunGone
from app.web.answers import Answer
from app.web.events import Projection

logger = logging.getLogger(__name__)

# At DEBUG sse-starlette logs every chunk it sends: what users asked and models answered.
logging.getLogger("sse_starlette").setLevel(logging.INFO)

PING = b": ping\n"  # with a blank line some clients take it for an event without data
MEDIA_TYPE = "text/event-stream"

_STALLED = 60.0
"""Seconds after which a client that reads nothing is given up."""

_FAREWELL = 5.0
"""Seconds a stream has to send its last event after the gateway's runs were ended."""


FRAME = b"id: %d\nevent: %b\ndata: %b\n\n"
"""One event: its number, its name, its data."""

_NUMBERLESS = b"event: %b\ndata: %b\n\n"
"""One that is none of the run's: a reader's place stays where it is."""


async def frames(
    batches: AsyncGenerator[Sequence[Entry], None], project: Projection, reader: Reader, retry: int | None = None
) -> AsyncGenerator[bytes, None]:
    """The events of a run's journal, to its last; all that are ready in one piece.

    A reader who is too slow is told so and sent away. That is not to end a run that nobody else reads.

    Args:
        batches: what the journal gives.
        project: makes events of it.
        reader: who reads it.
        retry: milliseconds after which a browser is to come back when the line is cut; None = nothing is said.
    """
    # No blank line: it is the first line of the first event.
    head = b"" if retry is None else b"retry: %d\n" % retry
    try:
        async with aclosing(batches):
            async for batch in batches:
                pieces = [head]
                head = b""
                try:
                    for entry in batch:
                        pieces.append(FRAME % (entry.seq, *project(entry)))  # noqa: PERF401 - those before a bad one count
                except Exception as error:
                    logger.exception("an event of %s cannot be sent", project.run_id)
                    unsent = batch[len(pieces) - 1]
                    failed = project(Entry(unsent.seq, unsent.round, RunFailed(error)))
                    yield b"".join([*pieces, FRAME % (unsent.seq, *failed)])
                    return
                yield b"".join(pieces)
    except (EventsGone, RunGone) as error:
        reader.stay()
        yield head + _NUMBERLESS % project.cut_off(error)
    except asyncio.CancelledError as error:
        raise error.with_traceback(None)  # noqa: B904 - as long as it is kept, the journal would be


class RunStream(EventSourceResponse):
    """Follows a run as one of its readers.

    Args:
        run: the run.
        reader: leaves when the response ends.
        answer: makes the answer document of the run's end.
        after: the number of the last event that the client has.
        headers: further headers of the response.
        retry: milliseconds after which a browser comes back when the line is cut; None = as it likes.
        heartbeat: seconds without a write after which a comment is sent; None = never.
        drain: ends the gateway's runs in good order; called when a server is told to stop that does not do it itself.
        drained: returns when the gateway's runs have ended; None = the stream is there for one of them.
    """

    def __init__(
        self,
        run: Run,
        reader: Reader,
        answer: Answer,
        *,
        after: int = 0,
        headers: Mapping[str, str] | None = None,
        retry: int | None = None,
        heartbeat: float | None,
        drain: Callable[[], Awaitable[None]],
        drained: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._run = run
        self._reader = reader
        self._heartbeat = heartbeat
        self._drain = drain
        self._drained = drained
        self._pieces = frames(run.journal.follow(after), Projection(run, answer), reader, retry)
        super().__init__(self._pieces, headers={"Cache-Control": "no-cache", **(headers or {})})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        line = _Line(send, self._heartbeat, self._is_over)
        try:
            async with asyncio.TaskGroup() as tasks:
                beside = [tasks.create_task(_until_hung_up(receive)), tasks.create_task(line.keep_alive())]
                if AppStatus.enable_automatic_graceful_drain or AppStatus.should_exit:
                    beside.append(tasks.create_task(self._end_with_the_server()))
                if self._drained is not None:
                    beside.append(tasks.create_task(self._end_when_drained(self._drained, line)))
                # In a task of its own: this one waits behind all the middleware, which each event would have to pass.
                tasks.create_task(self._send_events(line, beside))
        except ExceptionGroup as errors:
            if lost := errors.subgroup(OSError):
                logger.info("the client of %s is lost: %s", self._run.id, lost.exceptions[0])
            _, unexpected = errors.split((_HungUp, _TimeIsUp, OSError))
            if unexpected:
                raise unexpected.exceptions[0] from None  # as if there were no tasks
        finally:
            self._reader.leave()
            del self._run  # tasks that were cancelled keep this response until garbage is collected

    async def _send_events(self, line: _Line, beside: Sequence[asyncio.Task[None]]) -> None:
        await line({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._pieces):
            async for piece in self._pieces:
                await line({"type": "http.response.body", "body": piece, "more_body": True})
        await line.end()
        for task in beside:
            task.cancel()

    def _is_over(self) -> bool:
        return self._run.end is not None

    async def _end_with_the_server(self) -> None:
        """Where the server does not end the runs itself, as `python -m app serve` does."""
        await self._listen_for_exit_signal()
        await self._drain()
        await asyncio.sleep(_FAREWELL)
        raise _TimeIsUp

    async def _end_when_drained(self, drained: Callable[[], Awaitable[None]], line: _Line) -> None:
        await drained()
        if not self._is_over():  # it goes on at another replica, where its readers find it again
            await line.end()


class _HungUp(Exception):
    """The client is gone."""


class _TimeIsUp(Exception):
    """The server is to stop, and the client has not taken its last bytes."""


async def _until_hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    raise _HungUp


class _Line:
    """An ASGI `send` that knows when it was last used, and whose writes do not overlap.

    Args:
        send: sends a message.
        heartbeat: seconds from the end of the last write after which a comment is due; None = never.
        is_over: whether all there will ever be to write is there: it comes without a pause, and is the last.
    """

    def __init__(self, send: Send, heartbeat: float | None, is_over: Callable[[], bool]) -> None:
        self._send = send
        self._heartbeat = heartbeat
        self._is_over = is_over
        self._clock = asyncio.get_running_loop().time
        self._written = self._clock()
        self._writing = False
        self._free: asyncio.Event | None = None
        self._begun = asyncio.Event()
        self.closed = False
        """Whether the last message was sent."""

    async def __call__(self, message: Message) -> None:
        """Send the message, unless the last one has been sent."""
        while self._writing:
            self._free = self._free or asyncio.Event()
            await self._free.wait()
        if self.closed:
            return
        self._writing, self._written = True, self._clock()
        try:
            await self._send(message)
        finally:
            self._writing, self._written = False, self._clock()
            if self._free is not None:
                self._free.set()
                self._free = None
        if message["type"] == "http.response.body":
            self.closed = not message.get("more_body", False)
        else:
            self._begun.set()

    async def end(self) -> None:
        """End the response here, in good order. What is sent afterwards is dropped."""
        await self._begun.wait()
        await self({"type": "http.response.body", "body": b"", "more_body": False})

    async def keep_alive(self) -> None:
        """Write a comment whenever one is due, and see that no write takes too long.

        Raises:
            TimeoutError: one does: the client is there and reads nothing.
        """
        while not self.closed:
            await asyncio.sleep(self._pause)
            await self._look()

    @property
    def _pause(self) -> float:
        """Seconds until somebody has to look."""
        idle = self._clock() - self._written
        pauses = [_STALLED - idle if self._writing else _STALLED]
        if self._heartbeat is not None and not self._is_over():
            pauses.append(self._heartbeat if self._writing else self._heartbeat - idle)
        return max(0.0, min(pauses))

    async def _look(self) -> None:
        idle = self._clock() - self._written
        if self._writing:
            if idle >= _STALLED:
                raise _nothing_read(idle)
        elif self._heartbeat is not None and idle >= self._heartbeat and not self._is_over():
            try:
                async with asyncio.timeout(_STALLED):
                    await self({"type": "http.response.body", "body": PING, "more_body": True})
            except TimeoutError:
                raise _nothing_read(_STALLED) from None


def _nothing_read(seconds: float) -> TimeoutError:
    return TimeoutError(f"it has read nothing for {seconds:.0f} s")
