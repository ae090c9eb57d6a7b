"""The application takes what others add to it, and may stand under another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Body, Depends, FastAPI, Request, Response
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.chat import ModelBusy
from app.main import create_app
from app.providers.scripted import ScriptedModel
from app.settings import Settings
from tests.support.web import opened, serving


def gateway_app() -> FastAPI:
    return create_app(Settings(), model=ScriptedModel(forever="Hi"), tools=[])


class Own(Exception):
    """An error that the gateway knows nothing of."""


class Marking:
    """Middleware that marks every response with the path of the route that gave it."""

    def __init__(self, app: ASGIApp, header: bytes) -> None:
        self._app = app
        self._header = header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    (self._header, getattr(scope.get("route"), "path", "-").encode()),
                ]
            await send(message)

        await self._app(scope, receive, send_marked if scope["type"] == "http" else send)


CLOSED: list[str] = []


def opened_for_it() -> Iterator[str]:
    yield "opened"
    CLOSED.append("opened")


def test_fastapi_has_no_layers_but_those_that_are_known_here() -> None:
    app = FastAPI()
    layer: Any = app.build_middleware_stack()
    known = []
    while layer is not app.router:
        known.append(type(layer).__name__)
        layer = layer.app

    assert known == [
        *("ServerErrorMiddleware", "ExceptionTelemetryMiddleware", "AppBodyLimitMiddleware"),
        *("ExceptionMiddleware", "AsyncExitStackMiddleware"),
    ]


async def test_routes_mounts_handlers_and_middleware_of_others_work() -> None:
    app = gateway_app()

    @app.post("/own")
    async def own(name: Annotated[str, Body(embed=True)], state: Annotated[str, Depends(opened_for_it)]) -> list[str]:
        return [name, state]

    @app.get("/broken")
    def broken() -> None:
        raise Own

    @app.exception_handler(Own)
    def tell(_: Request, __: Own) -> Response:
        return Response("mine", 418)

    app.mount("/other", Starlette())
    app.add_middleware(Marking, header=b"x-route")

    CLOSED.clear()
    async with serving(app) as client:
        given = await client.post("/own", json={"name": "Ada"})
        told = await client.get("/broken")
        nothing = await client.get("/other/nothing")
        answered = await client.post("/chat", json={"message": "Hello"})

    assert (given.json(), CLOSED) == (["Ada", "opened"], ["opened"])
    assert (told.status_code, told.text) == (418, "mine")
    assert (nothing.status_code, nothing.text) == (404, "Not Found")
    assert answered.json()["content"] == "Hi"
    assert [one.headers["x-route"] for one in (given, told, nothing, answered)] == ["/own", "/broken", "-", "/chat"]
    assert all(one.headers["x-request-id"] for one in (given, told, nothing, answered))


@pytest.mark.parametrize("error", [Own(), ModelBusy("all are taken"), ZeroDivisionError()])
async def test_handlers_of_others_go_before_the_gateways(error: Exception) -> None:
    broken = False

    def provider() -> list[object]:
        if broken:
            raise error
        return []

    app = create_app(Settings(), model=ScriptedModel(), tools=[provider])

    @app.get("/broken")
    async def raising() -> None:
        raise error

    async def tell(request: Request, error: Exception) -> Response:
        return Response(f"{type(error).__name__} at {request.url.path}", 418)

    for kind in (Own, ModelBusy, Exception):
        app.add_exception_handler(kind, tell)

    async with serving(app) as client:
        broken = True
        told = [await client.get(path) for path in ("/tools", "/broken")]

    assert [one.status_code for one in told] == [418, 418]
    assert [one.text for one in told] == [f"{type(error).__name__} at {path}" for path in ("/tools", "/broken")]


async def test_a_handler_that_fails_itself_is_a_fault_of_ours() -> None:
    broken = False

    def provider() -> list[object]:
        if broken:
            raise Own
        return []

    app = create_app(Settings(), model=ScriptedModel(), tools=[provider])

    @app.get("/broken")
    async def raising() -> None:
        raise Own

    @app.exception_handler(Own)
    async def fail(_: Request, __: Own) -> Response:
        raise ZeroDivisionError

    async with serving(app) as client:
        broken = True
        told = [await client.get(path) for path in ("/tools", "/broken")]

    assert [one.json()["type"] for one in told] == ["urn:advisor-gateway:internal"] * 2


class Broken:
    """Middleware with a fault."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raise Own
        await self._app(scope, receive, send)


@pytest.mark.parametrize("kind", [Exception, 500])
async def test_a_handler_of_faults_answers_those_of_middleware_too(kind: int | type[Exception]) -> None:
    app = gateway_app()
    app.add_middleware(Broken)

    async def tell(_: Request, error: Exception) -> Response:
        return Response(type(error).__name__, 418)

    app.add_exception_handler(kind, tell)
    line = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=line, base_url="http://gateway") as client:
        response = await client.get("/healthz")

    assert (response.status_code, response.text) == (418, "Own")


@pytest.mark.parametrize("root_path", ["/gateway", "/chat"])
async def test_under_another_application_each_address_is_behind_its_path(root_path: str) -> None:
    async with opened(gateway_app()) as (_, parts):
        state = {"gateway": parts}
        app = gateway_app()

        async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "state": dict(state)}, receive, send)

        line = httpx.ASGITransport(Starlette(routes=[Mount(root_path, with_state)]))
        async with httpx.AsyncClient(transport=line, base_url="http://gateway") as client:
            answered = await client.post(f"{root_path}/chat", json={"message": "Hello"})
            nothing = await client.post(f"{root_path}/nothing")
            stream = await client.post("/chat/stream", json={"message": "Hello"})

    assert answered.json()["content"] == "Hi"
    assert nothing.json()["type"] == "urn:advisor-gateway:not-found"
    assert stream.status_code == 404


@pytest.mark.parametrize(("path", "status"), [("/gateway/chat", 200), ("/chat", 200), ("/chat/stream", 404)])
async def test_behind_a_prefix_that_a_proxy_has_or_has_not_taken_away(path: str, status: int) -> None:
    root_path = "/chat" if status == 404 else "/gateway"
    async with opened(gateway_app()) as (_, parts):
        app = gateway_app()

        async def behind(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "state": {"gateway": parts}, "root_path": root_path}, receive, send)

        line = httpx.ASGITransport(behind)
        async with httpx.AsyncClient(transport=line, base_url="http://gateway") as client:
            response = await client.post(path, json={"message": "Hello"})

    assert response.status_code == status
