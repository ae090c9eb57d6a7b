"""Where tools of a gateway process come to: so a test knows that they are at work, and can let them go."""

from __future__ import annotations

import asyncio
from typing import Self

from tests.support.gates import PATIENCE


class Door:
    """A loopback port. Who connects is at work until it is sent a line, and then ends with it."""

    def __init__(self) -> None:
        self._arrivals = asyncio.Semaphore(0)
        self._visitors: list[asyncio.StreamWriter] = []

    @property
    def port(self) -> int:
        """Where to connect."""
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def arrivals(self, count: int = 1) -> None:
        """Wait until so many more have come."""
        async with asyncio.timeout(PATIENCE * count):
            for _ in range(count):
                await self._arrivals.acquire()

    def let_go(self, line: str = "there") -> None:
        """Send all that are here on."""
        for visitor in self._visitors:
            visitor.write(line.encode())

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._come, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for visitor in self._visitors:
            visitor.transport.abort()
        await self._server.wait_closed()

    async def _come(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visitors.append(writer)
        self._arrivals.release()
