"""One id for each request: in the answer's header, in every problem document, and in the log."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Awaitable
from contextvars import ContextVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-ID"

_NAME = HEADER.lower().encode()
"""The header as servers hand headers over."""
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+/=-]{0,127}")
_current: ContextVar[str] = ContextVar("request_id", default="-")


def current_request_id() -> str:
    """The id of the request being answered, `-` outside of one. Tasks begun for a request inherit it."""
    return _current.get()


class RequestIds:
    """ASGI middleware that takes a caller's own `X-Request-ID` where it is sane, and makes one where it is not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == _NAME), b"").decode("latin-1")
        request_id = given if _SANE.fullmatch(given) else os.urandom(16).hex()
        header = (_NAME, request_id.encode())

        def send_with_id(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message["headers"] = [*(one for one in message.get("headers", ()) if one[0] != _NAME), header]
            return send(message)

        token = _current.set(request_id)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            _current.reset(token)


class RequestIdFilter(logging.Filter):
    """Adds `request_id` to log records, for handlers whose format names it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Mark the record; none is dropped."""
        record.request_id = current_request_id()
        return True
