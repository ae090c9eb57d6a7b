"""Redis is paused, restarted, killed and emptied under two replicas: what each caller sees, and that all comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import httpx
import pytest

from app.providers.scripted import ScriptedModel, tool_calls
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.redis_server import RedisServer
from tests.support.tools import Held
from tests.support.web import ask, gateway
from tests.web.runs.asking import line, replayed, send
from tests.web.runs.conftest import replicas
from tests.web.runs.following import AT_ONCE, data_of, ended, following, name_of, newest, problem_of, read

pytestmark = pytest.mark.server

C = {"conversation_id": "c"}
QUEUE = {**C, "when_busy": "queue"}

Action: TypeAlias = Callable[[RedisServer], None]
Pairs: TypeAlias = Callable[..., AbstractAsyncContextManager[list[httpx.AsyncClient]]]

OUTAGES: dict[str, tuple[Action, Action]] = {
    "paused": (RedisServer.pause, RedisServer.resume),
    "stopped": (RedisServer.stop, RedisServer.start),
    "killed": (RedisServer.kill, RedisServer.start),
    "forgetful": (RedisServer.forget, RedisServer.start),
}
each_outage = pytest.mark.parametrize(("down", "up"), OUTAGES.values(), ids=OUTAGES.keys())


@pytest.fixture
def pair(redis_of_its_own: RedisServer) -> Pairs:
    """Makes two gateways that share what there is, in a Redis that may be stopped."""

    @asynccontextmanager
    async def made(*parts: Any, lease: float = 60, **more: Any) -> AsyncIterator[list[httpx.AsyncClient]]:
        settings = {"redis": {"url": redis_of_its_own.url(), "lease": lease}, **AT_ONCE}
        async with replicas("", *parts, settings=settings, **more) as clients:
            yield clients

    return made


async def shared(client: httpx.AsyncClient, state: str) -> None:
    """Wait until a replica says of what is shared that it is so."""
    async with asyncio.timeout(PATIENCE):
        while (await client.get("/readyz")).json()["shared"] != state:
            pass


@each_outage
@both_modes
async def test_readers_go_on_or_wait_and_all_have_the_whole_answer_in_the_end(
    pair: Pairs, redis_of_its_own: RedisServer, down: Action, up: Action, *, stream: bool
) -> None:
    before, during = Held("before"), Held("during")
    model = ScriptedModel(tool_calls(("before", {})), tool_calls(("during", {})), "Done.")
    async with pair(model, [before.tool, during.tool]) as (here, there):
        asking = asyncio.create_task(ask(here, stream=stream, **C))
        await before.begun()
        run_id = await newest(there)
        async with following(here, run_id) as own, following(there, run_id) as other:
            await other.until(lambda text: "tool_call.ready" in text)
            down(redis_of_its_own)
            before.let_go.set()
            await during.begun()
            await own.until(lambda text: '"name":"during"' in text)
            up(redis_of_its_own)
            during.let_go.set()
            seen, same = await own.rest(), await other.rest()
        answer = await asking
        runs = [await ended(client, run_id) for client in (here, there)]
        again = await read(there, run_id)

    assert (name_of(seen[-1]), data_of(seen[-1])) == ("run.completed", answer.document)
    assert seen == same == again
    assert [run["answer"] for run in runs] == [answer.document] * 2
    assert answer.document["content"] == "Done."


@each_outage
async def test_what_is_shared_is_refused_meanwhile_and_the_rest_is_done_and_all_of_it_afterwards(
    pair: Pairs, redis_of_its_own: RedisServer, down: Action, up: Action
) -> None:
    async with pair(ScriptedModel(forever="Hi"), lease=3) as clients:
        here, there = clients
        await shared(here, "available")
        down(redis_of_its_own)
        for client in clients:
            await shared(client, "unavailable")
        plain = [await ask(here, stream=stream) for stream in (False, True)]
        refused = [await there.post("/chat", json={"message": "Hello", **more}) for more in (C, {"background": True})]
        refused += [await there.post("/chat", json={"message": "Hello"}, headers={"Idempotency-Key": "k"})]
        refused += [await client.get("/runs") for client in clients]
        up(redis_of_its_own)
        for client in clients:
            await shared(client, "available")
        afterwards = [await ask(client, stream=True, **C) for client in clients]
        keyed = [await send(client, stream=False, key="k") for client in clients]
        listed = {run["id"] for run in (await there.get("/runs")).json()["runs"]}

    assert [reply.document["content"] for reply in (*plain, *afterwards)] == ["Hi"] * 4
    assert [problem_of(response) for response in refused] == [(503, "shared-state-unavailable")] * len(refused)
    assert [replayed(reply.headers) for reply in keyed] == [None, "true"]
    assert {reply.document["id"] for reply in (*afterwards, *keyed)} <= listed


@each_outage
async def test_one_that_waits_for_its_conversation_waits_on_and_has_its_turn(
    pair: Pairs, redis_of_its_own: RedisServer, down: Action, up: Action
) -> None:
    reply = Hesitant("First.")
    model = ScriptedModel(reply, "Second.", "Third.")
    async with pair(model, lease=3) as (here, there):
        first = asyncio.create_task(ask(here, "One", stream=False, **C))
        await reply.asked.wait()
        second = asyncio.create_task(ask(there, "Two", stream=True, **QUEUE))
        await line(there, "running", "queued")
        down(redis_of_its_own)
        for client in (here, there):
            await shared(client, "unavailable")
        up(redis_of_its_own)
        for client in (here, there):
            await shared(client, "available")
        await line(there, "running", "queued")
        third = asyncio.create_task(ask(there, "Three", stream=False, **QUEUE))
        await line(there, "running", "queued", "queued")
        reply.go_on.set()
        replies = [await first, await second, await third]

    assert [reply.document["content"] for reply in replies] == ["First.", "Second.", "Third."]
    assert len(model.prompts) == 3


async def test_a_run_that_ended_meanwhile_is_known_to_all_afterwards(
    pair: Pairs, redis_of_its_own: RedisServer
) -> None:
    held = Held()
    async with pair(ScriptedModel(tool_calls(("held", {})), "Done."), [held.tool], lease=3) as (here, there):
        asking = asyncio.create_task(send(here, stream=False, key="k", **C))
        await held.begun()
        run_id = await newest(there)
        redis_of_its_own.stop()
        held.let_go.set()
        answer = await asking
        still = (await here.get(f"/runs/{run_id}")).json()
        redis_of_its_own.start()
        await shared(there, "available")
        run = await ended(there, run_id)
        joined = await send(there, stream=True, key="k", **C)

    assert (still["status"], still["answer"]) == ("completed", answer.document)
    assert (run["status"], run["answer"]) == ("completed", answer.document)
    assert (joined.document, replayed(joined.headers)) == (answer.document, "true")


async def test_a_gateway_starts_without_redis_and_joins_the_others_when_it_is_there(
    redis_of_its_own: RedisServer,
) -> None:
    redis_of_its_own.stop()
    settings = {"redis": {"url": redis_of_its_own.url(), "lease": 3.0}}
    async with gateway(ScriptedModel(forever="Hi"), settings=settings) as client:
        await shared(client, "unavailable")
        plain = await ask(client, stream=True)
        refused = await client.post("/chat", json={"message": "Hello", **C})
        redis_of_its_own.start()
        await shared(client, "available")
        answer = await ask(client, stream=True, **C)

    assert (plain.status, refused.status_code, answer.status) == (200, 503, 200)


async def test_one_process_alone_does_not_speak_of_what_is_shared() -> None:
    async with gateway(ScriptedModel()) as client:
        assert "shared" not in (await client.get("/readyz")).json()
