"""A model server that costs next to nothing: it looks for what it must know in the request, and writes ready bytes.

    python -m benchmarks.speed.model_server PORT

It asks for `get_weather` as many times as it was told, where tools are offered, and then answers with a text: at once,
or a token at a time. `GET /settings?tokens=200&rounds=1&pace=0` says how many tokens and rounds, and how many
microseconds lie between two tokens (0: all are written at once). `GET /counts` tells what was asked.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import cast
from urllib.parse import parse_qsl, urlsplit

import uvloop

from benchmarks.speed.pacing import Pacer
from benchmarks.speed.replies import Replies

_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


@dataclass(slots=True)
class Counts:
    """What there was since the start, and is now.

    Attributes:
        requests: for completions.
        tokens: of streams that are paced.
        writing: such streams that are being written now.
    """

    requests: int = 0
    tokens: int = 0
    writing: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request for a completion says, as far as the answer depends on it.

    Attributes:
        streamed: whether the answer is to be streamed.
        usage: whether the stream is to tell it.
        tools: whether any are offered.
        results: of tools that there are since the user spoke last.
    """

    streamed: bool
    usage: bool
    tools: bool
    results: int

    @classmethod
    def read(cls, body: bytes) -> Asked:
        """Read a body. JSON's own quotes are escaped in texts, so that nothing said can look like a field."""
        begin = max(body.rfind(b'"role":"user"'), body.rfind(b'"role": "user"'), 0)
        return cls(
            streamed=b'"stream":true' in body or b'"stream": true' in body,
            usage=b'"include_usage":true' in body or b'"include_usage": true' in body,
            tools=b'"tools":[{' in body or b'"tools": [{' in body,
            results=body.count(b'"role":"tool"', begin) + body.count(b'"role": "tool"', begin),
        )


class ModelServer:
    """What all connections share."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.counts = Counts()
        self.call_at = Pacer(loop).call_at
        self.tokens, self.rounds, self.pace = 200, 1, 0
        self.replies = Replies.of(self.tokens, self.rounds)

    def set(self, tokens: int, rounds: int, pace: int) -> None:
        """Say how to answer from now on."""
        self.tokens, self.rounds, self.pace = tokens, rounds, pace * 1000
        self.replies = Replies.of(tokens, rounds)

    def round_of(self, asked: Asked) -> int:
        """Which of the replies comes next; the text is the last one."""
        return min(asked.results, self.rounds) if asked.tools else self.rounds


class Connection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._unread = bytearray()
        self._stream: _Paced | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BaseProtocol`."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name

    def connection_lost(self, _: Exception | None) -> None:
        """See `asyncio.BaseProtocol`."""
        if self._stream is not None:
            self._stream.stop()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._unread += data
        while (at := self._unread.find(_END)) >= 0:
            head = bytes(self._unread[:at])
            length = _LENGTH.search(head)
            end = at + len(_END) + (int(length[1]) if length else 0)
            if len(self._unread) < end:
                return
            body = bytes(self._unread[at + len(_END) : end])
            del self._unread[:end]
            if head.startswith(b"POST"):
                self._answer(Asked.read(body))
            else:
                self._obey(head.split(b" ", 2)[1].decode())

    def _answer(self, asked: Asked) -> None:
        server = self._server
        server.counts.requests += 1
        replies, place = server.replies, server.round_of(asked)
        if asked.streamed and server.pace and place == server.rounds:
            self._stream = _Paced(self._transport, server, replies.tails[asked.usage])
        elif asked.streamed:
            self._transport.write(replies.streams[asked.usage][place])
        else:
            self._transport.write(replies.whole[place])

    def _obey(self, target: str) -> None:
        address = urlsplit(target)
        if address.path == "/settings":
            self._server.set(**{name: int(value) for name, value in parse_qsl(address.query)})
        told = json.dumps(asdict(self._server.counts)).encode()
        self._transport.write(_JSON % (len(told), told))


class _Paced:
    """A stream whose tokens are written one at a time, each with the microsecond at which it is.

    The first one comes at a random moment of the first interval, so that streams which began together do not stay so.
    """

    def __init__(self, transport: asyncio.Transport, server: ModelServer, tail: bytes) -> None:
        self._transport = transport
        self._server = server
        self._tail = tail
        self._left = server.tokens
        self._token = bytearray(server.replies.token)
        self._due = time.monotonic_ns() + random.randrange(server.pace)
        self._write = _direct_writer(transport)
        server.counts.writing += 1
        self._write(server.replies.head)
        server.call_at(self._due, self._next)

    def stop(self) -> None:
        """Write no more."""
        if self._left:
            self._left = 0
            self._server.counts.writing -= 1

    def _next(self) -> None:
        if not self._left:
            return
        self._left -= 1
        self._server.counts.tokens += 1
        self._token[self._server.replies.stamp] = b"%016d" % (time.monotonic_ns() // 1000)
        if self._left:
            self._write(bytes(self._token))
            self._due += self._server.pace
            self._server.call_at(self._due, self._next)
        else:
            self._write(bytes(self._token) + self._tail)
            self._server.counts.writing -= 1


def _direct_writer(transport: asyncio.Transport) -> Callable[[bytes], None]:
    """Writes at once what the socket takes; uvloop's own `write` waits for the end of the loop's turn."""
    file = transport.get_extra_info("socket").fileno()

    def write(data: bytes) -> None:
        if transport.is_closing():
            return
        written = 0
        if transport.get_write_buffer_size() == 0:
            try:
                written = os.write(file, data)
            except BlockingIOError:
                written = 0
            except OSError:
                transport.abort()
                return
        if written < len(data):
            transport.write(data[written:])

    return write


async def _serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = ModelServer(loop)
    listening = await loop.create_server(lambda: Connection(server), "127.0.0.1", port, backlog=4096)
    gc.disable()  # a pause would be taken for delay
    await listening.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
