"""What a replica leaves behind is ended once, by whoever comes first, and only while it is gone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.runs import RunFailed, RunLost
from app.runs.redis.burial import Burial
from tests.runs.redis.journals import END, ended, words
from tests.runs.redis.parts import Meddled, Parts

pytestmark = pytest.mark.server


@pytest.fixture
async def gone(meddled: Meddled) -> Parts:
    """A replica that is gone."""
    return Parts(meddled)


@pytest.fixture
async def burial(here: Parts) -> Burial:
    return Burial(here.connection, here.records, here.replicas, here.lines)


async def test_runs_and_places_of_a_replica_that_is_gone_are_ended_and_the_next_one_has_the_word(
    burial: Burial, here: Parts, gone: Parts
) -> None:
    run_id = await gone.known("c")
    await gone.journal(run_id).write(words(1, 2), behind=0)
    for run, conversation in ((run_id, "c"), ("bare", "d\ud800")):
        await gone.lines.enter(conversation, run, "queue")
    nexts = [
        await here.lines.enter(conversation, name, "queue") for conversation, name in (("c", "1"), ("d\ud800", "2"))
    ]

    await burial.of(gone.id)

    newest = await here.journal(run_id).newest()
    assert newest is not None
    assert isinstance(newest.last.event, RunFailed)
    assert (newest.last.seq, type(newest.last.event.error)) == (3, RunLost)
    assert (await here.record(run_id)).status == "failed"
    assert [await here.standing(place.conversation_id) for place in nexts] == [["1"], ["2"]]
    assert all(place.called.is_set() for place in nexts)
    assert await gone.runs() == set()


async def test_nothing_is_ended_of_a_replica_that_came_back(burial: Burial, here: Parts, gone: Parts) -> None:
    run_id = await gone.known("c")
    await gone.lines.enter("c", run_id, "queue")
    await gone.is_here()

    await burial.of(gone.id)

    assert (await here.record(run_id)).is_going
    assert (await here.standing("c"), await gone.runs()) == ([run_id], {run_id})


async def test_a_replica_that_comes_back_in_the_middle_keeps_its_places(
    burial: Burial, here: Parts, gone: Parts, meddled: Meddled
) -> None:
    run_id = await gone.known()
    await gone.lines.enter("c", "bare", "queue")
    meddled.before("hgetall", gone.is_here)

    await burial.of(gone.id)

    assert not (await here.record(run_id)).is_going
    assert await here.standing("c") == ["bare"]


async def test_a_run_that_ended_and_could_not_say_so_keeps_its_end(burial: Burial, here: Parts, gone: Parts) -> None:
    run_id = await gone.known()
    await gone.journal(run_id).write([*words(1, 2), *ended(3)], behind=0)

    await burial.of(gone.id)

    assert (await here.record(run_id)).status == "completed"
    assert (await here.journal(run_id).span()).last == 3


async def test_a_run_that_ends_in_the_moment_in_which_it_is_taken_for_lost_keeps_its_end(
    burial: Burial, here: Parts, gone: Parts, meddled: Meddled
) -> None:
    run_id = await gone.known()
    journal = gone.journal(run_id)
    await journal.write(words(1, 2), behind=0)
    meddled.before("script", lambda: journal.write(ended(3), behind=1))

    await burial.of(gone.id)

    newest = await journal.newest()
    assert newest is not None
    assert (newest.last.seq, newest.last.event) == (3, END)
    assert (await here.record(run_id)).status == "completed"


async def test_of_two_who_bury_at_once_one_ends_a_run(
    burial: Burial, here: Parts, gone: Parts, meddled: Meddled
) -> None:
    run_id = await gone.known()
    other = Parts(meddled)
    meddled.before("script", lambda: Burial(meddled, other.records, other.replicas, other.lines).of(gone.id))

    await burial.of(gone.id)

    assert (await here.journal(run_id).span()).last == 1
    assert (await here.record(run_id)).status == "failed"


async def test_a_run_of_which_nothing_is_written_down_is_only_struck_out(
    burial: Burial, here: Parts, gone: Parts
) -> None:
    await gone.connection.redis.sadd(gone.replicas.runs_of(gone.id), "run_1")

    await burial.of(gone.id)

    assert await gone.runs() == set()
    assert (await here.records.find("run_1"), await here.journal("run_1").newest()) == (None, None)


async def test_a_replica_ends_what_redis_has_for_it_and_it_does_not_know(burial: Burial, here: Parts) -> None:
    known, unknown = await here.known(), await here.known()
    before = datetime.now(UTC)

    await burial.of_unknown({known})

    assert ((await here.record(known)).status, (await here.record(unknown)).status) == ("running", "failed")
    assert await here.runs() == {known}
    ended_at = (await here.record(unknown)).ended_at
    assert ended_at is not None
    assert ended_at >= before
