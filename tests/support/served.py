"""An application behind a real uvicorn on a free loopback port, in the event loop of the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from tests.support.gates import PATIENCE


class _Server(uvicorn.Server):
    """A server that leaves the signals to pytest."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[tuple[str, int]]:
    """The host and the port of the running application. For tests marked `server`."""
    listener = socket.create_server(("127.0.0.1", 0))  # listens from here on: who connects early waits
    host, port = listener.getsockname()
    server = _Server(uvicorn.Config(app, log_config=None, lifespan="on", ws="none", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield host, port
    finally:
        server.should_exit = True
        await asyncio.wait_for(serving, PATIENCE)


class Connection:
    """A client that writes and reads bytes, for what HTTP libraries hide.

    Args:
        address: host and port.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    async def __aenter__(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection(*self._address)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """Drop the connection, without a good-bye."""
        self._writer.transport.abort()

    def post(self, path: str, body: bytes, *headers: str) -> None:
        """Write a request. Without a header that says how the body ends, its length is announced."""
        lines = [f"POST {path} HTTP/1.1", "host: gateway", *headers]
        if not headers:
            lines.append(f"content-length: {len(body)}")
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    def get(self, path: str) -> None:
        """Write a request without a body."""
        self._writer.write(f"GET {path} HTTP/1.1\r\nhost: gateway\r\n\r\n".encode())

    def write(self, data: bytes) -> None:
        """Write more of the body."""
        self._writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        """The status and the headers of the response."""
        async with asyncio.timeout(PATIENCE):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = (line.partition(": ") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value for name, _, value in fields}

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        async with asyncio.timeout(PATIENCE):
            size = int(await self._reader.readline(), 16)
            data = await self._reader.readexactly(size + 2)
        return data[:-2]

    async def body(self, headers: dict[str, str]) -> bytes:
        """A body whose length was announced."""
        async with asyncio.timeout(PATIENCE):
            return await self._reader.readexactly(int(headers["content-length"]))
