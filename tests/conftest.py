"""Rules for every test: an environment that says nothing, no network, markers that mean something."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from tests.support.gates import PATIENCE
from tests.support.measuring import measure_outside_of_greenlets
from tests.support.postgres_server import PostgresServer, running_postgres
from tests.support.redis_server import RedisServer, running_redis

LOOPBACK = ["127.0.0.0/8", "::1"]
BEHAVIOURS = range(1, 198)
FAULT = re.compile(r"[A-Z]\d{2}")

# A failure is there for everyone who looks, and a busy machine is none.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Hide the settings of whoever runs the tests, from these and from processes that tests start, and measure rightly.

    Before tests are collected: their modules make settings too.
    """
    measure_outside_of_greenlets()
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    for name in os.environ:
        if name.upper().startswith(("GATEWAY_", "OPENAI_")):
            patch.delenv(name)
    empty = TemporaryDirectory(prefix="config-")
    config.add_cleanup(empty.cleanup)
    patch.setenv("GATEWAY_CONFIG_DIR", empty.name)
    patch.setenv("GATEWAY_ENV_FILE", os.devnull)
    patch.setenv("GATEWAY_MEMORY__URL", "memory://")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL, the same for all tests that are marked `server` and want one."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_database(postgres: PostgresServer) -> Iterator[str]:
    """The name of a database of the test's own, without tables."""
    with postgres.database() as name:
        yield name


@pytest.fixture(scope="session")
def tables(postgres: PostgresServer) -> Iterator[str]:
    """The address of a database that many tests use one after the other."""
    with postgres.database() as name:
        yield postgres.url(name)


@pytest.fixture
def postgres_url(postgres: PostgresServer, postgres_database: str) -> str:
    """The address of that database."""
    return postgres.url(postgres_database)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A real Redis, the same for all tests that are marked `server` and want one. It stays as it is."""
    with running_redis() as server:
        yield server


@pytest.fixture
def redis_of_its_own() -> Iterator[RedisServer]:
    """A real Redis that the test may stop, kill and pause."""
    with running_redis() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The address of an empty database of the Redis that stays."""
    return redis_server.database()


@pytest.fixture
def patient_with_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no outage: those are made on purpose, by tests that do without this."""
    monkeypatch.setattr("app.runs.redis.connection.TIMEOUT", PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse markers that name nothing, and let tests with a real server reach loopback."""
    wrong = [f"{item.nodeid}: {problem}" for item in items for problem in _problems(item)]
    if wrong:
        raise pytest.UsageError("\n".join(wrong))
    for item in items:
        if item.get_closest_marker("server") or item.get_closest_marker("real_model"):
            item.add_marker(pytest.mark.allow_hosts(LOOPBACK))


def _problems(item: pytest.Item) -> Iterator[str]:
    for marker in item.iter_markers("parity"):
        if not marker.args or not all(type(number) is int and number in BEHAVIOURS for number in marker.args):
            yield f"parity takes numbers from {BEHAVIOURS[0]} to {BEHAVIOURS[-1]}, not {marker.args}"
    for marker in item.iter_markers("fault"):
        if not marker.args or not all(isinstance(name, str) and FAULT.fullmatch(name) for name in marker.args):
            yield f'fault takes ids such as "T12", not {marker.args}'
