"""The store of a single process: how many runs it keeps beyond their end, and that nothing holds those it does not."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest

from app.runs import InMemoryRunStore, Retention, RunGone, RunNotFound
from app.runs.run import new_run_id
from tests.runs.test_run_stores import KEY, Begun, begin, begin_and_end, is_gone
from tests.support.loop_time import LoopTime

FOR_EVER = 1e9


def store_of(*, runs: int = 1_000, seconds: float = FOR_EVER) -> InMemoryRunStore:
    """A store that keeps so much."""
    return InMemoryRunStore(retention=Retention(runs, seconds))


async def gone(store: InMemoryRunStore, *runs: Begun) -> list[bool]:
    """Which of the runs were forgotten."""
    return [await is_gone(store, run.id) for run in runs]


async def test_what_ended_first_is_forgotten_first_when_there_are_too_many() -> None:
    store = store_of(runs=2)
    first, second, third = [await begin(store) for _ in range(3)]

    for run in (third, first, second):
        await run.end()

    assert await gone(store, first, second, third) == [False, False, True]


async def test_runs_that_are_going_are_never_forgotten_and_do_not_count(time: LoopTime) -> None:
    store = store_of(runs=1, seconds=60)
    going = [await begin(store) for _ in range(3)]
    ended = await begin_and_end(store)

    assert await gone(store, ended) == [False]
    await time.passes(1_000)

    assert await gone(store, ended, *going) == [True, False, False, False]


async def test_each_run_is_forgotten_when_its_own_time_is_over(time: LoopTime) -> None:
    store = store_of(seconds=60)
    going, first = await begin(store), await begin_and_end(store)
    await time.passes(40)
    await going.end()
    await time.passes(19)
    assert await gone(store, first, going) == [False, False]

    await time.passes(2)
    assert await gone(store, first, going) == [True, False]
    await time.passes(40)

    assert await gone(store, first, going) == [True, True]


async def test_a_run_forgotten_for_its_number_is_not_forgotten_again_when_its_time_is_over(
    time: LoopTime, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_of(runs=1, seconds=60)
    for _ in range(3):
        await begin_and_end(store)

    await time.passes(61)

    assert await store.page(100) == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_nothing_holds_a_run_that_is_forgotten() -> None:
    store = store_of(runs=1)
    forgotten = weakref.ref((await begin_and_end(store, KEY)).run)

    await begin_and_end(store)
    gc.collect()

    assert forgotten() is None


async def test_nothing_is_kept_where_none_is_to_be_kept() -> None:
    store = store_of(runs=0)

    assert await gone(store, await begin_and_end(store)) == [True]


async def test_the_key_of_a_run_that_is_forgotten_for_a_later_one_is_free() -> None:
    store = store_of(runs=1)
    await begin_and_end(store, KEY)
    await begin_and_end(store)

    assert await store.claim(KEY, new_run_id()) is None


async def test_the_ids_of_the_forgotten_are_remembered_for_a_while_and_then_let_go() -> None:
    store = store_of(runs=0)
    run = (await begin_and_end(store)).run
    ids = [run.id]
    for _ in range(10_000):
        run.id = new_run_id()  # so many runs would take their time
        ids.append(run.id)
        await store.add(run, None, shared=False)
        await store.end(run)

    for remembered in (ids[1], ids[-1]):
        with pytest.raises(RunGone):
            await store.get(remembered)
    with pytest.raises(RunNotFound):
        await store.get(ids[0])
