"""The two with whom the gateway talks, a caller and a model server. They take and give bytes, and call nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from benchmarks.counting.answers import ModelAnswer
from benchmarks.counting.line import Line

_END = b"\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"


class ModelServer:
    """Answers requests as it was told to, in order.

    Args:
        paced: takes steps one by one.
    """

    def __init__(self, paced: Callable[[Sequence[Callable[[], None]]], None]) -> None:
        self.asked: list[bytes] = []
        self._paced = paced
        self._answers: deque[ModelAnswer] = deque()

    def will(self, answers: Iterable[ModelAnswer]) -> None:
        """Answer the next requests with these. `asked` begins anew: the bodies of requests as they come."""
        self.asked = []
        self._answers = deque(answers)

    def connect(self, line: Line) -> _ModelConnection:
        """The other end of a connection to it."""
        return _ModelConnection(self, line)

    def answer(self, body: bytes, line: Line) -> None:
        """Answer a request."""
        self.asked.append(body)
        answer = self._answers.popleft()
        if answer.is_paced:
            self._paced([partial(line.feed, piece) for piece in answer.pieces])
        else:
            line.feed(b"".join(answer.pieces))


class _ModelConnection:
    def __init__(self, server: ModelServer, line: Line) -> None:
        self._server = server
        self._line = line
        self._data = b""

    def received(self, data: bytes) -> None:
        """See `Peer.received`."""
        self._data += data
        head, end, body = self._data.partition(_END)
        if end and len(body) >= _length(head):
            self._data = b""
            self._server.answer(body, self._line)


class Caller:
    """Sends one request after the other over the same connection, and keeps what is answered to the last one."""

    def __init__(self) -> None:
        self._data = b""

    def connect(self, line: Line) -> Caller:
        """The other end of its connection."""
        self._line = line
        return self

    def ask(self, path: str, body: bytes) -> None:
        """Send a request."""
        self._data = b""
        head = b"POST %b HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._line.feed(head % (path.encode(), len(body)) + body)

    def received(self, data: bytes) -> None:
        """See `Peer.received`."""
        self._data += data

    def is_answered(self) -> bool:
        """Whether the answer is whole."""
        head, end, body = self._data.partition(_END)
        if not end:
            return False
        return body.endswith(_LAST_CHUNK) if _is_chunked(head) else len(body) >= _length(head)

    def answer(self) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        head, _, body = self._data.partition(_END)
        return int(head.split(b" ", 2)[1]), _joined(body) if _is_chunked(head) else body


def _length(head: bytes) -> int:
    fields = [line.partition(b":") for line in head.lower().split(b"\r\n")[1:]]
    return sum(int(value) for name, _, value in fields if name == b"content-length")


def _is_chunked(head: bytes) -> bool:
    return b"\r\ntransfer-encoding: chunked" in head.lower()


def _joined(chunks: bytes) -> bytes:
    pieces = []
    at = 0
    while at < len(chunks):
        begin = chunks.index(b"\r\n", at) + 2
        size = int(chunks[at:begin], 16)
        pieces.append(chunks[begin : begin + size])
        at = begin + size + 2
    return b"".join(pieces)
