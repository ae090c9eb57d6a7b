"""The gateways that tests of runs ask: each test says what it is made of, and this file where runs are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import httpx
import pytest

from tests.support import web

Gateways: TypeAlias = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]
"""Makes a gateway; see `tests.support.web.gateway`."""


@pytest.fixture
def lone_gateway() -> Gateways:
    """Makes gateways that keep their runs in memory, for what is only promised of those."""
    return web.gateway


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def gateway(request: pytest.FixtureRequest) -> Gateways:
    """Makes gateways that keep their runs in memory, and such that keep them in Redis."""
    if request.param == "memory":
        return web.gateway
    url = request.getfixturevalue("redis_url")

    @asynccontextmanager
    async def with_redis(
        *parts: Any, settings: dict[str, Any] | None = None, **more: Any
    ) -> AsyncIterator[httpx.AsyncClient]:
        async with web.gateway(*parts, settings={"redis": {"url": url}, **(settings or {})}, **more) as client:
            yield client

    return with_redis
