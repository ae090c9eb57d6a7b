"""A connection whose bytes never leave this process: each read is known beforehand, and so is what it causes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

_READ = 65_536
"""Bytes that are read at once."""


class Peer(Protocol):
    """The other end of a connection."""

    def received(self, data: bytes) -> None:
        """Take what the gateway has written."""


Connect: TypeAlias = Callable[["Line"], Peer]


class Line(asyncio.Transport):
    """The gateway's end of a connection. What it writes has been read when `write` returns.

    Args:
        loop: its event loop.
        protocol: what the gateway reads with.
        connect: makes the other end.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol, connect: Connect) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 8_000)})
        self._loop = loop
        self._protocol = protocol
        self._unread: deque[bytes] = deque()
        self._is_paused = False
        self._is_reading = False
        self._is_closing = False
        self._peer = connect(self)
        protocol.connection_made(self)

    def feed(self, data: bytes) -> None:
        """Have the gateway read this, in a turn of the loop for as much as a socket would give at once."""
        self._unread.extend(data[at : at + _READ] for at in range(0, len(data), _READ))
        self._go_on()

    def _go_on(self) -> None:
        if self._unread and not self._is_reading and self.is_reading():
            self._is_reading = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._is_reading = False
        if not self.is_reading():
            return
        data = self._unread.popleft()
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            _fill(self._protocol, data)
        elif isinstance(self._protocol, asyncio.Protocol):
            self._protocol.data_received(data)
        self._go_on()

    def write(self, data: Any) -> None:
        """See `asyncio.WriteTransport`."""
        self._peer.received(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        """See `asyncio.WriteTransport`."""
        self._peer.received(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        """See `asyncio.WriteTransport`. There is nothing in it."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See `asyncio.WriteTransport`. No limit is ever reached."""

    def can_write_eof(self) -> bool:
        """See `asyncio.WriteTransport`."""
        return False

    def is_reading(self) -> bool:
        """See `asyncio.ReadTransport`."""
        return not self._is_paused and not self._is_closing

    def pause_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        self._is_paused = False
        self._go_on()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See `asyncio.BaseTransport`."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """See `asyncio.BaseTransport`."""
        return self._protocol

    def is_closing(self) -> bool:
        """See `asyncio.BaseTransport`."""
        return self._is_closing

    def close(self) -> None:
        """See `asyncio.BaseTransport`."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        """See `asyncio.WriteTransport`."""
        self.close()


def _fill(protocol: asyncio.BufferedProtocol, data: bytes) -> None:
    while data:
        buffer = memoryview(protocol.get_buffer(len(data)))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]
