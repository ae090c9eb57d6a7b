"""The register: which runs there are, which there were, and the keys that began them."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from dataclasses import replace

import pytest

from app.chat import AssistantMessage, ChatEvents, ChatResponse, Completed
from app.runs import IdempotencyKey, IdempotencyKeyReused, Retention, Run, RunGone, RunNotFound
from app.runs.register import Register
from app.runs.run import new_run_id
from tests.support.loop_time import LoopTime

KEY = IdempotencyKey("me", "key", "body")
FOR_EVER = 1e9


async def answering() -> ChatEvents:
    yield Completed(ChatResponse(AssistantMessage("Hi")))


async def begin(register: Register, key: IdempotencyKey | None = None, *, conversation_id: str | None = None) -> Run:
    """A run that is going, as far as the register knows."""
    run = Run(answering(), conversation_id=conversation_id)
    register.add(run, key)
    await asyncio.wait([run.task])
    return run


async def begin_and_end(register: Register, key: IdempotencyKey | None = None) -> Run:
    run = await begin(register, key)
    register.end(run)
    return run


def is_gone(register: Register, run: Run) -> bool:
    """Whether the run was forgotten; an error where it never was."""
    try:
        return register.get(run.id) is not run
    except RunGone:
        return True


# --- finding


async def test_a_run_is_found_by_its_id_while_it_goes_and_after_its_end() -> None:
    register = Register(Retention())
    run, other = await begin(register), await begin(register)

    assert (register.get(run.id), register.get(other.id)) == (run, other)
    register.end(run)
    assert register.get(run.id) is run


@pytest.mark.parametrize("run_id", ["", "run_", "run_" + "0" * 32])
async def test_what_never_was_is_not_found(run_id: str) -> None:
    register = Register(Retention())
    await begin(register)

    with pytest.raises(RunNotFound, match=repr(run_id)):
        register.get(run_id)


async def test_what_was_forgotten_is_told_apart_from_what_never_was() -> None:
    register = Register(Retention(runs=0))
    run = await begin_and_end(register)

    with pytest.raises(RunGone, match=run.id):
        register.get(run.id)


# --- how long


async def test_what_ended_first_is_forgotten_first_when_there_are_too_many() -> None:
    register = Register(Retention(runs=2, seconds=FOR_EVER))
    first, second, third = [await begin(register) for _ in range(3)]

    for run in (third, first, second):
        register.end(run)

    assert [is_gone(register, run) for run in (first, second, third)] == [False, False, True]


async def test_runs_that_are_going_are_never_forgotten_and_do_not_count(time: LoopTime) -> None:
    register = Register(Retention(runs=1, seconds=60))
    going = [await begin(register) for _ in range(3)]
    ended = await begin_and_end(register)

    assert not is_gone(register, ended)
    await time.passes(1_000)

    assert [is_gone(register, run) for run in going] == [False] * 3


async def test_each_run_is_forgotten_when_its_own_time_is_over(time: LoopTime) -> None:
    register = Register(Retention(seconds=60))
    going = await begin(register)
    first = await begin_and_end(register)
    await time.passes(40)
    register.end(going)
    await time.passes(19)
    assert (is_gone(register, first), is_gone(register, going)) == (False, False)

    await time.passes(2)
    assert (is_gone(register, first), is_gone(register, going)) == (True, False)
    await time.passes(40)

    assert (is_gone(register, first), is_gone(register, going)) == (True, True)


async def test_a_run_forgotten_for_its_number_is_not_forgotten_again_when_its_time_is_over(
    time: LoopTime, caplog: pytest.LogCaptureFixture
) -> None:
    register = Register(Retention(runs=1, seconds=60))
    for _ in range(3):
        await begin_and_end(register)

    await time.passes(61)

    assert register.page(100) == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_nothing_holds_a_run_that_is_forgotten() -> None:
    register = Register(Retention(runs=1, seconds=FOR_EVER))
    forgotten = weakref.ref(await begin_and_end(register, KEY))

    await begin_and_end(register)
    gc.collect()

    assert forgotten() is None


async def test_nothing_is_kept_where_nothing_is_to_be_kept(time: LoopTime) -> None:
    none, never = Register(Retention(runs=0)), Register(Retention(seconds=0))
    runs = [await begin_and_end(register) for register in (none, never)]

    assert is_gone(none, runs[0])
    await time.passes(0)

    assert is_gone(never, runs[1])


async def test_the_ids_of_the_forgotten_are_remembered_for_a_while_and_then_let_go() -> None:
    register = Register(Retention(runs=0))
    run = await begin_and_end(register)
    ids = [run.id]
    for _ in range(10_000):
        run.id = new_run_id()  # so many runs would take their time
        ids.append(run.id)
        register.add(run)
        register.end(run)

    for remembered in (ids[1], ids[-1]):
        with pytest.raises(RunGone):
            register.get(remembered)
    with pytest.raises(RunNotFound):
        register.get(ids[0])


# --- keys


async def test_a_key_leads_to_the_run_that_it_began_while_that_goes_and_after_its_end() -> None:
    register = Register(Retention())
    assert register.begun_by(KEY) is None

    run = await begin(register, KEY)
    await begin(register)
    assert register.begun_by(KEY) is run
    register.end(run)

    assert register.begun_by(KEY) is run


async def test_the_keys_of_others_and_other_keys_have_begun_nothing() -> None:
    register = Register(Retention())
    await begin(register, KEY)

    assert register.begun_by(replace(KEY, principal="you")) is None
    assert register.begun_by(replace(KEY, text="KEY")) is None
    assert register.begun_by(IdempotencyKey("mek", "ey", "body")) is None


async def test_a_key_is_refused_for_another_request_and_still_leads_to_its_own() -> None:
    register = Register(Retention())
    run = await begin(register, KEY)

    with pytest.raises(IdempotencyKeyReused, match="new key"):
        register.begun_by(replace(KEY, fingerprint="another body"))

    assert register.begun_by(KEY) is run


async def test_a_key_is_free_when_its_run_is_forgotten_also_for_another_request() -> None:
    register = Register(Retention(runs=1, seconds=FOR_EVER))
    old = await begin_and_end(register, KEY)
    await begin_and_end(register)
    another = replace(KEY, fingerprint="another body")
    assert is_gone(register, old)
    assert (register.begun_by(KEY), register.begun_by(another)) == (None, None)

    new = await begin(register, another)

    assert register.begun_by(another) is new


# --- in order


async def test_the_newest_run_comes_first_whether_it_has_ended_or_not() -> None:
    register = Register(Retention())
    runs = [await begin(register) for _ in range(4)]
    register.end(runs[2])
    register.end(runs[0])

    assert register.page(100) == runs[::-1]
    assert register.page(2) == [runs[3], runs[2]]
    assert register.page(2, before=runs[2].id) == [runs[1], runs[0]]
    assert register.page(2, before=runs[0].id) == []


async def test_a_page_goes_on_where_the_last_one_ended_though_that_run_is_forgotten() -> None:
    register = Register(Retention(runs=2, seconds=FOR_EVER))
    runs = [await begin(register) for _ in range(5)]
    [last] = register.page(1, before=runs[4].id)
    register.end(last)
    for run in (runs[4], runs[2]):
        register.end(run)
    assert is_gone(register, last)

    assert register.page(100, before=last.id) == [runs[2], runs[1], runs[0]]


async def test_a_page_may_be_of_one_conversation() -> None:
    register = Register(Retention())
    runs = [await begin(register, conversation_id=one) for one in ("a", "b", None, "a", "a")]

    assert register.page(2, conversation_id="a") == [runs[4], runs[3]]
    assert register.page(2, conversation_id="a", before=runs[3].id) == [runs[0]]
    assert register.page(100, conversation_id="b") == [runs[1]]
    assert register.page(100, conversation_id="") == []
