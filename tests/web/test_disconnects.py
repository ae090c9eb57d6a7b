"""A caller who goes away before there is a run, or from what is none; `runs/test_leaving.py` is about runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from app.providers.scripted import ScriptedModel
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import Held
from tests.support.web import ENDPOINTS, ask, gateway

LATE = {"stream": {"commit_after": PATIENCE}}


@pytest.mark.fault("D03")
async def test_the_tools_of_a_caller_who_drives_the_loop_are_cancelled() -> None:
    held = Held()
    body = {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "name": "held", "arguments": "{}"}]}]}
    async with gateway(ScriptedModel(), [held.tool]) as client:
        asking = asyncio.create_task(client.post("/tool-calls", json=body))
        await held.begun()
        asking.cancel()
        await asyncio.wait([asking])

    assert asking.cancelled()
    assert held.cancelled == 1


@both_modes
async def test_a_caller_who_leaves_while_sending_is_no_error(*, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    sending, model = asyncio.Event(), ScriptedModel()

    async def half_a_body() -> AsyncIterator[bytes]:
        yield b'{"message":'
        sending.set()
        await asyncio.Event().wait()

    async with gateway(model) as client:
        asking = asyncio.create_task(client.post(ENDPOINTS[stream], content=half_a_body()))
        await sending.wait()
        asking.cancel()
        await asyncio.wait([asking])

    assert model.prompts == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.fault("D03")
@both_modes
async def test_a_caller_who_stays_is_not_taken_for_gone(*, stream: bool) -> None:
    reply = Hesitant("Hi")

    async with gateway(ScriptedModel(reply), settings=LATE) as client:
        asking = asyncio.create_task(ask(client, stream=stream))
        await reply.asked.wait()
        await asyncio.sleep(0)
        reply.go_on.set()
        assert (await asking).document["content"] == "Hi"
