"""A model server on loopback that answers with exact bytes and watches its clients.

    async with ModelServer() as server:
        gate = asyncio.Event()
        server.will(Answer(event(chunk({"content": "Hel"})), gate, event(chunk({"content": "lo"})), HANG))
        model = OpenAIModel(server.base_url)
        ...
        await server.exchanges[0].gone.wait()  # the client has left before the answer's end

Each step of an answer is written by itself, so that it usually is one network read for the client.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Any, Literal, Self, TypeAlias


class Step(Enum):
    """What a server does that is neither writing nor waiting for a test."""

    HANG = auto()
    """Write no more, keep the connection open."""
    BREAK = auto()
    """Drop the connection."""


HANG, BREAK = Step.HANG, Step.BREAK


class Answer:
    """What the server answers to one request.

    Args:
        *steps: bytes to write, an event to wait for, `HANG`, or `BREAK`. Status and headers go out with the first
            bytes, be they empty.
        status: the HTTP status.
        content_type: of the body; None = no such header.
        headers: further headers.
        framing: how the body's end is told: by chunks, by its length (of the bytes given), or by closing.
    """

    def __init__(
        self,
        *steps: bytes | asyncio.Event | Step,
        status: int = 200,
        content_type: str | None = "text/event-stream",
        headers: Mapping[str, str] | None = None,
        framing: Literal["chunked", "length", "close"] = "chunked",
    ) -> None:
        self.steps = steps
        self.framing = framing
        self._headers = dict(headers or {})
        self._status = status
        if content_type is not None:
            self._headers["Content-Type"] = content_type
        if framing == "chunked":
            self._headers["Transfer-Encoding"] = "chunked"
        elif framing == "length":
            self._headers["Content-Length"] = str(sum(len(step) for step in steps if isinstance(step, bytes)))
        else:
            self._headers["Connection"] = "close"

    def head(self) -> bytes:
        """Status line and headers."""
        lines = [f"HTTP/1.1 {self._status} Status", *(f"{name}: {value}" for name, value in self._headers.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    def written(self, data: bytes) -> bytes:
        """`data` as it stands in the body."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.framing == "chunked" else data

    @classmethod
    def json(cls, body: bytes | Mapping[str, Any], status: int = 200, **headers: str) -> Self:
        """A JSON body, given as bytes or to be encoded; header names with `_` for `-`."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(data, status=status, content_type="application/json", headers=named, framing="length")


@dataclass
class Exchange:
    """One request and what became of it.

    Attributes:
        path: with the query.
        headers: names in lower case.
        raw: the body.
        told: the first step of the answer that is bytes was written.
        answered: the answer was written to its end.
        gone: the client left before that.
    """

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    told: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def body(self) -> Any:
        """The body, decoded."""
        return json.loads(self.raw)


AnswerTo: TypeAlias = Callable[[Exchange], Answer]


class ModelServer:
    """The server. Requests are kept in `exchanges`, in the order they came; `connections` counts those ever opened."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self.open_connections = 0
        self._answers: deque[Answer | AnswerTo] = deque()
        self._always: Answer | AnswerTo | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()

    @property
    def base_url(self) -> str:
        """The base URL of its API."""
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}/v1"

    def will(self, *answers: Answer | AnswerTo) -> None:
        """Answer the next requests with these, in order; a callable makes its answer from the request."""
        self._answers.extend(answers)

    def always(self, answer: Answer | AnswerTo) -> None:
        """Answer all requests beyond the script with this."""
        self._always = answer

    async def request(self, number: int = 1) -> Exchange:
        """The request of this number, from 1, as soon as it has come."""
        await self.until(lambda: len(self.exchanges) >= number)
        return self.exchanges[number - 1]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so of the requests or connections."""
        while not condition():
            await self._changed.wait()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in tuple(self._writers):
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not by the task: one that is cancelled before it has begun closes nothing.
        self._writers.add(writer)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(partial(self._served, writer))

    def _served(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if writer.is_closing() and not writer.transport.get_write_buffer_size():  # what is unwritten holds the line
            self._writers.discard(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        self._notify()
        begun = b""
        try:
            while True:
                exchange = await self._read(reader, begun)
                begun = await self._converse(exchange, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side, or the test, is through: asyncio would log a cancelled connection as an error
        finally:
            self.open_connections -= 1
            self._notify()
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, begun: bytes) -> Exchange:
        head = begun + await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        method, path, _ = first.split(" ")
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        exchange = Exchange(method, path, headers, body)
        self.exchanges.append(exchange)
        self._notify()
        return exchange

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _converse(self, exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Answer while watching the client. Returns what has come of its next request."""
        watching = asyncio.ensure_future(reader.read(1))
        writing = asyncio.ensure_future(self._write(self._answer(exchange), writer, exchange))
        try:
            await asyncio.wait({watching, writing}, return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                exchange.gone.set()
                raise ConnectionResetError
            try:
                keep = writing.result()
            except ConnectionError:
                exchange.gone.set()
                raise
            exchange.answered.set()
            begun = await watching if keep else b""
        finally:
            for task in (watching, writing):
                task.cancel()
                with suppress(asyncio.CancelledError, ConnectionError):
                    await task
        if not begun:
            raise ConnectionResetError
        return begun

    def _answer(self, exchange: Exchange) -> Answer:
        answer = self._answers.popleft() if self._answers else self._always
        if answer is None:
            return Answer.json({"error": {"message": "the script has no answer to this request"}}, status=500)
        return answer if isinstance(answer, Answer) else answer(exchange)

    async def _write(self, answer: Answer, writer: asyncio.StreamWriter, exchange: Exchange) -> bool:
        """Write an answer. Returns whether the connection can be used again."""
        head = answer.head()
        for step in answer.steps:
            if isinstance(step, bytes):
                writer.write(head + (answer.written(step) if step else b""))
                head = b""
                await writer.drain()
                exchange.told.set()
            elif isinstance(step, asyncio.Event):
                await step.wait()
            elif step is HANG:
                await asyncio.Event().wait()
            else:
                writer.transport.abort()
                return False
        writer.write(head + (answer.written(b"") if answer.framing == "chunked" else b""))
        await writer.drain()
        return answer.framing != "close"
