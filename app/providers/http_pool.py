"""Connections to model servers that are kept for the next request, and where they lead to."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from aiohappyeyeballs import start_connection

from app.providers.http_line import Line

_EYEBALLS = 0.25
"""Seconds after which a server's next address is tried beside one that does not answer."""
_KNOWN_FOR = 10.0
"""Seconds for which the addresses of a host are taken for known."""
_Address: TypeAlias = tuple[Any, Any, int, str, Any]
"""As `getaddrinfo` gives it."""
_URL_CHARACTERS = "!$%&'()*+,/:;=?@~"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where requests to a URL go.

    Attributes:
        is_proxied: whether the environment names a proxy for it.
        opening: the beginning of every request's head.
    """

    host: str
    port: int
    is_encrypted: bool
    is_proxied: bool
    opening: str

    @classmethod
    def of(cls, url: str) -> Origin:
        """Where requests to this URL go.

        Raises:
            ValueError: its host cannot be written in ASCII.
        """
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        if not host.isascii():
            host = host.encode("idna").decode()
        named = f"[{host}]" if ":" in host else host
        if port is not None and port != _PORTS[parts.scheme]:
            named = f"{named}:{port}"
        target = quote(parts.path or "/", _URL_CHARACTERS) + (parts.query and "?" + quote(parts.query, _URL_CHARACTERS))
        proxied = bool(getproxies_environment().get(parts.scheme)) and not proxy_bypass(host)
        return cls(
            host,
            _PORTS[parts.scheme] if port is None else port,
            parts.scheme == "https",
            proxied,
            f"POST {target} HTTP/1.1\r\nHost: {named}\r\nContent-Type: application/json\r\n"
            "User-Agent: advisor-gateway\r\n",
        )


class Pool:
    """The lines of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size: int, keep_alive: float) -> None:
        self._loop = loop
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._keep_alive = keep_alive
        self._idle: dict[Origin, deque[Line]] = {}
        self._origin_of: dict[Line, Origin] = {}
        self._known: dict[Origin, tuple[float, Sequence[_Address]]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    async def line(self, origin: Origin, seconds: float | None) -> Line:
        """A line that is free, or a new one; to be asked at once.

        Raises:
            TimeoutError: none could be had in so many seconds.
            OSError: the server cannot be reached.
        """
        if self._free and (line := self._take(origin)):
            self._free -= 1
            return line
        async with asyncio.timeout(seconds):
            await self._enter()
            try:
                return self._take(origin) or await self._connect(origin)
            except BaseException:
                self._leave()
                raise

    def close(self) -> None:
        """Close all lines."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for line in list(self._origin_of):
            line.close()
        self._idle.clear()

    async def _enter(self) -> None:
        """Wait for room for a line, first come, first served."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._leave()  # the turn came together with the end of the wait
            raise

    def _leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _take(self, origin: Origin) -> Line | None:
        """The line that was used last of those that are idle."""
        idle = self._idle.get(origin)
        while idle:
            line = idle.pop()
            if line.is_open and self._loop.time() - line.idle_since < self._keep_alive:
                return line
            self._forget(line)
        return None

    async def _connect(self, origin: Origin) -> Line:
        connected = await start_connection(await self._addresses(origin), happy_eyeballs_delay=_EYEBALLS, interleave=1)
        try:
            _, line = await self._loop.create_connection(
                lambda: Line(self._freed),
                sock=connected,
                ssl=_trust() if origin.is_encrypted else None,
                server_hostname=origin.host if origin.is_encrypted else None,
            )
        except BaseException:
            connected.close()
            raise
        self._origin_of[line] = origin
        return line

    async def _addresses(self, origin: Origin) -> Sequence[_Address]:
        """Where the origin is; asked anew after a while, which takes a thread."""
        known = self._known.get(origin)
        if known is None or self._loop.time() - known[0] >= _KNOWN_FOR:
            found = _literal(origin.host, origin.port) or await self._loop.getaddrinfo(
                origin.host, origin.port, type=socket.SOCK_STREAM
            )
            known = self._known[origin] = self._loop.time(), found
        return known[1]

    def _freed(self, line: Line, is_reusable: bool) -> None:
        self._leave()
        if not is_reusable:
            self._forget(line)
            return
        line.idle_since = self._loop.time()
        self._idle.setdefault(self._origin_of[line], deque()).append(line)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(self._keep_alive, self._sweep)

    def _sweep(self) -> None:
        """Close the lines that nobody has used for too long."""
        self._sweeping = None
        oldest = self._loop.time() - self._keep_alive
        for idle in self._idle.values():
            while idle and (idle[0].idle_since <= oldest or not idle[0].is_open):
                self._forget(idle.popleft())
        if any(self._idle.values()):
            self._sweeping = self._loop.call_later(self._keep_alive, self._sweep)

    def _forget(self, line: Line) -> None:
        self._origin_of.pop(line, None)
        line.close()


def _literal(host: str, port: int) -> Sequence[_Address]:
    """The address that a host is which is written as one; nothing where it is a name."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except OSError:
        return ()


@cache
def _trust() -> ssl.SSLContext:
    """Made when it is first needed: it takes longer than most requests."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
