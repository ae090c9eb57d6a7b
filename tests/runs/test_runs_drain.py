"""The end of all runs: new ones are refused, those that are going may end, and what does not is ended."""

from __future__ import annotations

import asyncio

import pytest

from app.chat import Prompt, RoundStarted
from app.client import ChatClient
from app.providers.scripted import Reply, ScriptedModel, tool_calls
from app.runs import Escaped, RunFailed, RunOptions, Runs, RunStarted, ShuttingDown
from tests.support.advisors import Tidy
from tests.support.chains import request_of
from tests.support.following import entries, events
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant, Stubborn
from tests.support.loop_time import LoopTime
from tests.support.modes import both_modes
from tests.support.tools import echo

# --- runs


async def test_draining_refuses_new_runs_and_lets_old_ones_end() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply)))
    run = await runs.start(request_of(stream=False))
    await reply.asked.wait()

    draining = asyncio.create_task(runs.drain(timeout=60))
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown):
        await runs.start(request_of(stream=False))
    reply.go_on.set()
    await draining

    assert runs.draining
    assert (await run.result()).content == "At last."


async def test_draining_ends_what_does_not_end_in_time() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply)))
    run = await runs.start(request_of(stream=False))
    await reply.asked.wait()

    await runs.drain(timeout=0)

    with pytest.raises(ShuttingDown):
        await run.result()
    assert (reply.cancelled.is_set(), runs.active) == (True, 0)


async def test_draining_an_idle_gateway_returns_at_once() -> None:
    await Runs(ChatClient(ScriptedModel())).drain(timeout=60)


async def test_the_shortest_time_that_was_given_counts() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply)))
    await runs.start(request_of(stream=False))
    await reply.asked.wait()

    draining = asyncio.create_task(runs.drain(timeout=600))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await runs.drain(timeout=0)
        await draining

    assert (reply.cancelled.is_set(), runs.active) == (True, 0)


async def test_a_thousand_who_wait_for_the_end_of_a_thousand_runs_do_not_hold_it_up() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(forever=reply)))
    for _ in range(1000):
        await runs.start(request_of(stream=False))
    await reply.asked.wait()

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*[runs.drain(timeout=0) for _ in range(1000)])

    assert runs.active == 0


@both_modes
async def test_runs_that_wait_for_their_conversation_are_ended_too(*, stream: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply)
    runs = Runs(ChatClient(model))
    request = request_of(stream=stream, conversation_id="c")
    begun = [await runs.start(request, RunOptions(when_busy="queue")) for _ in range(3)]
    await reply.asked.wait()

    await runs.drain(timeout=0)

    for run in begun:
        with pytest.raises(ShuttingDown):
            await run.result()
    assert (len(model.prompts), runs.active) == (1, 0)


async def test_runs_that_wait_may_go_and_end_while_there_is_time() -> None:
    reply = Hesitant("First.")
    runs = Runs(ChatClient(ScriptedModel(reply, "Second.")))
    request = request_of(stream=False, conversation_id="c")
    begun = [await runs.start(request, RunOptions(when_busy="queue")) for _ in range(2)]
    await reply.asked.wait()

    draining = asyncio.create_task(runs.drain(timeout=PATIENCE))
    await asyncio.sleep(0)
    reply.go_on.set()
    await draining

    assert [(await run.result()).content for run in begun] == ["First.", "Second."]


# --- runs that do not end


@pytest.mark.fault("D10")
@both_modes
async def test_the_readers_of_a_run_that_does_not_end_are_told_its_end_in_time(
    time: LoopTime, caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    stubborn = Stubborn()
    runs = Runs(ChatClient(ScriptedModel(stubborn)))
    run = await runs.start(request_of(stream=stream))
    await stubborn.asked.wait()
    reading, answering = asyncio.create_task(events(run)), asyncio.create_task(run.answering(1_000))
    waiting = asyncio.create_task(run.result())

    draining = asyncio.create_task(runs.drain(timeout=10))
    await time.passes(9)
    assert not stubborn.cancelled.is_set()
    await time.passes(1)
    assert stubborn.cancelled.is_set()
    assert not draining.done()
    await time.passes(0.5)
    assert draining.done()

    last = (await reading)[-1]
    assert isinstance(last, RunFailed)
    assert isinstance(last.error, ShuttingDown)
    for told in (answering, waiting):
        with pytest.raises(ShuttingDown):
            await told
    assert (run.status, runs.active) == ("failed", 1)
    assert "1 runs and calls do not end" in caplog.text
    stubborn.go_on.set()
    await asyncio.wait([run.task])


@both_modes
@pytest.mark.parametrize("reply", ["Too late.", tool_calls(("echo", {}), content="Late.")], ids=["text", "calls"])
async def test_nothing_is_written_behind_the_end_when_such_a_run_comes_back(reply: Reply, *, stream: bool) -> None:
    stubborn = Stubborn(reply)
    runs = Runs(ChatClient(ScriptedModel(stubborn, "Far too late."), tools=[echo()]))
    run = await runs.start(request_of(stream=stream))
    await stubborn.asked.wait()
    run.cancel()
    await stubborn.cancelled.wait()
    error = ShuttingDown("over")

    await run.abandon(error)
    told, ended_at = await entries(run), run.ended_at
    stubborn.go_on.set()
    await asyncio.wait([run.task])
    await run.abandon(ShuttingDown("again"))

    assert [type(entry.event) for entry in told] == [RunStarted, RoundStarted, RunFailed]
    assert await entries(run) == told
    assert (run.end, run.ended_at, run.status) == (RunFailed(error), ended_at, "failed")
    assert runs.active == 0


@both_modes
async def test_nothing_is_written_behind_the_end_though_the_run_was_never_told_to_end(*, stream: bool) -> None:
    reply = Hesitant("Too late.")
    run = await Runs(ChatClient(ScriptedModel(reply))).start(request_of(stream=stream))
    await reply.asked.wait()

    await run.abandon(ShuttingDown("over"))
    told = await entries(run)
    reply.go_on.set()
    await asyncio.wait([run.task])

    assert await entries(run) == told
    with pytest.raises(ShuttingDown):
        await run.result()


@both_modes
async def test_such_a_run_keeps_the_answer_that_it_has(*, stream: bool) -> None:
    tidy = Tidy(stubborn=True)
    run = await Runs(ChatClient(ScriptedModel("Hi"), advisors=[tidy])).start(request_of(stream=stream))
    await tidy.begun.wait()
    run.cancel()
    await tidy.interrupted.wait()

    await run.abandon(ShuttingDown("over"))

    assert (await run.result()).content == "Hi"
    assert (run.status, (await events(run))[-1]) == ("completed", run.end)
    tidy.go_on.set()
    await asyncio.wait([run.task])
    assert (await run.result()).content == "Hi"


async def test_a_run_that_has_ended_is_not_ended_again() -> None:
    run = await Runs(ChatClient(ScriptedModel("Hi"))).start(request_of(stream=True))
    answer = await run.result()
    told = await entries(run)

    await run.abandon(ShuttingDown("over"))

    assert (await run.result(), await entries(run)) == (answer, told)


async def test_draining_again_while_a_run_does_not_end_changes_nothing(time: LoopTime) -> None:
    stubborn = Stubborn()
    runs = Runs(ChatClient(ScriptedModel(stubborn)))
    run = await runs.start(request_of(stream=True))
    await stubborn.asked.wait()

    draining = [asyncio.create_task(runs.drain(timeout)) for timeout in (0, 0, 5)]
    await time.passes(6)
    await time.passes(0.5)
    assert [task.done() for task in draining] == [True] * 3

    assert [type(event) for event in await events(run)].count(RunFailed) == 1
    stubborn.go_on.set()
    await asyncio.wait([run.task])


# --- other work


async def test_other_work_is_waited_for_as_runs_are_and_refused_once_draining_has_begun() -> None:
    runs = Runs(ChatClient(ScriptedModel()))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    working = asyncio.create_task(runs.attend(work))
    await begun.wait()
    draining = asyncio.create_task(runs.drain(timeout=60))
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown):
        await runs.attend(work)
    assert not draining.done()
    go_on.set()
    await draining

    assert await working == "done"


@pytest.mark.fault("D04")
async def test_other_work_that_does_not_end_in_time_is_ended_once_and_may_clean_up() -> None:
    runs = Runs(ChatClient(ScriptedModel()))
    begun, cleaning, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    cleaned: list[str] = []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await go_on.wait()
            cleaned.append("up")

    working = asyncio.create_task(runs.attend(work))
    await begun.wait()
    draining = [asyncio.create_task(runs.drain(timeout=0)) for _ in range(2)]
    await cleaning.wait()
    working.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*draining)

    assert cleaned == ["up"]
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_other_work_that_fails_fails_its_caller_only() -> None:
    runs = Runs(ChatClient(ScriptedModel()))

    async def work() -> None:
        raise SystemExit(3)

    with pytest.raises(Escaped):
        await runs.attend(work)
    await runs.drain(timeout=60)


async def test_other_work_that_does_not_end_holds_up_nobody_and_its_caller_is_told(
    time: LoopTime, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs(ChatClient(ScriptedModel("Hi")))
    stubborn = Stubborn()
    working = asyncio.create_task(runs.attend(lambda: stubborn(Prompt.of("Hello"))))
    await stubborn.asked.wait()

    draining = asyncio.create_task(runs.drain(timeout=10))
    await time.passes(10)
    assert stubborn.cancelled.is_set()
    assert not draining.done()
    await time.passes(0.5)

    assert draining.done()
    assert "1 runs and calls do not end" in caplog.text
    with pytest.raises(ShuttingDown):
        await working
    stubborn.go_on.set()


async def test_the_caller_of_other_work_is_told_that_it_was_ended() -> None:
    runs = Runs(ChatClient(ScriptedModel()))
    hesitant = Hesitant()
    working = asyncio.create_task(runs.attend(lambda: hesitant(Prompt.of("Hello"))))
    await hesitant.asked.wait()

    await runs.drain(timeout=0)

    with pytest.raises(ShuttingDown):
        await working
