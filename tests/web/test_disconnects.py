"""A caller who goes away stops the work, in whatever phase; clean-up is finished, and nothing half-done is kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from app.chat import ToolContext, UserMessage
from app.providers.scripted import ScriptedModel, tool_calls
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, Held, echo
from tests.support.web import ENDPOINTS, ask, gateway

HELLO = {"message": "Hello", "conversation_id": "c"}
AT_ONCE = {"stream": {"commit_after": 0}}
LATE = {"stream": {"commit_after": PATIENCE}}


async def hang_up_when(
    client: httpx.AsyncClient, path: str, here: Callable[[], Awaitable[object]], body: object = HELLO
) -> None:
    """Ask, wait until the work is where it is wanted, and hang up."""
    asking = asyncio.create_task(client.post(path, json=body))
    async with asyncio.timeout(PATIENCE):
        await here()
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()


@pytest.mark.fault("D03")
@both_modes
@pytest.mark.parametrize("settings", [AT_ONCE, LATE], ids=["begun", "not begun"])
async def test_the_model_call_is_cancelled(settings: dict[str, object], *, stream: bool) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply), settings=settings) as client:
        await hang_up_when(client, ENDPOINTS[stream], reply.asked.wait)
        async with asyncio.timeout(PATIENCE):
            await reply.cancelled.wait()


@pytest.mark.fault("D03", "M05")
@both_modes
async def test_running_tools_are_cancelled_no_other_is_started_and_nothing_is_remembered(*, stream: bool) -> None:
    held, later = Held(sequential=True), echo("later")
    model = ScriptedModel(tool_calls(("held", {}), ("later", {})), forever="Hi")
    async with gateway(model, [held.tool, later]) as client:
        await hang_up_when(client, ENDPOINTS[stream], held.begun)
        async with asyncio.timeout(PATIENCE):
            await held.ended.wait()
        again = await ask(client, "Again?", stream=stream, conversation_id="c")
        while again.status == 409:  # the run is still giving back what it held
            again = await ask(client, "Again?", stream=stream, conversation_id="c")

    assert held.cancelled == 1
    assert later.asked == []
    assert again.status == 200
    assert model.prompts[1].messages == (UserMessage("Again?"),)


@pytest.mark.fault("D04", "D13")
@both_modes
async def test_what_a_tool_cleans_up_after_itself_is_finished(*, stream: bool) -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    async def tidy(_: str, __: ToolContext) -> str:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # an await in the clean-up: the very thing that a second cancellation would end
            cleaned.set()
        return "never"

    async with gateway(ScriptedModel(tool_calls(("tidy", {}))), [HandWrittenTool("tidy", tidy)]) as client:
        await hang_up_when(client, ENDPOINTS[stream], begun.wait)
        async with asyncio.timeout(PATIENCE):
            await cleaned.wait()


@pytest.mark.fault("D03")
async def test_a_reader_who_leaves_in_the_middle_of_the_stream_ends_the_run() -> None:
    held = Held()
    async with gateway(ScriptedModel(tool_calls(("held", {}))), [held.tool]) as client:
        async with client.stream("POST", "/chat/stream", json=HELLO) as response:
            await held.begun()
            assert response.status_code == 200
        async with asyncio.timeout(PATIENCE):
            await held.ended.wait()

    assert held.cancelled == 1


@pytest.mark.fault("D03")
async def test_the_tools_of_a_caller_who_drives_the_loop_are_cancelled() -> None:
    held = Held()
    body = {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "name": "held", "arguments": "{}"}]}]}
    async with gateway(ScriptedModel(), [held.tool]) as client:
        await hang_up_when(client, "/tool-calls", held.begun, body)

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
