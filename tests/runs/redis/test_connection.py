"""The connection: what its failures are, that nobody waits for them twice, and that it heeds who goes away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import combinations

import pytest
from redis.exceptions import ResponseError

from app.runs import SharedStateUnavailable
from app.runs.redis.connection import Connection
from tests.support.gates import PATIENCE
from tests.support.gateway_process import free_port
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.server


@pytest.fixture
async def nowhere() -> AsyncIterator[Connection]:
    """A connection to where nobody listens."""
    connection = Connection(f"redis://:secret@127.0.0.1:{free_port()}/0")
    yield connection
    await connection.aclose()


async def answers(connection: Connection) -> None:
    """Wait until Redis answers."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await connection.ask(connection.redis.set, "key", "value")
            except SharedStateUnavailable:
                await asyncio.sleep(0)
            else:
                return


async def test_where_nobody_listens_it_says_so_and_keeps_the_password(
    nowhere: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    assert nowhere.available
    for _ in range(3):
        with pytest.raises(SharedStateUnavailable) as raised:
            await nowhere.ask(nowhere.redis.get, "key")
        assert "secret" not in str(raised.value)

    assert (nowhere.available, str(nowhere.redis).count("secret")) == (False, 0)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "secret" not in caplog.text


async def test_one_finds_out_that_redis_is_silent_and_nobody_waits_for_that_again(
    connection_of_its_own: Connection, redis_of_its_own: RedisServer
) -> None:
    connection, clock = connection_of_its_own, asyncio.get_running_loop().time
    await connection.ask(connection.redis.set, "key", "value")
    redis_of_its_own.pause()
    with pytest.raises(SharedStateUnavailable):
        await connection.ask(connection.redis.get, "key")

    before = clock()
    for _ in range(100):
        with pytest.raises(SharedStateUnavailable):
            await connection.ask(connection.redis.get, "key")
    assert clock() - before < 1.5, "each would have waited for two seconds"

    redis_of_its_own.resume()
    await answers(connection)
    assert connection.available


async def test_what_was_asked_in_vain_is_not_asked_again(
    connection_of_its_own: Connection, redis_of_its_own: RedisServer
) -> None:
    connection = connection_of_its_own
    await connection.ask(connection.redis.set, "count", 0)
    redis_of_its_own.pause()
    with pytest.raises(SharedStateUnavailable):
        await connection.ask(connection.redis.incr, "count")
    redis_of_its_own.resume()
    await answers(connection)

    assert int(await connection.ask(connection.redis.get, "count")) <= 1


async def test_a_restart_between_two_questions_is_not_noticed(
    connection_of_its_own: Connection, redis_of_its_own: RedisServer
) -> None:
    await connection_of_its_own.ask(connection_of_its_own.redis.set, "key", "value")
    redis_of_its_own.stop()
    redis_of_its_own.start()

    assert await connection_of_its_own.ask(connection_of_its_own.redis.get, "key") == b"value"


@contextmanager
def configured(server: RedisServer, **options: str) -> Iterator[None]:
    """Set something at the server for a while."""
    with server.client() as client:
        before = {name: str(client.config_get(name)[name]) for name in options}
        for name, value in options.items():
            client.config_set(name, value)
        yield
        for name, value in before.items():
            client.config_set(name, value)


async def test_what_cannot_be_done_now_can_be_done_later(
    connection_of_its_own: Connection, redis_of_its_own: RedisServer
) -> None:
    connection = connection_of_its_own
    full = configured(redis_of_its_own, **{"maxmemory": "1", "maxmemory-policy": "noeviction"})
    with full, pytest.raises(SharedStateUnavailable):
        await connection.ask(connection.redis.set, "key", "value")
    await answers(connection)

    lonely = configured(redis_of_its_own, **{"min-replicas-to-write": "1"})
    with lonely, pytest.raises(SharedStateUnavailable):
        await connection.ask(connection.redis.set, "key", "value")
    await answers(connection)

    with redis_of_its_own.client() as client:
        client.replicaof("127.0.0.1", redis_of_its_own.port)
        with pytest.raises(SharedStateUnavailable):
            await connection.ask(connection.redis.set, "key", "value")
        client.replicaof("NO", "ONE")
    await answers(connection)


async def test_what_makes_no_sense_is_a_fault_of_ours_and_no_outage(connection: Connection) -> None:
    await connection.ask(connection.redis.set, "key", "value")

    with pytest.raises(ResponseError):
        await connection.ask(connection.redis.lpush, "key", "value")

    assert connection.available


@pytest.mark.parametrize("turns", range(40))
async def test_whoever_asks_and_goes_away_is_gone_whenever_that_is(connection: Connection, turns: int) -> None:
    async def ask_for_ever() -> None:
        while True:
            await connection.ask(connection.redis.set, "key", "value")

    asking = asyncio.create_task(ask_for_ever())
    for _ in range(turns):
        await asyncio.sleep(0)
    asking.cancel()

    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([asking])
    assert asking.cancelled()
    assert await connection.ask(connection.redis.get, "key") in {None, b"value"}


async def test_one_who_was_cancelled_before_may_ask_when_cleaning_up(connection: Connection) -> None:
    waiting, cleaned = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            await connection.ask(connection.redis.set, "key", "clean")
            cleaned.set()

    working = asyncio.create_task(work())
    await waiting.wait()
    working.cancel()
    await asyncio.wait([working])

    assert cleaned.is_set()


async def test_many_more_questions_than_connections_are_all_answered(connection: Connection) -> None:
    async def ask(number: int) -> bytes:
        await connection.ask(connection.redis.set, f"key-{number}", number)
        return bytes(await connection.ask(connection.redis.get, f"key-{number}"))

    answered = await asyncio.gather(*[ask(number) for number in range(500)])

    assert answered == [b"%d" % number for number in range(500)]
    assert len(connection.redis.connection_pool._available_connections) <= 64


def test_other_parts_make_another_name() -> None:
    connection = Connection("redis://nowhere")
    parts = [("a", "b"), ("a:b",), ("a", ":b"), ("a%3Ab",), ("a", "", "b"), ("A", "b"), ("a", "b\ud800"), ("a", "b\n")]

    names = [connection.key(*one) for one in parts]

    assert all(one != other for one, other in combinations(names, 2))
    assert all(name.isascii() and name.isprintable() and " " not in name for name in names)
