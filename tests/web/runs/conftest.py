"""The gateways that tests of runs ask: each test says what it is made of, and this file where runs are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import cycle
from typing import Any, TypeAlias

import httpx
import pytest

from app.memory import InMemoryChatMemory
from tests.support import web

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


_STORES = ["memory", pytest.param("redis", marks=pytest.mark.server)]


@pytest.fixture
def lone_gateway() -> Gateways:
    """Makes gateways that keep their runs in memory, for what is only promised of those."""
    return web.gateway


@pytest.fixture(params=_STORES)
def single_gateway(request: pytest.FixtureRequest) -> Gateways:
    """Makes gateways of one process, for what is only promised of one: such that keep their runs in memory or Redis."""
    if request.param == "memory":
        return web.gateway
    url = request.getfixturevalue("redis_url")

    @asynccontextmanager
    async def single(*parts: Any, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
        async with replicas(url, *parts, count=1, **more) as [client]:
            yield client

    return single


@pytest.fixture(params=_STORES)
def gateway(request: pytest.FixtureRequest) -> Gateways:
    """Makes gateways: such that keep their runs in memory, and pairs of replicas that are asked in turn."""
    if request.param == "memory":
        return web.gateway
    url = request.getfixturevalue("redis_url")

    @asynccontextmanager
    async def balanced(*parts: Any, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
        async with (
            replicas(url, *parts, **more) as clients,
            httpx.AsyncClient(transport=InTurn(clients), base_url="http://gateway") as client,
        ):
            yield client

    return balanced
