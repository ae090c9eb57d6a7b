"""What one process knows of runs: which there are, which there were, and the keys that began them."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from dataclasses import replace

import pytest

from app.chat import AssistantMessage, ChatEvents, ChatResponse, Completed
from app.runs import (
    IdempotencyKey,
    IdempotencyKeyReused,
    InMemoryRunStore,
    LocalRun,
    Retention,
    RunGone,
    RunNotFound,
)
from app.runs.run import new_run_id
from tests.support.loop_time import LoopTime

KEY = IdempotencyKey("me", "key", "body")
FOR_EVER = 1e9


async def answering() -> ChatEvents:
    yield Completed(ChatResponse(AssistantMessage("Hi")))


async def begin(
    store: InMemoryRunStore, key: IdempotencyKey | None = None, *, conversation_id: str | None = None
) -> LocalRun:
    """A run that is going, as far as the store knows."""
    run = LocalRun(answering(), conversation_id=conversation_id).begin()
    if key is not None:
        await store.claim(key, run.id)
    await store.add(run, key, shared=False)
    await asyncio.wait([run.task])
    return run


async def begin_and_end(store: InMemoryRunStore, key: IdempotencyKey | None = None) -> LocalRun:
    run = await begin(store, key)
    await store.end(run)
    return run


async def is_gone(store: InMemoryRunStore, run: LocalRun) -> bool:
    """Whether the run was forgotten; an error where it never was."""
    try:
        return await store.get(run.id) is not run
    except RunGone:
        return True


async def begun_by(store: InMemoryRunStore, key: IdempotencyKey) -> str | None:
    """The id of the run that a key has begun; it is as free afterwards as before."""
    begun = await store.claim(key, "run_of_nobody")
    await store.unclaim(key, "run_of_nobody")
    return begun


# --- finding


async def test_a_run_is_found_by_its_id_while_it_goes_and_after_its_end() -> None:
    store = InMemoryRunStore(retention=Retention())
    run, other = await begin(store), await begin(store)

    assert (await store.get(run.id), await store.get(other.id)) == (run, other)
    await store.end(run)
    assert await store.get(run.id) is run


@pytest.mark.parametrize("run_id", ["", "run_", "run_" + "0" * 32])
async def test_what_never_was_is_not_found(run_id: str) -> None:
    store = InMemoryRunStore(retention=Retention())
    await begin(store)

    with pytest.raises(RunNotFound, match=repr(run_id)):
        await store.get(run_id)


async def test_what_was_forgotten_is_told_apart_from_what_never_was() -> None:
    store = InMemoryRunStore(retention=Retention(runs=0))
    run = await begin_and_end(store)

    with pytest.raises(RunGone, match=run.id):
        await store.get(run.id)


# --- how long


async def test_what_ended_first_is_forgotten_first_when_there_are_too_many() -> None:
    store = InMemoryRunStore(retention=Retention(runs=2, seconds=FOR_EVER))
    first, second, third = [await begin(store) for _ in range(3)]

    for run in (third, first, second):
        await store.end(run)

    assert [await is_gone(store, run) for run in (first, second, third)] == [False, False, True]


async def test_runs_that_are_going_are_never_forgotten_and_do_not_count(time: LoopTime) -> None:
    store = InMemoryRunStore(retention=Retention(runs=1, seconds=60))
    going = [await begin(store) for _ in range(3)]
    ended = await begin_and_end(store)

    assert not await is_gone(store, ended)
    await time.passes(1_000)

    assert [await is_gone(store, run) for run in going] == [False] * 3


async def test_each_run_is_forgotten_when_its_own_time_is_over(time: LoopTime) -> None:
    store = InMemoryRunStore(retention=Retention(seconds=60))
    going = await begin(store)
    first = await begin_and_end(store)
    await time.passes(40)
    await store.end(going)
    await time.passes(19)
    assert (await is_gone(store, first), await is_gone(store, going)) == (False, False)

    await time.passes(2)
    assert (await is_gone(store, first), await is_gone(store, going)) == (True, False)
    await time.passes(40)

    assert (await is_gone(store, first), await is_gone(store, going)) == (True, True)


async def test_a_run_forgotten_for_its_number_is_not_forgotten_again_when_its_time_is_over(
    time: LoopTime, caplog: pytest.LogCaptureFixture
) -> None:
    store = InMemoryRunStore(retention=Retention(runs=1, seconds=60))
    for _ in range(3):
        await begin_and_end(store)

    await time.passes(61)

    assert await store.page(100) == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_nothing_holds_a_run_that_is_forgotten() -> None:
    store = InMemoryRunStore(retention=Retention(runs=1, seconds=FOR_EVER))
    forgotten = weakref.ref(await begin_and_end(store, KEY))

    await begin_and_end(store)
    gc.collect()

    assert forgotten() is None


async def test_nothing_is_kept_where_nothing_is_to_be_kept(time: LoopTime) -> None:
    none, never = InMemoryRunStore(retention=Retention(runs=0)), InMemoryRunStore(retention=Retention(seconds=0))
    runs = [await begin_and_end(store) for store in (none, never)]

    assert await is_gone(none, runs[0])
    await time.passes(0)

    assert await is_gone(never, runs[1])


async def test_the_ids_of_the_forgotten_are_remembered_for_a_while_and_then_let_go() -> None:
    store = InMemoryRunStore(retention=Retention(runs=0))
    run = await begin_and_end(store)
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


# --- keys


async def test_a_key_leads_to_the_run_that_it_began_while_that_goes_and_after_its_end() -> None:
    store = InMemoryRunStore(retention=Retention())
    assert await begun_by(store, KEY) is None

    run = await begin(store, KEY)
    await begin(store)
    assert await begun_by(store, KEY) == run.id
    await store.end(run)

    assert await begun_by(store, KEY) == run.id


async def test_the_keys_of_others_and_other_keys_have_begun_nothing() -> None:
    store = InMemoryRunStore(retention=Retention())
    await begin(store, KEY)

    assert await begun_by(store, replace(KEY, principal="you")) is None
    assert await begun_by(store, replace(KEY, text="KEY")) is None
    assert await begun_by(store, IdempotencyKey("mek", "ey", "body")) is None


async def test_a_key_is_refused_for_another_request_and_still_leads_to_its_own() -> None:
    store = InMemoryRunStore(retention=Retention())
    run = await begin(store, KEY)

    with pytest.raises(IdempotencyKeyReused, match="new key"):
        await begun_by(store, replace(KEY, fingerprint="another body"))

    assert await begun_by(store, KEY) == run.id


async def test_a_key_is_free_when_its_run_is_forgotten_also_for_another_request() -> None:
    store = InMemoryRunStore(retention=Retention(runs=1, seconds=FOR_EVER))
    old = await begin_and_end(store, KEY)
    await begin_and_end(store)
    another = replace(KEY, fingerprint="another body")
    assert await is_gone(store, old)
    assert (await begun_by(store, KEY), await begun_by(store, another)) == (None, None)

    new = await begin(store, another)

    assert await begun_by(store, another) == new.id


# --- in order


async def test_the_newest_run_comes_first_whether_it_has_ended_or_not() -> None:
    store = InMemoryRunStore(retention=Retention())
    runs = [await begin(store) for _ in range(4)]
    await store.end(runs[2])
    await store.end(runs[0])

    assert await store.page(100) == runs[::-1]
    assert await store.page(2) == [runs[3], runs[2]]
    assert await store.page(2, before=runs[2].id) == [runs[1], runs[0]]
    assert await store.page(2, before=runs[0].id) == []


async def test_a_page_goes_on_where_the_last_one_ended_though_that_run_is_forgotten() -> None:
    store = InMemoryRunStore(retention=Retention(runs=2, seconds=FOR_EVER))
    runs = [await begin(store) for _ in range(5)]
    last = runs[3]
    assert await store.page(1, before=runs[4].id) == [last]
    await store.end(last)
    for run in (runs[4], runs[2]):
        await store.end(run)
    assert await is_gone(store, last)

    assert await store.page(100, before=last.id) == [runs[2], runs[1], runs[0]]


async def test_a_page_may_be_of_one_conversation() -> None:
    store = InMemoryRunStore(retention=Retention())
    runs = [await begin(store, conversation_id=one) for one in ("a", "b", None, "a", "a")]

    assert await store.page(2, conversation_id="a") == [runs[4], runs[3]]
    assert await store.page(2, conversation_id="a", before=runs[3].id) == [runs[0]]
    assert await store.page(100, conversation_id="b") == [runs[1]]
    assert await store.page(100, conversation_id="") == []
