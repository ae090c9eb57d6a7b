"""Server-sent events from bytes, by the rules of the WHATWG standard.

Lines are cut on bytes (LF, CR, CRLF), never on characters: U+2028 and its kin are text, and a character that the
network cut in half is whole again before anyone decodes it.

Differs from the standard in one point: an event that the end of the body leaves unterminated is handed out by
`close`, marked `cut`, because model servers do forget the last blank line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from msgspec import Struct

from app.chat import ModelProtocolError

_BOM = b"\xef\xbb\xbf"
_KNOWN_FIELDS = frozenset({b"data", b"event", b"id", b"retry"})


class ServerSentEvent(Struct, frozen=True, gc=False):
    """One event.

    Attributes:
        data: its data lines, joined by LF.
        event: its name, empty where none was given.
        cut: the body ended before the event did.
    """

    data: bytes
    event: str = ""
    cut: bool = False


class SseDecoder:
    """Cuts a body into events, however the network cut it into reads.

    Args:
        max_event: bytes one event, or one line, may have.
    """

    def __init__(self, max_event: int) -> None:
        self._max_event = max_event
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._after_cr = False
        self._first_line = True
        self.strange = False
        """Whether a line came that no event stream has: the body may be something else."""

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events that end in `chunk`.

        Raises:
            ModelProtocolError: while iterating: an event is larger than allowed.
        """
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]  # the second half of a CRLF whose CR ended the line already
            self._after_cr = False
        if not chunk:
            return
        self._after_cr = chunk.endswith(b"\r")
        lines = chunk.splitlines()  # of bytes: at LF, CR and CRLF only
        rest = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
        if lines and (self._line or self._first_line):
            lines[0] = self._ended(lines[0])
        for line in lines:
            if line.startswith(b"data: "):  # as nearly all do that are not empty
                self._data.append(line[6:])
                self._size += len(line) - 5
                if self._size > self._max_event:
                    self._refuse()
            elif line:
                self._take(line)
            else:
                if self._data:
                    yield ServerSentEvent(b"\n".join(self._data), self._event)
                    self._data.clear()
                    self._size = 0
                self._event = ""
        self._line += rest
        if len(self._line) > self._max_event:
            self._refuse()

    def close(self) -> Iterator[ServerSentEvent]:
        """The event that the end of the body left unterminated, if there is one."""
        if self._line:
            self._take(self._ended(b""))
        if self._data:
            yield ServerSentEvent(b"\n".join(self._data), self._event, cut=True)

    def _ended(self, rest: bytes) -> bytes:
        """The line that ends with `rest`, with its beginning from earlier reads."""
        line = bytes(self._line) + rest
        self._line.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        return line

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name and name not in _KNOWN_FIELDS:
            self.strange = True

    def _add(self, value: bytes) -> None:
        self._data.append(value)
        self._size += len(value) + 1
        if self._size > self._max_event:
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise ModelProtocolError(
            f"The model server sent an event larger than the {self._max_event} bytes allowed.", code="too_large"
        )
