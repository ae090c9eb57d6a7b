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
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, cast

import uvloop

from benchmarks.speed.answers import CHECKS, Expected, delays_of
from benchmarks.speed.exchange import LAST_CHUNK, Exchange
from benchmarks.speed.figures import percentile
from benchmarks.speed.wrong import Wrong

READY, ASKED = "ready", "asked"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END = b"\r\n\r\n"
_BLANK = re.compile(rb"\r?\n\r?\n")
_PATIENCE = 60.0
"""Seconds for which answers are waited for that were asked for in time."""
_TOLD = 3
"""Wrong answers that are told, each in so many characters."""
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Order:
    """What to ask, how often, and what must come.

    Attributes:
        port: on loopback.
        path: what is posted to.
        bodies: what is posted, again and again; dealt out to the connections where there are several.
        check: the name of the check, of `CHECKS`.
        tokens: see `Expected`, as with the two that follow.
        rounds: see `Expected`.
        paced: see `Expected`.
        connections: on which is asked at a time.
        seconds: for which new questions are asked.
        least: questions on each connection, whatever the time.
        before: questions on each connection before it begins, so that all there is to set up is there.
        pause: seconds between an answer and the next question on a connection.
        ramp: seconds over which the connections begin.
    """

    port: int
    path: str
    bodies: tuple[str, ...]
    check: str
    tokens: int
    rounds: int
    paced: bool
    connections: int
    seconds: float
    least: int = 1
    before: int = 0
    pause: float = 0.0
    ramp: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What was seen. Times are in milliseconds, by percentile.

    Attributes:
        answers: how many were right.
        wrong: what was wrong with the others, the first few, and how many there were.
        wrong_count: how many there were.
        tokens: in the right answers.
        seconds: from the first question to the last answer.
        whole: from the question to the end of its answer.
        first_byte: to the first byte.
        first_event: to the end of the first event.
        first_token: to the end of the first token.
        delay: of tokens that say when they were written.
    """

    answers: int
    wrong_count: int
    tokens: int
    seconds: float
    wrong: tuple[str, ...] = ()
    whole: dict[str, float] = field(default_factory=dict)
    first_byte: dict[str, float] = field(default_factory=dict)
    first_event: dict[str, float] = field(default_factory=dict)
    first_token: dict[str, float] = field(default_factory=dict)
    delay: dict[str, float] = field(default_factory=dict)


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
        if self._left == 0 if self._left is not None else data.endswith(LAST_CHUNK):
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
        return partial(_figures, order, self.exchanges, self.wrong, began)


def _request(order: Order, body: str) -> bytes:
    data = body.encode()
    head = f"POST {order.path} HTTP/1.1\r\nhost: 127.0.0.1:{order.port}\r\ncontent-type: application/json\r\n"
    return f"{head}accept: */*\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


def _figures(order: Order, exchanges: list[Exchange], wrong: list[str], began: int) -> Figures:
    expected = Expected(order.tokens, order.rounds, order.paced)
    check = CHECKS[order.check]
    right: set[bytes] = set()
    delays: list[int] = []
    marks: list[tuple[int, int, int, int]] = []
    for exchange in exchanges:
        try:
            response = exchange.response()
            if response.body not in right:
                check(response.body, expected)
                right = {response.body}  # servers that pass bytes on give the same again and again
            marks.append(_marks(exchange, response.read_at, response.body))
            if order.paced:
                delays += delays_of(response)
        except (Wrong, KeyError, IndexError, ValueError) as error:
            wrong.append(f"{type(error).__name__}: {error}")
    by_mark = list(zip(*marks, strict=True)) or [()] * 4
    return Figures(
        answers=len(marks),
        wrong_count=len(wrong),
        tokens=len(marks) * order.tokens,
        seconds=(max((one.ended for one in exchanges), default=began) - began) / 1e9,
        wrong=tuple(one[:_LONGEST] for one in wrong[:_TOLD]),
        **{
            name: _percentiles(times, 1e6)
            for name, times in zip(("whole", "first_byte", "first_event", "first_token"), by_mark, strict=True)
        },
        delay=_percentiles(delays, 1e3),
    )


def _marks(exchange: Exchange, read_at: Any, body: bytes) -> tuple[int, int, int, int]:
    """Nanoseconds to the end, the first byte, the first event and the first token of an answer."""
    sent = exchange.sent
    event, token = _BLANK.search(body), body.find(b" t0")
    return (
        exchange.ended - sent,
        exchange.reads[0][0] - sent,
        (read_at(event.end() - 1) if event else exchange.ended) - sent,
        (read_at(token + len(b" t0000000000000000")) if token >= 0 else exchange.ended) - sent,
    )


def _percentiles(values: Iterable[float], unit: float) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {}
    return {f"p{share}": percentile(ordered, share / 100) / unit for share in (50, 90, 99)} | {
        "most": ordered[-1] / unit
    }


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
