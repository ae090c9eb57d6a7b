"""Many runs: how many there may be, which of them wait for each other, and how each is found."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.chat import ConfigurationError, FinishReason, Prompt, UserMessage
from app.client import ChatClient
from app.providers.scripted import ScriptedModel
from app.runs import (
    ConversationBusy,
    GatewayFull,
    IdempotencyKey,
    IdempotencyKeyReused,
    InMemoryRunStore,
    Retention,
    RunGone,
    RunLimits,
    RunNotFound,
    RunOptions,
    Runs,
    ShuttingDown,
)
from tests.support.chains import request_of
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant, Stubborn
from tests.support.loop_time import LoopTime
from tests.support.modes import both_modes

QUEUE = RunOptions(when_busy="queue")
CANCEL = RunOptions(when_busy="cancel_previous")
KEY = IdempotencyKey("me", "key", "body")


def said(prompt: Prompt) -> str:
    """What the user said."""
    [message] = prompt.messages
    assert isinstance(message, UserMessage)
    return message.content


# --- side by side


async def test_runs_without_a_conversation_do_not_wait_for_each_other() -> None:
    runs = Runs(ChatClient(ScriptedModel(forever="Hi")))

    answers = await asyncio.gather(*[(await runs.start(request_of(stream=False))).result() for _ in range(10)])

    assert len(answers) == 10
    assert runs.active == 0


async def test_no_more_runs_than_may_go_at_once() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply)), RunLimits(active=1))
    first = await runs.start(request_of(stream=False))

    with pytest.raises(GatewayFull, match="as many as may"):
        await runs.start(request_of(stream=False))

    reply.go_on.set()
    await first.result()


# --- one conversation


@pytest.mark.fault("M11")
async def test_a_conversation_has_one_run_at_a_time() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply, "Hi")))
    first = await runs.start(request_of(stream=False, conversation_id="c"))

    with pytest.raises(ConversationBusy, match="'c'"):
        await runs.start(request_of(stream=False, conversation_id="c"))
    reply.go_on.set()
    await first.result()

    assert (await (await runs.start(request_of(stream=False, conversation_id="c"))).result()).content == "Hi"


@both_modes
async def test_runs_that_queue_go_one_after_the_other_in_the_order_they_came(*, stream: bool) -> None:
    going: list[str] = []
    most = 0

    async def reply(prompt: Prompt) -> str:
        nonlocal most
        name = said(prompt)
        going.append(name)
        most = max(most, len(going))
        await asyncio.sleep(0)
        going.remove(name)
        return f"{name}!"

    runs = Runs(ChatClient(ScriptedModel(forever=reply)))
    begun = [await runs.start(request_of(name, stream=stream, conversation_id="c"), QUEUE) for name in "abcd"]
    ended = [(await run.result()).content for run in begun]

    assert ended == ["a!", "b!", "c!", "d!"]
    assert most == 1


@both_modes
async def test_all_before_it_are_cancelled_and_have_given_back_what_they_held(*, stream: bool) -> None:
    stubborn = Stubborn()
    model = ScriptedModel(stubborn, forever="New.")
    runs = Runs(ChatClient(model))
    request = request_of(stream=stream, conversation_id="c")
    going, queued = await runs.start(request), await runs.start(request, QUEUE)
    elsewhere = await runs.start(replace(request, conversation_id="d"))
    await stubborn.asked.wait()

    new = await runs.start(request, CANCEL)
    assert (going.is_ending, queued.is_ending, elsewhere.is_ending) == (True, True, False)
    assert (await queued.result()).finish_reason is FinishReason.CANCELLED
    await stubborn.cancelled.wait()
    assert (new.status, len(model.prompts)) == ("queued", 2)
    stubborn.go_on.set()

    assert (await new.result()).content == "New."


@both_modes
async def test_a_run_that_was_told_to_end_is_waited_for_and_not_taken_for_busy(*, stream: bool) -> None:
    stubborn = Stubborn()
    runs = Runs(ChatClient(ScriptedModel(stubborn, "Next.")))
    request = request_of(stream=stream, conversation_id="c")
    ending = await runs.start(request)
    await stubborn.asked.wait()
    ending.cancel()

    following = await runs.start(request)
    assert following.status == "queued"
    with pytest.raises(ConversationBusy):
        await runs.start(request)
    stubborn.go_on.set()

    assert (await following.result()).content == "Next."


async def test_a_run_that_does_not_end_makes_its_conversation_busy_again(time: LoopTime) -> None:
    stubborn = Stubborn()
    runs = Runs(ChatClient(ScriptedModel(stubborn, "Next.")))
    request = request_of(stream=False, conversation_id="c")
    ending = await runs.start(request)
    await stubborn.asked.wait()
    ending.cancel()

    await time.passes(6)
    with pytest.raises(ConversationBusy):
        await runs.start(request)
    following = await runs.start(request, QUEUE)
    stubborn.go_on.set()

    assert (await following.result()).content == "Next."


async def test_a_run_that_fails_does_not_keep_those_behind_it_waiting() -> None:
    runs = Runs(ChatClient(ScriptedModel(KeyError("bug"), "Next.")))
    request = request_of(stream=False, conversation_id="c")

    failing, following = [await runs.start(request, QUEUE) for _ in range(2)]

    assert (await following.result()).content == "Next."
    assert failing.status == "failed"


@pytest.mark.parametrize("why", [GatewayFull, ShuttingDown, ConfigurationError])
async def test_a_run_that_is_refused_cancels_nothing(why: type[Exception]) -> None:
    reply = Hesitant()
    client = ChatClient(ScriptedModel(reply), tool_calling=False)
    runs = Runs(client, RunLimits(active=1 if why is GatewayFull else None))
    request = request_of(stream=False, conversation_id="c")
    going = await runs.start(request)
    if why is ShuttingDown:
        runs.close()

    with pytest.raises(why):
        await runs.start(request, replace(CANCEL, tool_calling=True if why is ConfigurationError else None))

    assert not going.is_ending
    reply.go_on.set()
    await going.result()


# --- found again


async def test_a_run_is_found_until_it_is_forgotten() -> None:
    runs = Runs(ChatClient(ScriptedModel(forever="Hi")), store=InMemoryRunStore(retention=Retention(runs=1)))
    first, second = [await runs.start(request_of(stream=False, conversation_id=name)) for name in "ab"]
    assert [await runs.get(run.id) for run in (first, second)] == [first, second]
    assert await runs.page(10) == [second, first]
    assert await runs.page(10, before=second.id) == await runs.page(10, conversation_id="a") == [first]

    await asyncio.gather(first.result(), second.result())
    with pytest.raises(RunGone):
        await runs.get(first.id)

    assert await runs.page(10) == [second]
    with pytest.raises(RunNotFound):
        await runs.get("run_of_nobody")


@both_modes
async def test_what_a_key_has_begun_is_not_begun_again(*, stream: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply)
    runs = Runs(ChatClient(model))
    request = request_of(stream=stream, conversation_id="c")

    begun = await asyncio.gather(*[runs.start_once(KEY, request) for _ in range(5)])
    assert [is_new for _, is_new in begun] == [True, *[False] * 4]
    assert len({run.id for run, _ in begun}) == 1
    await reply.asked.wait()
    reply.go_on.set()
    run = begun[0][0]
    await run.result()
    runs.close()

    assert await runs.start_once(KEY, request) == (run, False), "there is nothing to begin"
    assert len(model.prompts) == 1


async def test_a_key_is_for_one_request_until_its_run_is_forgotten() -> None:
    runs = Runs(ChatClient(ScriptedModel(forever="Hi")), store=InMemoryRunStore(retention=Retention(runs=1)))
    other = replace(KEY, fingerprint="another body")
    first, _ = await runs.start_once(KEY, request_of(stream=False))
    await first.result()

    with pytest.raises(IdempotencyKeyReused):
        await runs.start_once(other, request_of(stream=False))
    await (await runs.start(request_of(stream=False))).result()

    assert (await runs.start_once(other, request_of(stream=False)))[1]
    await runs.drain(PATIENCE)


async def test_a_key_whose_request_was_refused_has_begun_nothing() -> None:
    reply = Hesitant()
    runs = Runs(ChatClient(ScriptedModel(reply, "Hi")))
    request = request_of(stream=False, conversation_id="c")
    going = await runs.start(request)

    with pytest.raises(ConversationBusy):
        await runs.start_once(KEY, request)
    reply.go_on.set()
    await going.result()

    run, is_new = await runs.start_once(replace(KEY, fingerprint="another body"), request)
    assert (is_new, (await run.result()).content) == (True, "Hi")
