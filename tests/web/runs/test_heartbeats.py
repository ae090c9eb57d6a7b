"""A stream on which nothing happens is kept alive by comments, wherever its run is; one that has ended is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from app.providers.scripted import ScriptedModel
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.web import events_in
from tests.web.runs.conftest import Gateways
from tests.web.runs.following import PING, following, newest
from tests.web.runs.stages import Stage, every_stage

SOON = {"stream": {"commit_after": 0, "heartbeat": 0.001}}


async def alive(writes: AsyncIterator[str]) -> None:
    """See three comments come, one behind the other and each in a write of its own."""
    comments = 0
    async with asyncio.timeout(PATIENCE):
        while comments < 3:
            comments = comments + 1 if await anext(writes) == PING else 0


async def told(writes: AsyncIterator[str], name: str) -> None:
    """Read on until an event of this name has come."""
    async with asyncio.timeout(PATIENCE):
        while f"event: {name}\n" not in await anext(writes):
            pass


async def ending_of(writes: AsyncIterator[str]) -> str:
    """The last write of the stream."""
    async with asyncio.timeout(PATIENCE):
        *_, last = [write async for write in writes]
    return last


@pytest.mark.fault("S06")
@every_stage
async def test_a_silent_stream_carries_comments_wherever_its_run_is_and_none_behind_its_end(
    gateway: Gateways, stage: Callable[[], Stage]
) -> None:
    at = stage()
    async with (
        gateway(at.model, at.tools, advisors=at.advisors, settings=SOON) as client,
        client.stream("POST", "/chat/stream", json={"message": "Hello"}) as response,
    ):
        writes = response.aiter_text()
        await at.here()
        await told(writes, at.so_far[True].told)
        await alive(writes)
        at.let_go()
        last = await ending_of(writes)

    assert events_in(last)[-1].name == "run.completed"
    assert not last.endswith(PING)


@pytest.mark.fault("S06")
async def test_a_stream_whose_run_waits_for_its_conversation_carries_comments(gateway: Gateways) -> None:
    front = Hesitant()
    talk = {"message": "Hello", "conversation_id": "c", "when_busy": "queue"}
    async with gateway(ScriptedModel(front, forever="Again."), settings=SOON) as client:
        first = asyncio.create_task(client.post("/chat", json=talk))
        await front.asked.wait()
        async with client.stream("POST", "/chat/stream", json=talk) as response:
            writes = response.aiter_text()
            await told(writes, "run.started")
            await alive(writes)
            front.go_on.set()
            last = await ending_of(writes)
        await first

    assert events_in(last)[-1].name == "run.completed"


@pytest.mark.fault("S06")
async def test_whoever_comes_back_to_a_silent_run_sees_comments_and_to_one_that_has_ended_none(
    gateway: Gateways,
) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply), settings=SOON) as client:
        await client.post("/chat", json={"message": "Hello", "background": True})
        run_id = await newest(client)
        async with following(client, run_id) as reader:
            await reader.until(lambda text: text.endswith(PING * 3))
            reply.go_on.set()
            await reader.rest()
        async with following(client, run_id) as late:
            await late.rest()

    assert not reader.text.endswith(PING)
    assert PING not in late.text
