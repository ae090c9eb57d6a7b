"""What is kept of a run that has ended: its journal, and nothing of what it worked with."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from functools import partial

import pytest

from app.chat import ModelUnavailable, Prompt
from app.client import ChatClient
from app.providers.scripted import ReplyTo, ScriptedModel
from app.runs import InMemoryRunStore, RunFailed, RunLimits, RunOptions, Runs
from tests.support.chains import request_of
from tests.support.following import events
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.loop_time import LoopTime
from tests.support.modes import both_modes


class Thing:
    """What can be watched: whether anybody still holds it."""


async def broken(_: Prompt) -> str:
    """Fail as providers do: by an error of theirs, in the words of ours."""
    try:
        return str(int("no number"))
    except ValueError as error:
        cause = error
    raise ModelUnavailable("the answer broke") from cause


async def faulty(_: Prompt) -> str:
    """Fail while handling a failure."""
    nothing: dict[str, str] = {}
    try:
        return str(int("no number"))
    except ValueError:
        return nothing["a word for it"]


async def faulty_together(_: Prompt) -> str:
    """Fail as task groups do."""
    errors: list[Exception] = []
    try:
        return str(int("no number"))
    except ValueError as error:
        errors.append(error)
    raise ExceptionGroup("all of them", errors)


FAILURES: dict[str, ReplyTo] = {"error": broken, "fault": faulty, "faults": faulty_together}


@pytest.mark.parametrize("how", ["answered", *FAILURES, "cancelled", "out of time"])
@both_modes
async def test_a_run_that_has_ended_holds_nothing_of_what_it_worked_with(
    how: str, time: LoopTime, caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    caplog.set_level(logging.CRITICAL, "app.runs.local_run")  # pytest would keep the errors, and where they were raised
    hesitant = Hesitant()
    model = ScriptedModel("Hi" if how == "answered" else FAILURES.get(how, hesitant))
    runs = Runs(ChatClient(model), RunLimits(deadline=60))
    thing = Thing()
    watched = weakref.ref(thing)
    run = await runs.start(request_of(stream=stream, tool_context={"thing": thing}))
    del thing
    if how in {"cancelled", "out of time"}:
        await hesitant.asked.wait()
        if how == "cancelled":
            run.cancel()
        else:
            await time.passes(61)
    await asyncio.wait([run.task])

    model.prompts.clear()
    gc.collect()

    assert await runs.get(run.id) is run
    assert watched() is None


async def test_an_error_that_is_told_again_and_again_does_not_grow() -> None:
    run = await Runs(ChatClient(ScriptedModel(broken))).start(request_of(stream=True))
    depths: list[int] = []
    for wait in (run.result, partial(run.answering, PATIENCE)) * 3:
        with pytest.raises(ModelUnavailable) as raised:
            await wait()
        depths.append(len(raised.traceback))
        assert isinstance(raised.value.__cause__, ValueError)

    assert set(depths) == {depths[0]}


async def test_an_error_that_cannot_say_what_it_is_ends_its_run_as_any_other() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    run = await Runs(ChatClient(ScriptedModel(Unspeakable("no", 1)))).start(request_of(stream=True))

    async with asyncio.timeout(PATIENCE):
        last = (await events(run))[-1]

    assert isinstance(last, RunFailed)
    assert isinstance(last.error, Unspeakable)


async def test_nothing_is_left_in_the_lines_of_those_that_have_ended() -> None:
    store = InMemoryRunStore()
    runs = Runs(ChatClient(ScriptedModel("Hi", KeyError("bug"), forever="Hi")), store=store)
    queue = RunOptions(when_busy="queue")
    begun = [await runs.start(request_of(stream=False, conversation_id=name), queue) for name in "aabbc"]
    begun[-1].cancel()
    await asyncio.wait([run.task for run in begun])
    await runs.attend(begun[0].result)

    assert (runs.active, len(store._lines), len(runs._errands)) == (0, 0, 0)
