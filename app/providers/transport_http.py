"""The default transport: HTTP/1.1 by httptools over the event loop's own connections.

It does what a chat completion needs and nothing else, and costs a third of what a general client does. Behind a proxy
of the environment requests go over aiohttp, which knows them all.
"""

from __future__ import annotations

import asyncio
import re
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

from app.chat import ModelError, ModelTimeout, ModelUnavailable
from app.providers.http_line import Answer, Line, NotHttp
from app.providers.transport import Transport, WireRequest, WireResponse, not_http

_EYEBALLS = 0.25
"""Seconds after which a server's next address is tried beside one that does not answer."""
_KNOWN_FOR = 10.0
"""Seconds for which the addresses of a host are taken for known."""
_Address: TypeAlias = tuple[Any, Any, int, str, Any]
"""As `getaddrinfo` gives it."""
_NOT_IN_HEADERS = re.compile(r"[\r\n\0]")
_URL_CHARACTERS = "!$%&'()*+,/:;=?@~"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, eq=False)
class _Origin:
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
    def of(cls, url: str) -> _Origin:
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


class HttpTransport:
    """Sends requests over a pool of connections, one pool an event loop.

    A server may close a kept connection just when the next request goes out (llama.cpp does so after every stream).
    That request is sent again over another connection: it was not answered, and most likely not read.

    Proxies are taken from `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` when a server is first asked; a `.netrc` file is
    not read.

    Args:
        max_connections: connections in use at once; further requests wait for one.
        keep_alive: seconds an idle connection is kept. Shorter than what servers usually keep it (5 s and more), so
            that no request is sent into a connection that is just being closed.
    """

    def __init__(self, *, max_connections: int = 1000, keep_alive: float = 4.0) -> None:
        self._max_connections = max_connections
        self._keep_alive = keep_alive
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._origins: dict[str, _Origin] = {}
        self._proxied: Transport | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """None: it adds nothing."""
        return ()

    async def send(self, request: WireRequest) -> WireResponse:
        """See `Transport.send`."""
        try:
            origin = self._origins.get(request.url)
            if origin is None:
                origin = self._origins[request.url] = _Origin.of(request.url)
            if origin.is_proxied:
                return await self._behind_a_proxy().send(request)
            head = _head(origin, request)
            pool = self._pool()
            while True:
                line = await pool.line(origin, request.connect_timeout)
                was_used = line.is_used
                answer: Answer | None = None
                try:
                    answer = line.ask(head, request.body)
                    await answer.begin()
                except BaseException as error:
                    line.close()
                    if was_used and isinstance(error, ConnectionError) and not (answer and answer.has_come):
                        continue  # a new one in the end: each failure takes one out of the pool
                    raise
                return answer
        except NotHttp:
            raise not_http(request) from None
        except (TimeoutError, OSError, ValueError) as error:
            raise _no_answer(error, request) from None  # the cause may hold the headers with the key

    async def aclose(self) -> None:
        """Close the pools of all event loops."""
        pools, self._pools = self._pools, {}
        for loop, pool in pools.items():
            if not loop.is_closed():
                pool.close()
        if self._proxied is not None:
            await self._proxied.aclose()

    def _pool(self) -> _Pool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            self._pools = {known: kept for known, kept in self._pools.items() if not known.is_closed()}
            pool = self._pools[loop] = _Pool(loop, self._max_connections, self._keep_alive)
        return pool

    def _behind_a_proxy(self) -> Transport:
        if self._proxied is None:
            from app.providers.transport_aiohttp import AiohttpTransport  # noqa: PLC0415 - 7 MB that few need

            self._proxied = AiohttpTransport(max_connections=self._max_connections, keep_alive=self._keep_alive)
        return self._proxied


class _Pool:
    """The lines of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size: int, keep_alive: float) -> None:
        self._loop = loop
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._keep_alive = keep_alive
        self._idle: dict[_Origin, deque[Line]] = {}
        self._origin_of: dict[Line, _Origin] = {}
        self._known: dict[_Origin, tuple[float, Sequence[_Address]]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    async def line(self, origin: _Origin, seconds: float | None) -> Line:
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

    def _take(self, origin: _Origin) -> Line | None:
        """The line that was used last of those that are idle."""
        idle = self._idle.get(origin)
        while idle:
            line = idle.pop()
            if line.is_open and self._loop.time() - line.idle_since < self._keep_alive:
                return line
            self._forget(line)
        return None

    async def _connect(self, origin: _Origin) -> Line:
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

    async def _addresses(self, origin: _Origin) -> Sequence[_Address]:
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


def _head(origin: _Origin, request: WireRequest) -> bytes:
    lines = [origin.opening]
    for name, value in request.headers.items():
        if _NOT_IN_HEADERS.search(name) or _NOT_IN_HEADERS.search(value):
            raise ValueError("a header holds a line end")
        lines.append(f"{name}: {value}\r\n")
    lines.append(f"Content-Length: {len(request.body)}\r\n\r\n")
    return "".join(lines).encode()


def _no_answer(error: Exception, request: WireRequest) -> ModelError:
    if isinstance(error, TimeoutError):
        return ModelTimeout(
            f"No connection to the model server at {request.shown_url} could be had in {request.connect_timeout} s.",
            code="connect_timeout",
        )
    return ModelUnavailable(
        f"The model server at {request.shown_url} cannot be reached: {_reason(error)}.", code="unreachable"
    )


def _reason(error: Exception) -> str:
    """Why, without the text of errors that hold headers."""
    if isinstance(error, ConnectionResetError):
        return "it closed the connection without an answer"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
