"""Errors as problem documents (RFC 9457): the one place where an error meets HTTP.

A problem is the same before and after the first byte: as the body of an error response, and as the data of
`run.failed`. Its `type` is a name that stays; its `detail` is written for whoever caused it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from http import HTTPMethod, HTTPStatus
from types import MappingProxyType
from typing import Any

from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.chat import (
    ConfigurationError,
    ContentRefused,
    ContextLengthExceeded,
    GatewayError,
    ModelAuthenticationFailed,
    ModelBusy,
    ModelError,
    ModelNotFound,
    ModelProtocolError,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
    QuotaExceeded,
    ToolError,
)
from app.memory import ConversationExists, ConversationNotFound, MemoryUnavailable, TurnNotFound
from app.runs import (
    ConversationBusy,
    EventsGone,
    GatewayFull,
    IdempotencyKeyReused,
    RunGone,
    RunLost,
    RunNotFound,
    RunRefused,
    SharedStateUnavailable,
    ShuttingDown,
)
from app.web.body import BodyInvalid, BodyNotJson, BodyTooLarge, BodyUnlabelled
from app.web.encoding import encode
from app.web.parameters import ConversationsUnknown, ParameterInvalid
from app.web.request_ids import current_request_id

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:advisor-gateway:"

_IN_THE_LOG = "The details are in the gateway's log, under the request id."
_RETRY_AFTER = 10.0
"""Seconds to wait where nobody could tell how many."""
_RETRY_AFTER_QUOTA = 3600.0
"""The same for a quota, which takes a payment or a new month."""
_LONGEST_RETRY_AFTER = 86_400.0
_RETRIED = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Statuses that always say when to come back; others do where the model server said so."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: the end of its `type`, its HTTP status and its title."""

    name: str
    status: int
    title: str


NOT_FOUND = Kind("not-found", 404, "There is nothing at this address")
METHOD_NOT_ALLOWED = Kind("method-not-allowed", 405, "The address does not take this method")
INTERNAL = Kind("internal", 500, "The gateway failed by a fault of its own")

KINDS: Mapping[type[Exception], Kind] = MappingProxyType(
    {
        BodyNotJson: Kind("body-not-json", 400, "The body is not JSON"),
        BodyUnlabelled: Kind("body-unlabelled", 415, "The body is not labelled as JSON"),
        BodyTooLarge: Kind("body-too-large", 413, "The body is too large"),
        BodyInvalid: Kind("body-invalid", 422, "The body is not what is taken here"),
        ConversationsUnknown: Kind("conversations-unknown", 501, "Conversations cannot be looked at"),
        ParameterInvalid: Kind("parameter-invalid", 422, "A header or a parameter is not what is taken here"),
        IdempotencyKeyReused: Kind("idempotency-key-reused", 422, "The idempotency key was used for another request"),
        RunNotFound: Kind("run-not-found", 404, "There is no such run"),
        RunGone: Kind("run-gone", 410, "The run is no longer kept"),
        EventsGone: Kind("events-gone", 410, "The events are no longer kept"),
        ConversationNotFound: Kind("conversation-not-found", 404, "There is no such conversation"),
        TurnNotFound: Kind("turn-not-found", 404, "The conversation has no such turn"),
        ConversationExists: Kind("conversation-exists", 409, "There is such a conversation already"),
        MemoryUnavailable: Kind("memory-unavailable", 503, "The memory of conversations cannot be asked"),
        ConversationBusy: Kind("conversation-busy", 409, "The conversation has a run that is still going"),
        GatewayFull: Kind("gateway-full", 503, "The gateway has no room for another run"),
        SharedStateUnavailable: Kind("shared-state-unavailable", 503, "What the replicas share cannot be asked"),
        RunLost: Kind("lost", 502, "The run is lost"),
        ShuttingDown: Kind("shutting-down", 503, "The gateway is shutting down"),
        QuotaExceeded: Kind("model-quota-exceeded", 429, "The quota at the model server is used up"),
        ModelRateLimited: Kind("model-rate-limited", 429, "The model server is asked too often"),
        ContextLengthExceeded: Kind("context-length-exceeded", 502, "The conversation is too long for the model"),
        ContentRefused: Kind("content-refused", 502, "The model server refused the request for its content"),
        ModelAuthenticationFailed: Kind(
            "model-authentication-failed", 502, "The model server does not accept the gateway's key"
        ),
        ModelNotFound: Kind("model-not-found", 502, "The model server does not know the model"),
        ModelRejected: Kind("model-rejected", 502, "The model server refused the request"),
        ModelProtocolError: Kind("model-protocol-error", 502, "The model server's answer cannot be used"),
        ModelUnavailable: Kind("model-unavailable", 502, "The model server cannot be used"),
        ModelBusy: Kind("model-busy", 503, "The model server has all the calls that it may have"),
        ModelTimeout: Kind("model-timeout", 504, "The model server took too long"),
        ModelError: Kind("model-error", 502, "The model server failed"),
        ToolError: Kind("tool-error", 500, "A tool failed"),
        ConfigurationError: Kind("misconfigured", 500, "The gateway is put together wrongly"),
        GatewayError: Kind("gateway-error", 500, "The gateway could not answer"),
    }
)
"""Every error that is raised on purpose. A subclass without a line of its own has its base class's."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem document and the headers that go with it. `request_id=None` stands for the request being answered."""

    kind: Kind
    detail: str
    members: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    request_id: str | None = None

    def document(self) -> dict[str, Any]:
        """The document, with the id of the request that the log has it under."""
        return {
            "type": TYPE_PREFIX + self.kind.name,
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "request_id": self.request_id or current_request_id(),
            **self.members,
        }

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        """The document as an HTTP response, with these headers beside its own."""
        given = {**self.headers, **(headers or {})}
        return Response(encode(self.document()), self.kind.status, headers=given, media_type=MEDIA_TYPE)


def problem_of(error: Exception, request_id: str | None = None) -> Problem:
    """What a caller is told of an error. Of a fault of the gateway's own that is nothing but the request's id.

    Args:
        error: what was raised.
        request_id: the request whose work failed; None = the one being answered.
    """
    kind = next((KINDS[base] for base in type(error).__mro__ if base in KINDS), None)
    if kind is None:
        return Problem(INTERNAL, _IN_THE_LOG, request_id=request_id)
    members = _members(error)
    if kind.status in _RETRIED or (isinstance(error, ModelError) and error.retry_after is not None):
        members["retry_after"] = _seconds(error)
    headers = {"Retry-After": str(members["retry_after"])} if "retry_after" in members else {}
    detail = _IN_THE_LOG if isinstance(error, ConfigurationError) else str(error)  # it may name files and modules
    return Problem(kind, detail, members, headers, request_id)


def _members(error: Exception) -> dict[str, Any]:
    match error:
        case BodyInvalid(errors=errors):
            return {"errors": [{"loc": list(one.location), "message": one.message} for one in errors]}
        case EventsGone(first=first):
            return {"first": first}
        case ModelError(code=code, status=status):
            given = {"code": code, "upstream_status": status}
            return {name: value for name, value in given.items() if value is not None}
        case _:
            return {}


def _seconds(error: Exception) -> int:
    wanted = error.retry_after if isinstance(error, ModelError | RunRefused | MemoryUnavailable) else None
    if wanted is None or not math.isfinite(wanted):
        wanted = _RETRY_AFTER_QUOTA if isinstance(error, QuotaExceeded) else _RETRY_AFTER
    return math.ceil(min(max(wanted, 1.0), _LONGEST_RETRY_AFTER))


async def _on_raised(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem.kind.status == HTTPStatus.INTERNAL_SERVER_ERROR:  # what callers do wrong is theirs to know
        logger.error("%s %r failed: %s: %s", request.method, request.url.path, type(error).__name__, error)
    return problem.response()


async def _on_http(request: Request, error: HTTPException) -> Response:
    status = error.status_code
    kinds = {kind.status: kind for kind in (NOT_FOUND, METHOD_NOT_ALLOWED)}
    kind = kinds.get(status) or Kind(f"http-{status}", status, error.detail)
    detail = f"{request.method} {request.url.path}: {error.detail}"
    headers = error.headers or {}
    if kind is METHOD_NOT_ALLOWED:
        headers = {**headers, "Allow": ", ".join(_methods(request))}
    return Problem(kind, detail, headers=headers).response()


def _methods(request: Request) -> list[str]:
    """All that the address takes: the routing names those of the first route only, and an address may have several."""
    return sorted(
        method
        for method in HTTPMethod
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    )


async def _on_gone(_: Request, __: ClientDisconnect) -> Response:
    return Response(status_code=499)  # nobody reads it; the number is what access logs know for this


HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    **dict.fromkeys(KINDS, _on_raised),
    HTTPException: _on_http,
    ClientDisconnect: _on_gone,
}
"""For the application's `exception_handlers`."""


async def _on_fault(request: Request, error: Exception) -> Response:
    logger.error("%s %r failed by a fault of ours", request.method, request.scope["path"], exc_info=error)
    return problem_of(error).response()


_RAISED = "app.raised"
"""Where in the scope an error stands on its way to Starlette."""


class Problems:
    """ASGI middleware that answers what its application raises: as handlers say, or else as a fault of ours.

    The answering is done by Starlette's own, which is asked when there is an error, and not in the way of all else.

    Args:
        app: the application.
        handlers: by the kind of an error or by a status.
    """

    def __init__(self, app: ASGIApp, handlers: Mapping[Any, Any]) -> None:
        self._app = app
        self._answering = ExceptionMiddleware(_raise_again, {Exception: _on_fault, **handlers})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        begun = False

        def send_and_mark(message: Message) -> Awaitable[None]:
            nonlocal begun
            begun = True
            return send(message)

        try:
            await self._app(scope, receive, send_and_mark)
        except Exception as error:
            if begun or scope["type"] != "http":
                raise  # the server logs it and cuts the connection, all that is left to do
            try:
                await self._answering({**scope, _RAISED: error}, receive, send_and_mark)
            except Exception as fault:  # of a handler's
                if begun:
                    raise
                response = await _on_fault(Request(scope), fault)
                await response(scope, receive, send)


async def _raise_again(scope: Scope, _: Receive, __: Send) -> None:
    raise scope.pop(_RAISED)
