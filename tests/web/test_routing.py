"""Routes are answered directly: each dependency once, in order, and nothing that nobody gives."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request, Response
from starlette.responses import PlainTextResponse

from app.web import routing
from tests.support.web import serving

ASKED: list[str] = []


async def _language(request: Request) -> str:
    ASKED.append("language")
    return request.query_params["language"]


Language = Annotated[str, Depends(_language)]


async def _greeting(language: Language) -> str:
    return {"en": "Hello", "fr": "Salut"}[language]


async def greet(request: Request, greeting: Annotated[str, Depends(_greeting)], language: Language) -> Response:
    return Response(f"{greeting} in {language}, {request.path_params['name']}")


async def test_a_dependency_that_several_want_is_asked_once() -> None:
    router = routing.router("greetings")
    router.get("/greet/{name}")(greet)
    ASKED.clear()

    async with serving(FastAPI(routes=list(router.routes))) as client:
        answer = await client.get("/greet/Ada?language=fr")

    assert answer.text == "Salut in fr, Ada"
    assert ASKED == ["language"]


async def greet_all(request: Request) -> Response:
    return Response(f"Hello all, {request.path_params}")


@pytest.mark.parametrize("all_first", [False, True])
async def test_an_address_is_answered_by_the_first_route_that_takes_it(*, all_first: bool) -> None:
    router = routing.router("greetings")
    if all_first:
        router.get("/greet/all")(greet_all)
    router.get("/greet/{name}")(greet)
    router.get("/greet/all")(greet_all)
    app = FastAPI(routes=list(router.routes), openapi_url=None)

    async with serving(routing.Addresses(app.router, otherwise=app)) as client:
        answer = await client.get("/greet/all?language=fr")
        other = await client.post("/greet/all")

    assert answer.text == ("Hello all, {}" if all_first else "Salut in fr, all")
    assert other.status_code == 405


async def test_routes_behind_those_of_others_are_left_to_the_router() -> None:
    router = routing.router("greetings")
    router.get("/greet/all")(greet_all)
    app = FastAPI()
    app.mount("/greet", PlainTextResponse("Go away"))
    app.router.routes.extend(router.routes)

    async with serving(routing.Addresses(app.router, otherwise=app)) as client:
        answer = await client.get("/greet/all")

    assert answer.text == "Go away"


def not_async() -> Response:
    return Response()


async def with_a_query_parameter(page: int) -> Response:
    return Response(str(page))


async def by_name_only(*, request: Request) -> Response:
    return Response(request.url.path)


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        (not_async, "is no coroutine function"),
        (with_a_query_parameter, "takes what no dependency gives: page"),
        (by_name_only, "takes arguments by name only"),
    ],
)
def test_what_could_not_be_answered_stops_the_start(endpoint: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        routing.router("broken").get("/broken")(endpoint)
