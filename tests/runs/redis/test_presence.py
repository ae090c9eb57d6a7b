"""Readers of a run of another replica: those who cannot be told of, and those of replicas that are gone."""

from __future__ import annotations

import asyncio

import pytest

from app.runs import SharedStateUnavailable
from app.runs.redis.presence import Presence
from tests.runs.redis.parts import Meddled, Parts, unanswered

pytestmark = pytest.mark.server


@pytest.fixture
async def presence(here: Parts) -> Presence:
    return Presence(here.connection, here.records, here.replicas, here.do)


@pytest.fixture
async def at_the_run(there: Parts) -> Presence:
    """What the replica of the run knows of readers elsewhere."""
    return Presence(there.connection, there.records, there.replicas, there.do)


async def test_one_of_whom_nobody_can_be_told_is_refused_and_reads_nothing(
    presence: Presence, at_the_run: Presence, here: Parts, there: Parts, meddled: Meddled
) -> None:
    run_id = await there.known()
    record = await there.record(run_id)
    await here.is_here()
    meddled.before("execute", unanswered)

    with pytest.raises(SharedStateUnavailable):
        await presence.enter(record)
    await asyncio.gather(*here.work)

    assert not await at_the_run.is_read(run_id)
    assert await there.told() == [("left", run_id)], "Redis may have heard of the reader all the same"


async def test_a_run_is_told_afterwards_of_a_reader_who_left_while_nobody_answered(
    presence: Presence, at_the_run: Presence, here: Parts, there: Parts, meddled: Meddled
) -> None:
    run_id = await there.known()
    await here.is_here()
    reader = await presence.enter(await there.record(run_id))
    meddled.is_cut = True
    reader.leave()
    await asyncio.gather(*here.work)
    meddled.is_cut = False
    assert await at_the_run.is_read(run_id)

    for _ in range(2):
        await presence.tell_who_left()

    assert not await at_the_run.is_read(run_id)
    assert await there.told() == [("left", run_id)]


async def test_readers_are_noted_anew_when_redis_has_forgotten_them(
    presence: Presence, at_the_run: Presence, here: Parts, there: Parts, meddled: Meddled
) -> None:
    run_id = await there.known()
    reader = await presence.enter(await there.record(run_id))
    await meddled.redis.flushdb()
    await here.is_here()
    assert not await at_the_run.is_read(run_id)

    await presence.enter_again()
    assert await at_the_run.is_read(run_id)

    reader.leave()
    await asyncio.gather(*here.work)
    assert not await at_the_run.is_read(run_id)


async def test_readers_of_a_replica_that_is_gone_do_not_count(
    presence: Presence, at_the_run: Presence, here: Parts, there: Parts, meddled: Meddled
) -> None:
    run_id = await there.known()
    await here.is_here()
    await presence.enter(await there.record(run_id))
    assert await at_the_run.is_read(run_id)

    await meddled.redis.delete(meddled.key("replica", here.id))

    assert not await at_the_run.is_read(run_id)
