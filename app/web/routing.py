"""Routes that FastAPI describes and that are answered directly.

FastAPI finds out for every request what a route's parameters are made of, opens two stacks of contexts for what they
may have to close, and looks at what comes back. Here parameters come from our own dependencies only, none of them has
anything to close, and what comes back is a response: so the order of calls is made out once, when the route is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import Match, Router
from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoute(APIRoute):
    """A route whose endpoint and dependencies are coroutine functions that take the request and each other's results.

    Raises:
        TypeError: one of them takes something else, which nobody would give it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.app = _answering(self.dependant)


def router(tag: str) -> APIRouter:
    """A router of such routes."""
    return APIRouter(tags=[tag], default_response_class=Response, route_class=DirectRoute)


class Addresses:
    """ASGI application that finds direct routes by their paths, where these hold no parameters.

    It finds what the router would: none is taken that another one stands in front of.

    Args:
        router: has the routes.
        otherwise: answers whatever is not found here; the router, or what is around it.
    """

    def __init__(self, router: Router, otherwise: ASGIApp) -> None:
        self._found = dict(_fixed(router))
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        found = None
        # Under another application, or behind a prefix, what is left of the path is for the router to say.
        if scope["type"] == "http" and "router" not in scope and not scope.get("root_path"):
            found = self._found.get((scope["method"], scope["path"]))
        if found is None:
            await self._otherwise(scope, receive, send)
            return
        route, selected = found
        scope.update(selected, path_params={})
        await route.app(scope, receive, send)


def _fixed(router: Router) -> Iterator[tuple[tuple[str, str], tuple[DirectRoute, Scope]]]:
    """By method and path a route, and what the router puts into the scope of a request for it."""
    for place, route in enumerate(router.routes):
        if not isinstance(route, DirectRoute):
            return  # it may be for any path, and goes before those behind it
        for method in [] if route.param_convertors else route.methods or []:
            asked = {"type": "http", "method": method, "path": route.path}
            if all(earlier.matches(asked)[0] is not Match.FULL for earlier in router.routes[:place]):
                yield (method, route.path), (route, {"router": router, **route.matches(asked)[1]})


class _Step(NamedTuple):
    """A call, and where in the values so far its arguments stand, in its order."""

    call: Callable[..., Awaitable[Any]]
    places: Sequence[int]


def _answering(endpoint: Dependant) -> ASGIApp:
    steps: list[_Step] = []
    _plan(endpoint, steps, {})

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        values: list[Any] = [request]
        value_at = values.__getitem__
        for call, places in steps:
            values.append(await call(*map(value_at, places)))
        response: Response = values[-1]
        await response(scope, receive, send)

    return answer


def _plan(dependant: Dependant, steps: list[_Step], places: dict[Any, int]) -> int:
    """Put the calls for a dependant's value behind the steps so far, each once. Returns the value's place."""
    call = dependant.call
    if call in places:
        return places[call]
    if call is None or not inspect.iscoroutinefunction(call):
        raise TypeError(f"{call!r} is no coroutine function")
    arguments = {} if dependant.request_param_name is None else {dependant.request_param_name: 0}
    for needed in dependant.dependencies:
        if needed.name is not None:
            arguments[needed.name] = _plan(needed, steps, places)
    parameters = inspect.signature(call).parameters
    if missing := parameters.keys() - arguments.keys():
        raise TypeError(f"{call.__qualname__} takes what no dependency gives: {', '.join(sorted(missing))}")
    if any(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters.values()):
        raise TypeError(f"{call.__qualname__} takes arguments by name only, and is given them in order")
    steps.append(_Step(call, [arguments[name] for name in parameters]))
    places[call] = len(steps)
    return len(steps)
