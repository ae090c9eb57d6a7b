"""The ASGI application: routes, error handlers and middleware, put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.telemetry import TelemetryConfig
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp

from app.web import openapi
from app.web.errors import HANDLERS, Problems
from app.web.parameters import REPLAYED
from app.web.request_ids import HEADER, RequestIds
from app.web.routes import ROUTES
from app.web.routing import Addresses

_NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
"""FastAPI would look for somebody to tell of each request: a third of a millisecond where there is nobody."""

Lifespan: TypeAlias = Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, Any]]]


def application(lifespan: Lifespan, *, version: str, docs: bool = True, cors_origins: Sequence[str] = ()) -> FastAPI:
    """The application.

    Args:
        lifespan: yields the `Gateway` that requests work with, as `{"gateway": ...}`.
        version: of the gateway, for the OpenAPI page.
        docs: whether `/docs`, `/redoc` and `/openapi.json` are there.
        cors_origins: origins whose pages may call the gateway from a browser; `*` = all.
    """
    app = _Application(
        title="Advisor Gateway",
        summary="Chat with any OpenAI-compatible model, with tools that the gateway runs.",
        version=version,
        lifespan=lifespan,
        routes=list(ROUTES),  # not by `include_router`, which looks for them anew at each request
        openapi_url="/openapi.json" if docs else None,
        exception_handlers=HANDLERS,
        middleware=_middleware(cors_origins),
        telemetry=_NO_TELEMETRY,
        redirect_slashes=False,  # the redirect's address would be made from a header that anyone can send
    )
    app.openapi = openapi.describe(app)  # type: ignore[method-assign] # the way FastAPI documents
    return app


class _Application(FastAPI):
    """FastAPI's application with those layers around its routes that do something here.

    Without its net for faults where nobody gave a handler for them, for `Problems` is one, and servers have theirs for
    what is outside of that; without its telemetry, which is off, and without its limit for bodies, which are counted
    where they are read.
    """

    def build_middleware_stack(self) -> ASGIApp:
        """Put the layers together; called once, with the first request."""
        others = ExceptionMiddleware(AsyncExitStackMiddleware(self.router), self.exception_handlers, self.debug)
        app: ASGIApp = Problems(Addresses(self.router, others), self.exception_handlers)
        for layer, args, options in reversed(self.user_middleware):
            app = layer(app, *args, **options)
        of_faults = self.exception_handlers.get(Exception, self.exception_handlers.get(500))
        return app if of_faults is None else ServerErrorMiddleware(app, of_faults, self.debug)


def _middleware(cors_origins: Sequence[str]) -> list[Middleware]:
    """Outermost first: an error's answer has its request's id and may be read by a page, too."""
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(cors_origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=["Location", HEADER, "Retry-After", REPLAYED],
        max_age=600,
    )
    return [Middleware(RequestIds), *([cors] if cors_origins else [])]
