"""What tests of runs in Redis share. All of them want a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from app.runs.redis.connection import Connection
from tests.runs.redis.parts import Meddled, Parts
from tests.support.redis_server import RedisServer


@pytest.fixture
async def connection(redis_url: str, patient_with_redis: None) -> AsyncIterator[Connection]:
    """A connection to an empty database of the Redis that stays."""
    connection = Connection(redis_url)
    yield connection
    await connection.aclose()


@pytest.fixture
async def connection_of_its_own(redis_of_its_own: RedisServer) -> AsyncIterator[Connection]:
    """A connection to the Redis that the test may stop, kill and pause."""
    connection = Connection(redis_of_its_own.url())
    yield connection
    await connection.aclose()


@pytest.fixture
async def meddled(redis_url: str, patient_with_redis: None) -> AsyncIterator[Meddled]:
    """A connection to an empty database at which others can be quicker."""
    connection = Meddled(redis_url)
    yield connection
    await connection.aclose()


@pytest.fixture
async def here(meddled: Meddled) -> Parts:
    """The replica that a test is about."""
    return Parts(meddled)


@pytest.fixture
async def there(meddled: Meddled) -> Parts:
    """Another one."""
    return Parts(meddled)
