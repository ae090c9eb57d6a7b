"""The default transport: HTTP/1.1 by httptools over the event loop's own connections.

It does what a chat completion needs and nothing else, and costs a third of what a general client does. Behind a proxy
of the environment requests go over aiohttp, which knows them all.
"""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache

from app.chat import ModelError, ModelTimeout, ModelUnavailable
from app.providers.http_line import Answer, NotHttp
from app.providers.http_pool import Origin, Pool
from app.providers.transport import Transport, WireRequest, WireResponse, not_http

_HEADS = 64
"""So many heads are kept."""
_NOT_IN_HEADERS = re.compile(r"[\r\n\0]")


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
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}
        self._origins: dict[str, Origin] = {}
        self._heads = lru_cache(maxsize=_HEADS)(_head)
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
                origin = self._origins[request.url] = Origin.of(request.url)
            if origin.is_proxied:
                return await self._behind_a_proxy().send(request)
            begun = self._heads(origin, tuple(request.headers.items()))
            head = f"{begun}Content-Length: {len(request.body)}\r\n\r\n".encode()
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

    def _pool(self) -> Pool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            self._pools = {known: kept for known, kept in self._pools.items() if not known.is_closed()}
            pool = self._pools[loop] = Pool(loop, self._max_connections, self._keep_alive)
        return pool

    def _behind_a_proxy(self) -> Transport:
        if self._proxied is None:
            from app.providers.transport_aiohttp import AiohttpTransport  # noqa: PLC0415 - 7 MB that few need

            self._proxied = AiohttpTransport(max_connections=self._max_connections, keep_alive=self._keep_alive)
        return self._proxied


def _head(origin: Origin, headers: tuple[tuple[str, str], ...]) -> str:
    """The head of a request but for its last line: all requests of a model have the same, or one of two."""
    lines = [origin.opening]
    for name, value in headers:
        if _NOT_IN_HEADERS.search(name) or _NOT_IN_HEADERS.search(value):
            raise ValueError("a header holds a line end")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)


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
