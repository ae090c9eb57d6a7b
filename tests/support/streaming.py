"""An in-process HTTP client whose responses arrive as they are sent, and whose callers can go away.

`httpx.ASGITransport` collects a whole response before it hands it on: with it no test can see that an event comes
early, that nothing comes, or what happens when the caller hangs up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
from starlette.types import ASGIApp, Message, Scope

from tests.support.gates import PATIENCE

DISCONNECT: Message = {"type": "http.disconnect"}


class StreamingTransport(httpx.AsyncBaseTransport):
    """Runs the application in a task for each request.

    Each write of the application is one chunk of the response, so `aiter_raw` shows single writes. Closing a
    response before its end, or cancelling the request, is hanging up: the application receives `http.disconnect`.
    By a request's extension `unread` the application waits while so many writes are not read, as on a full socket.

    Args:
        app: the application.
        patience: seconds after which a caller who waits for the next write gives up.
    """

    def __init__(self, app: ASGIApp, patience: float = PATIENCE) -> None:
        self._app = app
        self._patience = patience

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Begin the request; return when the status and the headers are there."""
        exchange = _Exchange(self._app, request, self._patience)
        try:
            start = await exchange.next()
        except BaseException:
            await exchange.aclose()
            raise
        if start is None:
            raise RuntimeError("the application ended without a response")
        return httpx.Response(start["status"], headers=list(start["headers"]), stream=exchange)


class _Exchange(httpx.AsyncByteStream):
    """One request and its response, seen from the caller's side."""

    def __init__(self, app: ASGIApp, request: httpx.Request, patience: float) -> None:
        self._patience = patience
        assert isinstance(request.stream, httpx.AsyncByteStream)
        self._body = aiter(request.stream)
        self._body_is_read = False
        self._sent: asyncio.Queue[Message | None] = asyncio.Queue()
        self._unread: int | None = request.extensions.get("unread")
        self._read = asyncio.Event()
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._run(app, _scope(request)))

    async def next(self) -> Message | None:
        """What the application sends next, None at its end.

        Raises:
            Exception: what the application failed with.
        """
        async with asyncio.timeout(self._patience):
            message = await self._sent.get()
            self._read.set()
            if message is None:
                await self._task
            return message

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self.next()) is not None:
            if body := message.get("body", b""):
                yield body
            if not message.get("more_body", False):
                self._over.set()

    async def aclose(self) -> None:
        """Hang up, and wait until the application is done."""
        self._over.set()
        self._read.set()
        async with asyncio.timeout(self._patience):
            await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # who hung up is told nothing any more

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            self._sent.put_nowait(None)

    async def _send(self, message: Message) -> None:
        while self._unread is not None and self._sent.qsize() >= self._unread and not self._over.is_set():
            self._read.clear()
            await self._read.wait()
        self._sent.put_nowait(message)

    async def _receive(self) -> Message:
        hanging_up = asyncio.create_task(self._over.wait())
        if self._body_is_read:
            await hanging_up
            return DISCONNECT
        reading = asyncio.ensure_future(anext(self._body, None))
        try:
            await asyncio.wait({reading, hanging_up}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return DISCONNECT
        finally:
            reading.cancel()
            hanging_up.cancel()
        part = reading.result()
        self._body_is_read = part is None
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}


def _scope(request: httpx.Request) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 40000),
        "server": (request.url.host, request.url.port or 80),
    }
