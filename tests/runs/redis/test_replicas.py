"""A replica among others: what it does when it was silent, is refused, is told nonsense, and when others are gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.runs import SharedStateUnavailable
from app.runs.redis.replicas import Replicas
from tests.runs.redis.parts import Meddled, Said, so, unanswered
from tests.support.gates import PATIENCE
from tests.support.loop_time import LoopTime

pytestmark = pytest.mark.server

SHORT = 0.5
LONG = 60.0


class Clumsy(Said):
    """Fails at all that it is asked to do, as long as it is told to.

    Attributes:
        fails: whether it does.
        ticks: how often it was asked to do what is done again and again.
    """

    fails = True
    ticks = 0

    async def hear(self, verb: str, run_id: str) -> None:
        """Take what another one says."""
        await super().hear(verb, run_id)
        if self.fails:
            raise ValueError(verb)

    async def tick(self) -> None:
        """Fail."""
        self.ticks += 1
        if self.fails:
            raise ValueError(self.ticks)


def replica(connection: Meddled, said: Said, lease: float = LONG) -> Replicas:
    return Replicas(connection, lease, hear=said.hear, back=said.back, bury=said.bury, tick=said.tick)


@asynccontextmanager
async def started(connection: Meddled, said: Said, lease: float = LONG) -> AsyncIterator[Replicas]:
    """A replica that does all it has to."""
    made = replica(connection, said, lease)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def clumsy(monkeypatch: pytest.MonkeyPatch) -> Clumsy:
    monkeypatch.setattr("app.runs.redis.replicas.PAUSE", 0.01)
    return Clumsy()


def lease_of(replicas: Replicas, connection: Meddled) -> str:
    return connection.key("replica", replicas.id)


# --- silence


async def test_one_that_did_nothing_for_long_asks_whether_it_was_missed(meddled: Meddled, time: LoopTime) -> None:
    said = Said()
    replicas = replica(meddled, said)
    await replicas.be_sure()
    assert await replicas.present([replicas.id]) == set()

    await time.passes(LONG)
    await replicas.be_sure()
    await replicas.be_sure()

    assert (await replicas.present([replicas.id]), said.backs) == ({replicas.id}, 1)
    assert meddled.asked["execute"] == 1


async def test_one_that_is_not_answered_for_it_fell_silent_meanwhile_does_not_take_that_for_an_outage(
    meddled: Meddled, time: LoopTime
) -> None:
    said = Said()
    replicas = replica(meddled, said)

    async def silence() -> None:
        await time.passes(LONG)
        raise SharedStateUnavailable("too late")

    await time.passes(LONG)
    meddled.before("execute", silence)
    await replicas.be_sure()
    assert said.backs == 0
    await replicas.be_sure()

    assert (await replicas.present([replicas.id]), said.backs) == ({replicas.id}, 1)


async def test_one_that_knows_that_nobody_answers_need_not_ask_again(meddled: Meddled, time: LoopTime) -> None:
    said = Said()
    replicas = replica(meddled, said)
    await time.passes(LONG)
    meddled.is_cut = True
    with pytest.raises(SharedStateUnavailable):
        await replicas._renew()
    meddled.is_cut = False

    await replicas.be_sure()

    assert (await replicas.present([replicas.id]), said.backs) == (set(), 0)


async def test_one_that_leaves_while_nobody_answers_leaves_all_the_same(
    meddled: Meddled, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with started(meddled, Said()) as replicas:
        meddled.is_cut = True

    assert "Redis was not told of the end" in caplog.text
    assert 0 < await meddled.redis.pttl(lease_of(replicas, meddled)) <= LONG * 1000


# --- faults


async def test_a_lease_that_cannot_be_renewed_is_renewed_when_it_can(
    meddled: Meddled, clumsy: Clumsy, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(meddled, clumsy) as replicas:
        pipeline = meddled.redis.pipeline(transaction=True)
        pipeline.delete(lease_of(replicas, meddled))
        pipeline.rpush(lease_of(replicas, meddled), "no lease")
        await pipeline.execute()
        meddled.returned.set()
        await so(lambda: "the lease cannot be renewed" in caplog.text)
        assert clumsy.backs == 0

        await meddled.redis.delete(lease_of(replicas, meddled))
        await so(lambda: clumsy.backs > 0)

        assert await replicas.present([replicas.id]) == {replicas.id}


async def test_what_is_done_again_and_again_is_done_again_though_it_failed(
    meddled: Meddled, clumsy: Clumsy, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(meddled, clumsy, SHORT):
        await so(lambda: clumsy.ticks > 2)

    assert caplog.text.count("the replicas cannot be looked after") >= 2


async def tell(replicas: Replicas, connection: Meddled, verb: str) -> None:
    """Say something to a replica."""
    pipeline = connection.redis.pipeline()
    replicas.tell(pipeline, replicas.id, verb, "run_1")
    await pipeline.execute()


async def test_what_others_say_is_heard_though_what_they_said_before_cannot_be_done(
    meddled: Meddled, clumsy: Clumsy, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(meddled, clumsy) as replicas:
        for verb in ("cancel", "turn"):
            await tell(replicas, meddled, verb)
        await so(lambda: len(clumsy.heard) == 2)

    assert clumsy.heard == [("cancel", "run_1"), ("turn", "run_1")]
    assert "what another replica said of run_1 cannot be done: cancel" in caplog.text


async def test_what_others_say_is_heard_though_they_said_what_makes_no_sense(
    meddled: Meddled, clumsy: Clumsy, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(meddled, clumsy) as replicas:
        await meddled.redis.xadd(meddled.key("replica", replicas.id, "said"), {"nonsense": "yes"})
        await tell(replicas, meddled, "turn")
        await so(lambda: bool(clumsy.heard))

    assert clumsy.heard == [("turn", "run_1")]
    assert "what other replicas say cannot be heard" in caplog.text


async def test_one_hears_again_what_others_say_when_redis_answers_again(meddled: Meddled, clumsy: Clumsy) -> None:
    meddled.before("xread", unanswered)
    async with started(meddled, clumsy) as replicas:
        await tell(replicas, meddled, "turn")
        await so(lambda: bool(clumsy.heard))

    assert clumsy.heard == [("turn", "run_1")]


# --- others


async def test_one_that_is_gone_is_buried_and_known_no_more(meddled: Meddled) -> None:
    said = Said()
    await meddled.redis.sadd(meddled.key("replicas"), "gone")
    async with started(meddled, said, SHORT) as replicas:
        async with asyncio.timeout(PATIENCE):
            while True:
                if not await meddled.redis.sismember(meddled.key("replicas"), "gone"):
                    break

        assert set(said.buried) == {"gone"}
        assert await meddled.redis.sismember(meddled.key("replicas"), replicas.id)


async def test_one_that_comes_back_while_it_is_buried_stays_known(meddled: Meddled) -> None:
    class Late(Said):
        async def bury(self, replica: str) -> None:
            await meddled.redis.set(meddled.key("replica", replica), "here")
            await super().bury(replica)

    said = Late()
    await meddled.redis.sadd(meddled.key("replicas"), "late")
    replicas = replica(meddled, said)
    for _ in range(3):
        await replicas._look_for_missing()

    assert said.buried == ["late"]
    assert await meddled.redis.sismember(meddled.key("replicas"), "late")
