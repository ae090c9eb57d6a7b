"""A run as a stream of server-sent events.

Our own bytes, several ready events in one write, never an event split over two. The response class is
sse-starlette's, for its handling of disconnects and of the server's shutdown. Not used are its encoding, its line
ends, its ping, which is a plain timer and does not ask whether the line is idle, and its way to write, which opens a
cancel scope for each piece.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress

import anyio
from sse_starlette import EventSourceResponse
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


def frame(name: bytes, data: bytes, seq: int | None = None) -> bytes:
    """One event. Without a number it is none of the run's, and a reader's place stays where it is."""
    if seq is None:
        return b"event: %b\ndata: %b\n\n" % (name, data)
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (seq, name, data)


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
                        pieces.append(frame(*project(entry), entry.seq))  # noqa: PERF401 - those before a bad one count
                except Exception as error:
                    logger.exception("an event of %s cannot be sent", project.run_id)
                    unsent = batch[len(pieces) - 1]
                    failed = project(Entry(unsent.seq, unsent.round, RunFailed(error)))
                    yield b"".join([*pieces, frame(*failed, unsent.seq)])
                    return
                yield b"".join(pieces)
    except (EventsGone, RunGone) as error:
        reader.stay()
        yield head + frame(*project.cut_off(error))
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
        drain: ends the gateway's runs in good order; called when the server is told to stop.
        drain_time: seconds `drain` may take.
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
        drain_time: float,
        drained: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._run = run
        self._reader = reader
        self._heartbeat = heartbeat
        self._drain = drain
        self._drained = drained
        self._stopping = anyio.Event()
        self._pieces = frames(run.journal.follow(after), Projection(run, answer), reader, retry)
        super().__init__(
            self._pieces,
            headers={"Cache-Control": "no-cache", **(headers or {})},
            ping=0,
            sep="\n",
            data_sender_callable=self._beside,
            shutdown_event=self._stopping,
            shutdown_grace_period=drain_time + _FAREWELL,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        self._line = _Line(send, self._heartbeat, self._is_over)
        try:
            await super().__call__(scope, receive, self._line)
        except OSError as error:
            logger.info("the client of %s is lost: %s", self._run.id, error)
        finally:
            self._reader.leave()
            del self._run  # tasks that were cancelled keep this response until garbage is collected

    async def _stream_response(self, send: Send) -> None:
        # What it overrides opens a cancel scope for each write, though there is no time limit, and logs it.
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._pieces):
            async for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        self.active = False
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _beside(self) -> None:
        """What goes on beside the events; ended with them. One task does it all: of streams there are thousands."""
        is_stopping = False
        async with asyncio.TaskGroup() as tasks:
            if self._drained is not None:
                tasks.create_task(self._end_when_drained(self._drained))
            while not self._line.closed:
                if is_stopping:
                    await asyncio.sleep(self._line.pause)
                elif is_stopping := await self._is_stopping_within(self._line.pause):
                    tasks.create_task(self._end_runs())
                await self._line.look()

    def _is_over(self) -> bool:
        return self._run.end is not None

    async def _is_stopping_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    async def _end_runs(self) -> None:
        await self._drain()

    async def _end_when_drained(self, drained: Callable[[], Awaitable[None]]) -> None:
        await drained()
        if not self._is_over():  # it goes on at another replica, where its readers find it again
            await self._line.end()


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
        self._lock = asyncio.Lock()
        self._clock = asyncio.get_running_loop().time
        self._written = self._clock()
        self._writing = False
        self._begun = asyncio.Event()
        self.closed = False
        """Whether the last message was sent."""

    async def __call__(self, message: Message) -> None:
        """Send the message, unless the last one has been sent."""
        await self._lock.acquire()
        try:
            if self.closed:
                return
            self._written = self._clock()
            self._writing = True
            await self._send(message)
            self._writing = False
            self._written = self._clock()
            if message["type"] == "http.response.body":
                self.closed = not message.get("more_body", False)
            else:
                self._begun.set()
        finally:
            self._lock.release()

    async def end(self) -> None:
        """End the response here, in good order. What is sent afterwards is dropped."""
        await self._begun.wait()
        await self({"type": "http.response.body", "body": b"", "more_body": False})

    @property
    def pause(self) -> float:
        """Seconds until somebody has to `look`."""
        idle = self._clock() - self._written
        pauses = [_STALLED - idle if self._writing else _STALLED]
        if self._heartbeat is not None and not self._is_over():
            pauses.append(self._heartbeat if self._writing else self._heartbeat - idle)
        return max(0.0, min(pauses))

    async def look(self) -> None:
        """Write a comment if it is due, and see that a write does not take too long.

        Raises:
            TimeoutError: one does: the client is there and reads nothing.
        """
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
