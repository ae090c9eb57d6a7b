"""The transport behind proxies: aiohttp, which knows the ways through all of them."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from types import SimpleNamespace
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp

from app.chat import ModelError, ModelProtocolError, ModelTimeout, ModelUnavailable
from app.providers.transport import WireRequest, lower_names, not_http

_LARGE_BODY = 2**20
"""From here on aiohttp wants bodies as a file, which it sends without holding up the event loop."""
_CLOSED = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientConnectionResetError)
_JSON = {"Content-Type": "application/json", "User-Agent": "advisor-gateway"}


class AiohttpTransport:
    """Sends requests over a pool of connections, one pool an event loop, opened by the first request in it.

    A server may close a kept connection just when the next request goes out (llama.cpp does so after every stream).
    That request is sent again over another connection: it was not answered, and most likely not read.

    Proxies are taken from `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`; a `.netrc` file is not read.

    Args:
        max_connections: connections open at once; further requests wait for one.
        keep_alive: seconds an idle connection is kept. Shorter than what servers usually keep it (5 s and more), so
            that no request is sent into a connection that is just being closed.
    """

    def __init__(self, *, max_connections: int = 1000, keep_alive: float = 4.0) -> None:
        self._max_connections = max_connections
        self._keep_alive = keep_alive
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """None: it adds nothing."""
        return ()

    async def send(self, request: WireRequest) -> _Response:
        """See `Transport.send`."""
        session = await self._session()
        timeout = aiohttp.ClientTimeout(total=None, connect=request.connect_timeout)
        while True:
            line = _Line()
            try:
                response = await session.post(
                    request.url,
                    data=request.body if len(request.body) <= _LARGE_BODY else io.BytesIO(request.body),
                    headers={**_JSON, **request.headers},
                    timeout=timeout,
                    proxy=_proxy_of(request.url),
                    allow_redirects=False,
                    trace_request_ctx=line,
                )
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                if line.was_used_before and isinstance(error, _CLOSED):
                    continue  # a new one in the end: each failure takes one out of the pool
                raise _no_answer(error, request) from None  # the cause may hold the URL and the headers with the key
            return _Response(response)

    async def aclose(self) -> None:
        """Close the pools of all event loops."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            ended = [self._sessions.pop(other) for other in list(self._sessions) if other.is_closed()]
            session = self._sessions[loop] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._max_connections, keepalive_timeout=self._keep_alive),
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[_watching_lines()],
            )
            for other in ended:
                await other.close()
        return session


class _Line:
    """The connection that a request went over."""

    was_used_before = False


def _watching_lines() -> aiohttp.TraceConfig:
    async def reused(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.was_used_before = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(reused)
    return config


class _Response:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return lower_names(self._response.headers)

    def take(self) -> bytes | None:
        return None

    async def read(self) -> bytes:
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError):
            raise ModelProtocolError(
                "The connection to the model server broke in the middle of its answer.", code="truncated"
            ) from None

    async def aclose(self) -> None:
        self._response.close()  # at once; a body that was read to its end has given its connection back already


def _no_answer(error: Exception, request: WireRequest) -> ModelError:
    if isinstance(error, TimeoutError):
        return ModelTimeout(
            f"No connection to the model server at {request.shown_url} could be had in {request.connect_timeout} s.",
            code="connect_timeout",
        )
    if isinstance(error, aiohttp.ClientResponseError) and not isinstance(error, aiohttp.ClientHttpProxyError):
        return not_http(request)
    return ModelUnavailable(
        f"The model server at {request.shown_url} cannot be reached: {_reason(error)}.", code="unreachable"
    )


def _reason(error: Exception) -> str:
    """Why, without the text of errors that hold the URL or the headers with the key."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def _proxy_of(url: str) -> str | None:
    parts = urlsplit(url)
    proxy = getproxies_environment().get(parts.scheme)
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
