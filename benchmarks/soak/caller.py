"""Callers as light as can be: one connection for each request, and no more work than it takes to read what comes."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any, NamedTuple, Self

_AT_ONCE = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing sends a reset."""


class Wrong(Exception):
    """The gateway did what it must not."""


class Head(NamedTuple):
    """How a response begins. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]


class Event(NamedTuple):
    """A server-sent event."""

    name: str
    seq: int | None
    data: dict[str, Any]


class Line:
    """A connection with one request on it. Made by `open`, ended by `cut`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect to the gateway."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None, share: float = 1
    ) -> None:
        """Send the request, or the first share of it."""
        data = b"" if body is None else json.dumps(body).encode()
        given = {"Host": "gateway", "Content-Length": str(len(data)), **(headers or {})}
        fields = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        request = f"{method} {path} HTTP/1.1\r\n{fields}\r\n".encode() + data
        self._writer.write(request[: int(len(request) * share)])

    async def head(self) -> Head:
        """The response's head."""
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip().split("\r\n")
        return Head(int(first.split(" ")[1]), dict(line.lower().split(": ", 1) for line in lines))

    async def body(self, head: Head) -> bytes:
        """The body of a response that has a length."""
        return await self._reader.readexactly(int(head.headers.get("content-length", 0)))

    def events(self) -> AsyncGenerator[Event, None]:
        """The events of a stream. See `events_of`."""
        return events_of(self._reader)

    async def cut(self, *, hard: bool = False) -> None:
        """Hang up: in good order, or by a reset."""
        if hard:
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


async def events_of(reader: asyncio.StreamReader) -> AsyncGenerator[Event, None]:
    """The events in the body of a response, to its end.

    Raises:
        Wrong: it was cut off.
    """
    unread = b""
    async with aclosing(_chunks_of(reader)) as chunks:
        async for data in chunks:
            *whole, unread = (unread + data).split(b"\n\n")
            for one in whole:
                yield event_of(one)


async def _chunks_of(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    unread = b""
    while data := await reader.read(2**16):
        unread += data
        while (at := unread.find(b"\r\n")) >= 0:
            size = int(unread[:at], 16)
            end = at + 2 + size
            if len(unread) < end + 2:
                break
            if not size:
                return
            yield unread[at + 2 : end]
            unread = unread[end + 2 :]
    raise Wrong("the stream was cut off")


def event_of(block: bytes) -> Event:
    """The event that a block of lines is."""
    fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if not line.startswith(b":"))
    seq = fields.get(b"id")
    return Event(fields[b"event"].decode(), None if seq is None else int(seq), json.loads(fields[b"data"]))


async def asked(port: int, method: str, path: str, body: object = None) -> Any:
    """What the gateway answers to a request that is no stream."""
    line = await Line.open(port)
    try:
        line.send(method, path, body)
        head = await line.head()
        text = await line.body(head)
    finally:
        await line.cut()
    if not 200 <= head.status < 300:  # noqa: PLR2004 - HTTP
        raise Wrong(f"{method} {path} was answered by {head.status}: {text.decode()}")
    return json.loads(text)
