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
from app.providers.scripted import Reply, ReplyTo, ScriptedModel
from app.runs import RunFailed, RunLimits, Runs
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
        raise ModelUnavailable("the answer broke") from error


async def faulty(_: Prompt) -> str:
    """Fail as tasks of a group do."""
    try:
        return str(int("no number"))
    except ValueError as error:
        raise ExceptionGroup("both", [error, KeyError("bug")]) from None


@pytest.mark.parametrize("how", ["answered", "failed", "failed by a fault", "cancelled", "out of time"])
@both_modes
async def test_a_run_that_has_ended_holds_nothing_of_what_it_worked_with(
    how: str, time: LoopTime, caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    caplog.set_level(logging.CRITICAL, "app.runs.run")  # pytest would keep the errors, and where they were raised
    hesitant = Hesitant()
    replies: dict[str, Reply | ReplyTo] = {"answered": "Hi", "failed": broken, "failed by a fault": faulty}
    model = ScriptedModel(replies.get(how, hesitant))
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
