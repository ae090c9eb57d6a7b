"""The gateways that tests of runs ask: each test says what it is made of, and this file where runs are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from app.memory import InMemoryChatMemory
from tests.support import web
from tests.support.databases import emptied

Gateways: TypeAlias = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]
"""Makes a gateway; see `tests.support.web.gateway`."""


class InTurn(httpx.AsyncBaseTransport):
    """Sends each request to another one of several gateways than the last."""

    def __init__(self, clients: Sequence[httpx.AsyncClient]) -> None:
        self._lines = cycle([client._transport for client in clients])

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the next one."""
        return await next(self._lines).handle_async_request(request)


@asynccontextmanager
async def replicas(
    url: str, *parts: Any, settings: dict[str, Any] | None = None, count: int = 2, **more: Any
) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Clients of several gateways that share their runs, their memory, their model and their tools."""
    shared = {"settings": {"redis": {"url": url}, **(settings or {})}, "memory": InMemoryChatMemory(), **more}
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(web.gateway(*parts, **shared)) for _ in range(count)]


_STORES = ["memory", "SQLite", pytest.param("redis", marks=pytest.mark.server)]
"""Where runs and conversations are kept: both in memory, conversations in SQLite, runs in Redis and conversations in
PostgreSQL."""


@pytest.fixture
def lone_gateway() -> Gateways:
    """Makes gateways that keep their runs in memory, for what is only promised of those."""
    return web.gateway


@pytest.fixture(params=_STORES)
async def single_gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Gateways:
    """Makes gateways of one process, for what is only promised of one."""
    shared = await _shared(request, tmp_path)

    @asynccontextmanager
    async def single(
        *parts: Any, settings: dict[str, Any] | None = None, **more: Any
    ) -> AsyncIterator[httpx.AsyncClient]:
        async with web.gateway(*parts, settings=_joined(shared, settings), **more) as client:
            yield client

    return single


@pytest.fixture(params=_STORES)
async def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Gateways:
    """Makes gateways of one process, and with Redis pairs of replicas that are asked in turn."""
    shared = await _shared(request, tmp_path)
    count = 2 if "redis" in shared else 1

    @asynccontextmanager
    async def balanced(
        *parts: Any, settings: dict[str, Any] | None = None, **more: Any
    ) -> AsyncIterator[httpx.AsyncClient]:
        async with AsyncExitStack() as stack:
            joined = _joined(shared, settings)
            clients = [
                await stack.enter_async_context(web.gateway(*parts, settings=joined, **more)) for _ in range(count)
            ]
            line = InTurn(clients)
            yield await stack.enter_async_context(httpx.AsyncClient(transport=line, base_url="http://gateway"))

    return balanced


async def _shared(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """The settings of a place to keep runs and conversations in."""
    match request.param:
        case "SQLite":
            return {"memory": {"url": await emptied("SQLite", request, folder)}}
        case "redis":
            request.getfixturevalue("patient_with_redis")
            url = await emptied("PostgreSQL", request, folder)
            return {"memory": {"url": url}, "redis": {"url": request.getfixturevalue("redis_url")}}
    return {"memory": {"url": "memory://"}}


def _joined(shared: dict[str, Any], settings: dict[str, Any] | None) -> dict[str, Any]:
    """The settings of a test, where it says nothing those of the place."""
    wanted = settings or {}
    return wanted | {name: place | wanted.get(name, {}) for name, place in shared.items()}
