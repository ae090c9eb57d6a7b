"""One request and what came back, as it was read from the socket: nothing is looked at before the measuring is over."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import accumulate

from benchmarks.speed.wrong import Wrong

_END = b"\r\n\r\n"
_LINE = b"\r\n"
_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(slots=True)
class Exchange:
    """One request and its response.

    Attributes:
        sent: when the request was written, in nanoseconds of the monotonic clock, as with all times.
        reads: when each piece of the response came, and the piece.
    """

    sent: int
    reads: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def ended(self) -> int:
        """When the last piece came."""
        return self.reads[-1][0]

    @property
    def has_last_chunk(self) -> bool:
        """Whether the end of a response in chunks has come, be it in several pieces."""
        last = self.reads[-1][1]
        if len(last) < len(_LAST_CHUNK):
            last = b"".join(data for _, data in self.reads[-len(_LAST_CHUNK) :])
        return last.endswith(_LAST_CHUNK)

    def response(self) -> Response:
        """What came back, taken apart.

        Raises:
            Wrong: it is no whole response, or none of success.
        """
        raw = b"".join(data for _, data in self.reads)
        head, end, _ = raw.partition(_END)
        if not end:
            raise Wrong(f"no head in {raw[:200]!r}")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise Wrong(f"answered by {raw[:1000]!r}")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(_LINE)[1:])
        begin = len(head) + len(_END)
        if fields.get(b"transfer-encoding") == b"chunked":
            chunks = _chunks(raw, begin)
        else:
            chunks = [(begin, int(fields[b"content-length"]))]
            if begin + chunks[0][1] != len(raw):
                raise Wrong(f"{len(raw) - begin} bytes came, and {chunks[0][1]} were announced")
        body = b"".join(raw[at : at + size] for at, size in chunks)
        return Response(body, chunks, self.reads)


def _chunks(raw: bytes, begin: int) -> list[tuple[int, int]]:
    """Where the chunks are, and how long."""
    found: list[tuple[int, int]] = []
    at = begin
    while True:
        line = raw.find(_LINE, at)
        if line < 0:
            raise Wrong("the response was cut off")
        size = int(raw[at:line], 16)
        if not size:
            if raw[at:] != _LAST_CHUNK:
                raise Wrong(f"after the last chunk came {raw[at : at + 200]!r}")
            return found
        found.append((line + 2, size))
        at = line + 2 + size + 2


class Response:
    """A whole response.

    Args:
        body: without the framing.
        chunks: where its pieces were in what was read, and how long each is.
        reads: when each piece was read.
    """

    def __init__(self, body: bytes, chunks: list[tuple[int, int]], reads: list[tuple[int, bytes]]) -> None:
        self.body = body
        self._chunks = chunks
        self._chunk_begins = [0, *accumulate(size for _, size in chunks)]
        self._times = [moment for moment, _ in reads]
        self._read_ends = list(accumulate(len(data) for _, data in reads))

    def read_at(self, place: int) -> int:
        """When the byte at a place of the body was read."""
        chunk = bisect_right(self._chunk_begins, place, hi=len(self._chunks)) - 1
        raw = self._chunks[chunk][0] + place - self._chunk_begins[chunk]
        return self._times[bisect_left(self._read_ends, raw + 1)]
