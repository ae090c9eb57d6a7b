"""Lines of conversations in Redis: what others do to them, what Redis forgets, and what it was not told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from app.runs import RunLost, SharedStateUnavailable
from app.runs.redis.lines import RedisPlace
from tests.runs.redis.journals import END
from tests.runs.redis.parts import Meddled, Parts, unanswered
from tests.support.gates import PATIENCE

pytestmark = pytest.mark.server


async def forgotten(parts: Parts) -> None:
    """Let Redis lose all it knows."""
    await parts.connection.redis.flushdb()


async def has_its_turn(place: RedisPlace) -> None:
    async with asyncio.timeout(PATIENCE):
        await place.wait()


async def test_a_run_that_has_ended_elsewhere_is_not_told_to_end(here: Parts, there: Parts) -> None:
    going, over = await there.known("c"), await there.known("c")
    await there.records.end(await there.record(over), END, datetime.now(UTC))

    for run_id in (going, over):
        await here.lines.cancel(run_id)

    assert await there.told() == [("cancel", going)]
    assert [(await here.record(run_id)).is_ending for run_id in (going, over)] == [True, False]


async def test_the_first_one_has_the_word_without_asking(here: Parts, meddled: Meddled) -> None:
    place = await here.lines.enter("c", "1", "queue")
    before = meddled.asked.total()

    await has_its_turn(place)

    assert meddled.asked.total() == before


async def test_a_place_is_given_up_though_its_line_makes_no_sense(
    here: Parts, meddled: Meddled, caplog: pytest.LogCaptureFixture
) -> None:
    place = await here.lines.enter("c", "1", "queue")
    await meddled.redis.set(meddled.key("conversation", "c", "line"), "no list")

    await place.leave()

    assert [record.getMessage() for record in caplog.records] == ["1 cannot give up its place in conversation 'c'"]


async def test_one_that_left_while_nobody_answered_is_taken_out_afterwards(here: Parts, meddled: Meddled) -> None:
    first, second = [await here.lines.enter("c", name, "queue") for name in "12"]
    meddled.is_cut = True
    await first.leave()
    meddled.is_cut = False
    assert await here.standing("c") == ["1", "2"]

    await here.lines.leave_those_that_should()

    assert await here.standing("c") == ["2"]
    await has_its_turn(second)


async def test_who_enters_and_is_not_answered_leaves_no_place_behind_though_it_was_heard(
    here: Parts, meddled: Meddled
) -> None:
    async def heard_and_not_answered() -> None:
        await there_it_stands(here)
        await unanswered()

    meddled.before("execute", heard_and_not_answered)
    with pytest.raises(SharedStateUnavailable):
        await here.lines.enter("c", "1", "queue")

    assert await here.standing("c") == []


async def there_it_stands(parts: Parts) -> None:
    """Write down a place as Redis would be told of it."""
    await parts.connection.redis.hset(parts.replicas.places_of(parts.id), "1", "c")
    await parts.connection.redis.rpush(parts.connection.key("conversation", "c", "line"), "1")


async def test_what_stands_for_a_replica_that_knows_nothing_of_it_is_taken_out(here: Parts) -> None:
    await there_it_stands(here)
    place = await here.lines.enter("c", "2", "queue")

    await here.lines.take_out_unknown()

    assert await here.standing("c") == ["2"]
    await has_its_turn(place)


async def test_one_that_waits_and_was_taken_for_lost_is_lost(here: Parts, there: Parts) -> None:
    await there.lines.enter("c", "first", "queue")
    run_id = await here.known("c")
    place = await here.lines.enter("c", run_id, "queue")
    await there.records.end(await there.record(run_id), END, datetime.now(UTC))
    await there.lines.take_out("c", run_id, here.id)

    with pytest.raises(RunLost):
        await has_its_turn(place)


async def test_one_that_waits_and_is_forgotten_stands_again_behind_the_one_that_had_the_word(
    here: Parts, there: Parts
) -> None:
    first = await there.lines.enter("c", await there.known("c"), "queue")
    place = await here.lines.enter("c", "2", "queue")
    here.replicas.notice = 0.0
    await forgotten(here)
    waiting = asyncio.create_task(place.wait())
    async with asyncio.timeout(PATIENCE):
        while True:
            if await here.standing("c") == ["2"]:
                break
            await asyncio.sleep(0)
    await there.lines.stand_again()
    assert await here.standing("c") == [first.run_id, "2"]
    await first.leave()

    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_one_that_was_forgotten_is_not_let_in_before_others_can_have_noticed(here: Parts, there: Parts) -> None:
    await there.lines.enter("c", "1", "queue")
    place = await here.lines.enter("c", "2", "queue")
    here.replicas.notice = 3600.0
    await forgotten(here)

    looks = [await here.lines._takes_the_word(place) for _ in range(3)]

    assert (looks, await here.standing("c")) == ([False] * 3, ["2"])
    place.not_before = 0.0
    await has_its_turn(place)


async def test_one_that_ended_and_could_not_leave_is_taken_out_by_the_next(here: Parts, there: Parts) -> None:
    run_id = await there.known("c")
    await there.lines.enter("c", run_id, "queue")
    place = await here.lines.enter("c", "2", "queue")
    await there.records.end(await there.record(run_id), END, datetime.now(UTC))

    await has_its_turn(place)

    assert await here.standing("c") == ["2"]
