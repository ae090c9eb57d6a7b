"""One connection of HTTP/1.1 to a model server, and the answers that come over it.

What httptools makes of the bytes is taken as it is; what is here is when an answer is whole, when its connection can be
used again, and who is told what when it breaks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import cast

from httptools import HttpParserError, HttpResponseParser

from app.chat import ModelProtocolError
from app.providers.unpacking import Unpacking

_LARGEST_HEAD = 2**16
_MUCH = 2**18
"""Bytes that wait for their reader; with more of them the server has to wait, too."""
_FIRST_FINAL_STATUS = 200
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})


class NotHttp(Exception):
    """What came is no answer in HTTP."""


class Line(asyncio.Protocol):
    """A connection. It has one request at a time.

    Args:
        free: told when the answer is over: whether the line can take another request.
    """

    def __init__(self, free: Callable[[Line, bool], None]) -> None:
        self._free = free
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self.is_used = False
        """Whether it has had a request before."""
        self.idle_since = 0.0

    def ask(self, head: bytes, body: bytes) -> Answer:
        """Send a request over a line that is free."""
        answer = self._answer = Answer(self)
        transport = self._connected
        transport.write(head + body if len(body) <= _MUCH else head)
        if len(body) > _MUCH:
            transport.write(body)
        return answer

    @property
    def is_open(self) -> bool:
        """Whether it can take a request, as far as is known."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Close it at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()
        self._end(OSError("the connection was closed"))

    def pause(self, *, pausing: bool) -> None:
        """Have the server wait, or go on."""
        if self.is_open:
            (self._connected.pause_reading if pausing else self._connected.resume_reading)()

    def over(self, *, reusable: bool) -> None:
        """The answer has come to its end."""
        self._answer, self.is_used = None, True
        if not reusable:
            self.close()
        self._free(self, reusable)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._answer is None:
            self.close()  # nobody has asked
        else:
            self._answer.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._transport = None
        if self._answer is not None and not self._answer.ends_with_the_line():
            self._end(error or ConnectionResetError())

    @property
    def _connected(self) -> asyncio.Transport:
        if self._transport is None:
            raise ConnectionResetError
        return self._transport

    def _end(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.fail(error)
            self._free(self, False)


class Answer:
    """What comes back for one request. See `WireResponse`."""

    def __init__(self, line: Line) -> None:
        self._line = line
        parser = HttpResponseParser(self)
        # What many servers get wrong and nobody can misunderstand.
        parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._parser: HttpResponseParser | None = parser
        self._status = 0
        self._raw: list[tuple[bytes, bytes]] = []
        self._headers: dict[str, str] | None = None
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._is_paused = False
        self._has_head = False
        self._is_whole = False
        self._may_go_on = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._unpacking: Unpacking | None = None
        self._head_size = 0

    @property
    def status(self) -> int:
        """See `WireResponse.status`."""
        return self._status

    @property
    def headers(self) -> Mapping[str, str]:
        """See `WireResponse.headers`."""
        if self._headers is None:
            self._headers = {
                name.lower().decode("latin-1"): value.decode("utf-8", "surrogateescape") for name, value in self._raw
            }
        return self._headers

    @property
    def has_come(self) -> bool:
        """Whether anything of it has come, be it nonsense."""
        return self._has_head or self._head_size > 0

    async def begin(self) -> None:
        """Wait for the head.

        Raises:
            NotHttp: it has none.
            OSError: the connection broke before it.
        """
        while not self._has_head:
            if self._error is not None:
                raise self._error
            await self._more()
        encoding = self.headers.get("content-encoding")
        if encoding is not None and encoding.strip().lower() in _PACKED:
            self._unpacking = Unpacking()

    def take(self) -> bytes | None:
        """See `WireResponse.take`."""
        if self._unpacking is None:
            is_silent = not self._pieces and not self._is_whole and self._error is None
            return None if is_silent else self._taken()
        while not (piece := self._unpacking.rest()):
            packed = self._taken()
            if not packed:
                return packed
            self._unpacking.add(packed)
        return piece

    async def read(self) -> bytes:
        """See `WireResponse.read`."""
        while (piece := self.take()) is None:
            await self._more()
        return piece

    async def aclose(self) -> None:
        """See `WireResponse.aclose`."""
        if not self._is_whole:
            self._line.close()

    def feed(self, data: bytes) -> None:
        """Take bytes from the line."""
        if not self._has_head:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)  # type: ignore[union-attr]  # an answer that is over has no line that feeds it
        except HttpParserError:
            if not self._is_whole:
                self._break_off(OSError("no HTTP any more") if self._has_head else NotHttp())
                return
            self._may_go_on = False
        if self._is_whole:
            self._end(reusable=self._may_go_on)
        elif not self._has_head and self._head_size > _LARGEST_HEAD:
            self._break_off(NotHttp())
        elif self._waiting > _MUCH and not self._is_paused:
            self._is_paused = True
            self._line.pause(pausing=True)
        self._wake()

    def ends_with_the_line(self) -> bool:
        """The line has ended. Returns whether that is how this answer ends, since nothing else says so."""
        if not self._has_head or any(
            name.lower() == b"content-length" or (name.lower() == b"transfer-encoding" and b"chunked" in value.lower())
            for name, value in self._raw
        ):
            return False
        self._is_whole = True
        self._end(reusable=False)
        self._wake()
        return True

    def fail(self, error: Exception) -> None:
        """It will not go on."""
        self._error = self._error or error
        self._parser = None
        self._wake()

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self._may_go_on = False  # where it was whole before, nobody has asked for this one

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        if not self._has_head:
            self._raw.append((name, value))

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        if self._has_head or self._parser is None:
            return
        self._status = self._parser.get_status_code()
        if self._status < _FIRST_FINAL_STATUS:
            self._raw.clear()  # the real one is still to come
        else:
            self._has_head = True

    def on_body(self, piece: bytes) -> None:
        """Called by the parser."""
        if not self._is_whole:
            self._pieces.append(piece)
            self._waiting += len(piece)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if self._has_head and not self._is_whole and self._parser is not None:
            self._is_whole = True
            self._may_go_on = self._parser.should_keep_alive()

    def _end(self, *, reusable: bool) -> None:
        """Give the line back; the parser, which holds this answer, is let go."""
        self._parser = None
        if self._is_paused:
            self._line.pause(pausing=False)
        self._line.over(reusable=reusable)

    def _taken(self) -> bytes | None:
        """What has come, as it came."""
        if not self._pieces:
            if self._is_whole:
                return b""
            if self._error is not None:
                raise ModelProtocolError(
                    "The connection to the model server broke in the middle of its answer.", code="truncated"
                )
            return None
        piece = self._pieces.popleft() if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._waiting = 0
        if self._is_paused and not self._is_whole:
            self._is_paused = False
            self._line.pause(pausing=False)
        return piece

    def _more(self) -> asyncio.Future[None]:
        """Done when something has come that was not there."""
        self._reader = asyncio.get_running_loop().create_future()
        return self._reader

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _break_off(self, error: Exception) -> None:
        self.fail(error)
        self._line.close()
