"""Many runs: how many there may be, which of them wait for each other, and how each is found."""

from __future__ import annotations

import asyncio

import pytest

from app.client import ChatClient
from app.providers.scripted import ScriptedModel
from app.runs import (
    ConversationBusy,
    GatewayFull,
    RunLimits,
    Runs,
)
from tests.support.chains import request_of
from tests.support.hesitant import Hesitant

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
