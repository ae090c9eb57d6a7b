"""A process that asks over and over, and checks every answer when it is done.

    python -m benchmarks.speed.load

Reads an `Order` as a line of JSON, opens its connections, and says "ready". At the next line it begins; it says "asked"
when the last answer has come, and then `Figures` as JSON. While it asks it only notes what came when; what the answers
say is looked at afterwards, so that reading them delays none. `benchmarks.speed.loading` is the other end.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import cast

import uvloop

from benchmarks.speed.exchange import Exchange
from benchmarks.speed.seen import Figures, Order, figures_of

READY, ASKED = "ready", "asked"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END = b"\r\n\r\n"
_PATIENCE = 60.0
"""Seconds for which answers are waited for that were asked for in time."""


class Caller(asyncio.Protocol):
    """One connection: asks, notes what comes, asks again."""

    def __init__(self, asking: Asking, requests: list[bytes]) -> None:
        self._asking = asking
        self._requests = requests
        self._asked = 0
        self._most = asking.order.before
        self._exchange: Exchange | None = None
        self._left: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BaseProtocol`."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.BaseProtocol`."""
        if self._exchange is not None:
            self._asking.wrong.append(f"the connection was closed: {error}")
        self._asking.one_ended()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        now = time.monotonic_ns()
        exchange = self._exchange
        if exchange is None:
            self._asking.wrong.append(f"nobody asked for {data[:200]!r}")
            return
        exchange.reads.append((now, data))
        if len(exchange.reads) == 1:
            self._left = _length_left(data)
        elif self._left is not None:
            self._left -= len(data)
        if self._left == 0 if self._left is not None else exchange.has_last_chunk:
            self._exchange = None
            self._asking.exchanges.append(exchange)
            if self._asking.order.pause:
                asyncio.get_running_loop().call_later(self._asking.order.pause, self._next)
            else:
                self._next()

    def begin(self) -> None:
        """Ask what is to be measured."""
        self._asked, self._most = 0, sys.maxsize
        self._next()

    def _next(self) -> None:
        now = time.monotonic_ns()
        if self._asked >= self._most:
            self._asking.one_ready()
        elif now >= self._asking.until and self._asked >= self._asking.order.least and self._most == sys.maxsize:
            self._transport.close()
        else:
            self._exchange = Exchange(now)
            self._transport.write(self._requests[self._asked % len(self._requests)])
            self._asked += 1


def _length_left(first: bytes) -> int | None:
    """Bytes that are still to come after the first read; None where the response is in chunks."""
    head, end, body = first.partition(_END)
    length = _LENGTH.search(head) if end else None
    return int(length[1]) - len(body) if length else None


class Asking:
    """What the connections share.

    Args:
        order: what to do.

    Attributes:
        order: what to do.
        exchanges: those that have ended.
        wrong: what was wrong apart from answers.
        until: when the last question may be asked, in nanoseconds of the monotonic clock.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.exchanges: list[Exchange] = []
        self.wrong: list[str] = []
        self.until = 0
        self._missing = order.connections
        self._open = order.connections
        loop = asyncio.get_running_loop()
        self._all_ready, self._all_ended = loop.create_future(), loop.create_future()

    def one_ready(self) -> None:
        """A connection is ready."""
        self._missing -= 1
        if not self._missing:
            self._all_ready.set_result(None)

    def one_ended(self) -> None:
        """A connection has ended."""
        self._open -= 1
        if not self._open:
            self._all_ended.set_result(None)

    async def run(self, begin: Callable[[], Awaitable[object]]) -> Callable[[], Figures]:
        """Ask.

        Args:
            begin: awaited when everything is ready; then it begins.

        Returns:
            What looks at the answers.
        """
        order, loop = self.order, asyncio.get_running_loop()
        requests = [_request(order, body) for body in order.bodies]
        callers: list[Caller] = []
        for number in range(order.connections):
            mine = requests[number :: order.connections] or [requests[number % len(requests)]]
            callers.append(Caller(self, mine))
            await loop.create_connection(partial(callers.__getitem__, number), "127.0.0.1", order.port)
        async with asyncio.timeout(_PATIENCE):
            await self._all_ready
        self.exchanges.clear()
        await begin()
        began = time.monotonic_ns()
        self.until = began + int(order.seconds * 1e9)
        for caller in callers:
            caller.begin()
            if order.ramp:
                await asyncio.sleep(order.ramp / order.connections)
        try:
            async with asyncio.timeout(order.seconds + _PATIENCE):
                await self._all_ended
        except TimeoutError:
            self.wrong.append(f"{self._open} connections still wait for answers after {_PATIENCE:.0f} s")
        return partial(figures_of, order, self.exchanges, self.wrong, began)


def _request(order: Order, body: str) -> bytes:
    data = body.encode()
    head = f"POST {order.path} HTTP/1.1\r\nhost: 127.0.0.1:{order.port}\r\ncontent-type: application/json\r\n"
    return f"{head}accept: */*\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


async def _main() -> None:
    loop = asyncio.get_running_loop()
    order = Order(**json.loads(sys.stdin.readline()))

    async def begin() -> None:
        print(READY, flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)

    figures = await Asking(order).run(begin)
    print(ASKED, flush=True)
    print(json.dumps(asdict(figures())))


if __name__ == "__main__":
    gc.disable()  # a pause would be taken for delay
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main())
