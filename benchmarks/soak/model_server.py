"""A model server that does what scripts say, at the pace they say.

    python -m benchmarks.soak.model_server PORT

Each word is its place in the answer and the moment it was written, so that its reader knows the order and the delay.
A GET tells how many connections are open, how many answers are being written, and how many were left by their reader.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import cast

import uvloop

from benchmarks.soak.scripts import Script
from tests.support.chunks import DONE, USAGE, call, calls, chunk, event, usage_chunk

_END = b"\r\n\r\n"
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked" + _END
_PIECE = 8
"""Characters of a tool's arguments that come at once."""


class _Connection(asyncio.Protocol):
    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._unread = b""
        self._steps: Iterator[bytes | float] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self._counts["open"] += 1

    def connection_lost(self, _: Exception | None) -> None:
        self._counts["open"] -= 1
        if self._steps is not None:
            self._counts["answering"] -= 1
            self._counts["left"] += 1
            self._steps = None
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        head, end, rest = self._unread.partition(_END)
        if not end:
            return
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields.get(b"content-length", 0))
        if len(rest) < length:
            return
        self._unread = rest[length:]
        if head.startswith(b"GET"):
            body = json.dumps(self._counts).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d%b%b" % (len(body), _END, body))
        else:
            self._counts["answering"] += 1
            self._steps = _answer(json.loads(rest[:length])["messages"])
            self._go_on()

    def _go_on(self) -> None:
        for step in self._steps or ():
            if isinstance(step, float):
                self._timer = asyncio.get_running_loop().call_later(step, self._go_on)
                return
            self._transport.write(step)
        self._steps = None
        self._counts["answering"] -= 1


def _answer(messages: list[dict[str, str]]) -> Iterator[bytes | float]:
    """What to write, and for how many seconds to wait before the next."""
    script = Script.read(next(one["content"] for one in reversed(messages) if one["role"] == "user"))
    chance = random.Random(script.run)
    yield _STREAM
    yield script.silence
    is_first = messages[-1]["role"] != "tool"
    for step in _call(script) if script.tool and is_first else _text(script):
        yield b"%x\r\n%b\r\n" % (len(step), step)
        yield chance.uniform(script.quickest, script.slowest)
    yield b"%x\r\n%b\r\n0\r\n\r\n" % (len(DONE), DONE)


def _call(script: Script) -> Iterator[bytes]:
    arguments = f'{{"seconds": {script.seconds}{" " * 3 * _PIECE}}}'
    yield event(calls(call(script.tool, "", call_id="call_1")))
    for at in range(0, len(arguments), _PIECE):
        yield event(calls(call(None, arguments[at : at + _PIECE])))
    yield event(chunk(finish="tool_calls", usage=USAGE))


def _text(script: Script) -> Iterator[bytes]:
    for place in range(script.words):
        yield event(chunk({"content": f"{place}@{time.monotonic():.6f} "}))
    yield event(chunk(finish="stop")) + event(usage_chunk())


async def _serve(port: int) -> None:
    counts = Counter(open=0, answering=0, left=0)
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(counts), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
