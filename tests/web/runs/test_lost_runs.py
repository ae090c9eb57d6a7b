"""A replica that others cannot hear any more: its runs are lost, once, and everything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx
import pytest

from app.memory import InMemoryChatMemory
from app.providers.scripted import ScriptedModel, tool_calls
from tests.support.cable import Cable
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.redis_server import RedisServer
from tests.support.tools import Held
from tests.support.web import ask, gateway
from tests.web.runs.asking import line, listening, replayed, said, send
from tests.web.runs.following import AT_ONCE, data_of, ended, following, name_of, newest, problem_of, read

pytestmark = pytest.mark.server

C = {"conversation_id": "c"}
QUEUE = {**C, "when_busy": "queue"}
LEASE = 2.0


@dataclass(frozen=True)
class Divided:
    """Two replicas.

    Attributes:
        here: asks the one that can be cut off from Redis.
        there: asks the other one.
        cable: between the first one and Redis.
        memory: what both remember.
    """

    here: httpx.AsyncClient
    there: httpx.AsyncClient
    cable: Cable
    memory: InMemoryChatMemory


Making: TypeAlias = Callable[..., AbstractAsyncContextManager[Divided]]


@pytest.fixture
def divided(redis_url: str, redis_server: RedisServer) -> Making:
    """Makes two replicas of which one can be cut off."""

    @asynccontextmanager
    async def made(
        model: ScriptedModel, other: ScriptedModel, tools: Iterable[Any] = (), *, lease: float = LEASE
    ) -> AsyncIterator[Divided]:
        async with AsyncExitStack() as stack:
            cable = await stack.enter_async_context(Cable(redis_server.port))
            over_the_cable = redis_url.replace(str(redis_server.port), str(cable.port))
            memory = InMemoryChatMemory()

            async def replica(answering: ScriptedModel, url: str) -> httpx.AsyncClient:
                settings = {"redis": {"url": url, "lease": lease}, **AT_ONCE}
                return await stack.enter_async_context(gateway(answering, tools, settings=settings, memory=memory))

            here, there = await replica(model, over_the_cable), await replica(other, redis_url)
            yield Divided(here, there, cable, memory)

    return made


async def lost(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    """Wait until a run is lost. Returns what is told of it."""
    run = await ended(client, run_id)
    assert (run["status"], run["problem"]["type"]) == ("failed", "urn:advisor-gateway:lost"), run
    return run


@both_modes
async def test_a_run_whose_replica_cannot_be_heard_is_lost_once_and_its_events_stay_readable(
    divided: Making, *, stream: bool
) -> None:
    held = Held()
    async with divided(ScriptedModel(tool_calls(("held", {}), content="Look.")), ScriptedModel(), [held.tool]) as both:
        asking = asyncio.create_task(ask(both.here, stream=stream, on_disconnect="continue"))
        await held.begun()
        run_id = await newest(both.there)
        async with following(both.there, run_id) as reader:
            await reader.until(lambda text: "tool_call.ready" in text)
            before = reader.events
            both.cable.cut()
            seen = await reader.rest()
        run = await lost(both.there, run_id)
        again = await read(both.there, run_id)
        both.cable.mend()
        reply = await asking
        own = await read(both.here, run_id)

    assert seen[: len(before)] == before
    assert [name_of(event) for event in seen].count("run.failed") == 1
    assert (name_of(seen[-1]), data_of(seen[-1])) == ("run.failed", run["problem"])
    assert seen == again == own
    assert held.cancelled == 1, "back again, the replica ends what others took for lost"
    assert reply.document == run["problem"]


@both_modes
async def test_its_conversation_goes_on_and_nothing_of_the_lost_turn_is_remembered(
    divided: Making, *, stream: bool
) -> None:
    reply = Hesitant("Too late.")
    other = ScriptedModel("Second.", "Third.")
    async with divided(ScriptedModel(reply), other) as both:
        asking = asyncio.create_task(ask(both.here, "One", stream=stream, **C))
        await reply.asked.wait()
        waiting = asyncio.create_task(ask(both.there, "Two", stream=stream, **QUEUE))
        run_id, _ = await line(both.there, "running", "queued")
        both.cable.cut()
        second = await waiting
        await lost(both.there, run_id)
        both.cable.mend()
        first = await asking
        third = await ask(both.there, "Three", stream=stream, **C)

    assert (first.document["type"], second.document["content"]) == ("urn:advisor-gateway:lost", "Second.")
    assert reply.cancelled.is_set()
    assert third.document["content"] == "Third."
    assert [said(prompt) for prompt in other.prompts] == [["Two"], ["Two", "Second.", "Three"]]


async def test_its_key_answers_that_it_is_lost_and_begins_nothing(divided: Making) -> None:
    reply = Hesitant()
    other = ScriptedModel("Never.")
    async with divided(ScriptedModel(reply), other) as both:
        asking = asyncio.create_task(send(both.here, stream=False, key="k"))
        await reply.asked.wait()
        run_id = await newest(both.there)
        joining = asyncio.create_task(send(both.there, stream=False, key="k"))
        async with listening(both.there, key="k") as witness:
            both.cable.cut()
            run = await lost(both.there, run_id)
            last = await witness.end()
        replies = [await joining, *[await send(both.there, stream=stream, key="k") for stream in (False, True)]]
        both.cable.mend()
        await asking

    assert [reply.document for reply in replies] == [run["problem"]] * 3
    assert [replayed(reply.headers) for reply in replies] == ["true"] * 3
    assert (last.name, other.prompts) == ("run.failed", [])


@both_modes
async def test_a_replica_that_is_heard_again_in_time_has_lost_nothing(divided: Making, *, stream: bool) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {})), "Done.")
    async with divided(model, ScriptedModel(), [held.tool], lease=60) as both:
        asking = asyncio.create_task(ask(both.here, stream=stream, **C))
        await held.begun()
        run_id = await newest(both.there)
        async with following(both.there, run_id) as reader:
            await reader.until(lambda text: "tool_call.ready" in text)
            both.cable.cut()
            held.let_go.set()
            answer = await asking
            both.cable.mend()
            seen = await reader.rest()
        run = await ended(both.there, run_id)

    assert (answer.status, answer.document["content"]) == (200, "Done.")
    assert (name_of(seen[-1]), data_of(seen[-1])) == ("run.completed", answer.document)
    assert (run["status"], run["answer"]) == ("completed", answer.document)


async def test_one_that_is_cut_off_refuses_what_has_to_be_shared_and_does_the_rest(divided: Making) -> None:
    async with divided(ScriptedModel(forever="Hi"), ScriptedModel(forever="Ho")) as both:
        known = (await ask(both.there, stream=False)).document["id"]
        both.cable.cut()
        await ask(both.here, stream=False)  # it takes a while to find out
        plain = [await ask(both.here, stream=stream) for stream in (False, True)]
        refused = [
            await both.here.post("/chat", json={"message": "Hello", **more})
            for more in (C, {"background": True}, {"on_disconnect": "continue"})
        ]
        refused.append(await both.here.post("/chat", json={"message": "Hello"}, headers={"Idempotency-Key": "k"}))
        refused += [await both.here.get(path) for path in ("/runs", f"/runs/{known}", f"/runs/{known}/events")]
        elsewhere = await ask(both.there, stream=True, **C)
        both.cable.mend()
        async with asyncio.timeout(PATIENCE):
            while (await both.here.get("/runs")).status_code == 503:
                pass
        again = await ask(both.here, stream=True, **C)

    assert [reply.document["content"] for reply in plain] == ["Hi", "Hi"]
    assert [problem_of(response) for response in refused] == [(503, "shared-state-unavailable")] * len(refused)
    assert all(int(response.headers["retry-after"]) >= 1 for response in refused)
    assert [reply.document["content"] for reply in (elsewhere, again)] == ["Ho", "Hi"]
