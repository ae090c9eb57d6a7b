"""Two replicas: whatever is begun at one is read, waited for, joined and ended at the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import httpx
import pytest

from app.chat import ModelUnavailable
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant, Stubborn
from tests.support.modes import both_modes
from tests.support.tools import Held
from tests.support.web import ask
from tests.web.runs.asking import line, listening, replayed, said, send
from tests.web.runs.conftest import replicas
from tests.web.runs.following import (
    AT_ONCE,
    Door,
    begun_and_left,
    data_of,
    ended,
    every_door,
    following,
    hung_up,
    name_of,
    newest,
    problem_of,
    read,
    written,
)
from tests.web.runs.test_resume import talkative

pytestmark = pytest.mark.server

C = {"conversation_id": "c"}
QUEUE = {**C, "when_busy": "queue"}
CANCEL = {**C, "when_busy": "cancel_previous"}

Pairs: TypeAlias = Callable[..., AbstractAsyncContextManager[list[httpx.AsyncClient]]]


@pytest.fixture
def pair(redis_url: str) -> Pairs:
    """Makes two gateways that share what there is."""

    @asynccontextmanager
    async def made(*parts: Any, **more: Any) -> AsyncIterator[list[httpx.AsyncClient]]:
        async with replicas(redis_url, *parts, **more) as clients:
            yield clients

    return made


# --- reading


@every_door
async def test_a_run_is_followed_at_the_other_replica_byte_for_byte_and_from_wherever_one_was(
    pair: Pairs, door: Door
) -> None:
    held = Held()
    model, tools = talkative(held)
    async with pair(model, tools, settings=AT_ONCE) as (here, there):
        run_id = await begun_and_left(here, door, held.begun)
        async with following(here, run_id) as own, following(there, run_id) as other:
            await own.until(lambda text: '"name":"held","arguments"' in text)
            await other.until(lambda text: '"name":"held","arguments"' in text)
            assert other.events == own.events
            held.let_go.set()
            seen, same = await own.rest(), await other.rest()
        again = [await read(there, run_id, number) for number in range(len(seen))]
        nothing = await there.get(f"/runs/{run_id}/events", params={"after": len(seen)})

    assert same == seen
    assert name_of(seen[-1]) == "run.completed"
    assert again == [seen[number:] for number in range(len(seen))]
    assert (nothing.status_code, nothing.content) == (204, b"")


@both_modes
async def test_what_is_told_of_a_run_is_the_same_at_both_while_it_goes_and_when_it_has_ended(
    pair: Pairs, *, stream: bool
) -> None:
    held = Held()
    broken = ModelUnavailable("tired", status=503, code="tired")
    model = ScriptedModel(tool_calls(("held", {})), "Done.", Cut("Half", broken))
    async with pair(model, [held.tool], settings=AT_ONCE) as clients:
        here, there = clients
        asking = asyncio.create_task(ask(here, stream=stream, **C))
        await held.begun()
        run_id = await newest(there)
        await written(there, run_id, 2)
        going = [(await client.get(f"/runs/{run_id}")).json() for client in clients]
        held.let_go.set()
        answer = (await asking).document
        failed = (await ask(there, stream=stream)).document
        lists = [(await client.get("/runs")).json() for client in clients]
        runs = [[(await client.get(f"/runs/{run['id']}")).json() for run in lists[0]["runs"]] for client in clients]

    assert going[0] == going[1]
    assert (going[0]["status"], going[0]["conversation_id"]) == ("running", "c")
    assert lists[0] == lists[1]
    assert runs[0] == runs[1]
    assert [(run["answer"], run["problem"]) for run in runs[0]] == [(None, failed), (answer, None)]


@both_modes
async def test_one_that_waits_for_a_conversation_is_queued_at_both(pair: Pairs, *, stream: bool) -> None:
    reply = Hesitant()
    async with pair(ScriptedModel(reply, "Hi"), settings=AT_ONCE) as (here, there):
        first = asyncio.create_task(ask(here, "One", stream=stream, **C))
        await reply.asked.wait()
        second = asyncio.create_task(ask(there, "Two", stream=stream, **QUEUE))
        for client in (here, there):
            assert len(await line(client, "running", "queued")) == 2
        reply.go_on.set()
        assert [(await asking).document["content"] for asking in (first, second)] == ["At last.", "Hi"]
        assert await line(here, "completed", "completed") == await line(there, "completed", "completed")


# --- presence


@both_modes
async def test_a_reader_at_the_other_replica_keeps_a_run_alive_and_its_leaving_ends_it(
    pair: Pairs, *, stream: bool
) -> None:
    held = Held()
    async with pair(ScriptedModel(tool_calls(("held", {}))), [held.tool], settings=AT_ONCE) as (here, there):
        asking = asyncio.create_task(ask(here, stream=stream))
        await held.begun()
        run_id = await newest(there)
        async with following(there, run_id), following(there, run_id):
            await hung_up(asking)
            for _ in range(20):  # as long as it takes to ask who is there, and longer
                assert (await here.get(f"/runs/{run_id}")).json()["status"] == "running"
        run = await ended(there, run_id)

    assert (run["status"], held.cancelled) == ("cancelled", 1)


async def test_a_reader_who_moves_to_the_other_replica_does_not_end_the_run(pair: Pairs) -> None:
    held = Held()
    async with pair(ScriptedModel(tool_calls(("held", {})), "Done."), [held.tool], settings=AT_ONCE) as clients:
        asking = asyncio.create_task(ask(clients[0], stream=True))
        await held.begun()
        run_id = await newest(clients[0])
        reading = AsyncExitStack()
        follower = await reading.enter_async_context(following(clients[1], run_id))
        await hung_up(asking)
        for turn in range(6):
            moved = AsyncExitStack()
            follower = await moved.enter_async_context(following(clients[turn % 2], run_id))
            await reading.aclose()
            reading = moved
        held.let_go.set()
        seen = await follower.rest()
        await reading.aclose()

    assert name_of(seen[-1]) == "run.completed"
    assert held.cancelled == 0


async def test_there_is_time_to_come_back_to_the_other_replica(pair: Pairs) -> None:
    held = Held()
    settings = {**AT_ONCE, "runs": {"disconnect_grace": PATIENCE}}
    async with pair(ScriptedModel(tool_calls(("held", {})), "Done."), [held.tool], settings=settings) as (here, there):
        asking = asyncio.create_task(ask(here, stream=True))
        await held.begun()
        run_id = await newest(here)
        await hung_up(asking)
        async with following(there, run_id) as reader:
            held.let_go.set()
            seen = await reader.rest()

    assert (name_of(seen[-1]), data_of(seen[-1])["content"]) == ("run.completed", "Done.")


# --- ending


@both_modes
async def test_a_run_is_cancelled_at_the_other_replica(pair: Pairs, *, stream: bool) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {}), content="Looking."))
    async with pair(model, [held.tool], settings=AT_ONCE) as (here, there):
        asking = asyncio.create_task(ask(here, stream=stream, **C))
        await held.begun()
        run_id = await newest(there)
        accepted = [await there.post(f"/runs/{run_id}/cancel") for _ in range(2)]
        reply = await asking
        run = await ended(there, run_id)
        late = await there.post(f"/runs/{run_id}/cancel")

    assert [response.status_code for response in (*accepted, late)] == [202] * 3
    assert (reply.document["finish_reason"], reply.document["content"]) == ("cancelled", "Looking.")
    assert (run["status"], run["answer"], late.json()["status"]) == ("cancelled", reply.document, "cancelled")
    assert held.cancelled == 1


# --- keys


@both_modes
async def test_a_key_joins_the_run_that_it_began_at_the_other_replica(pair: Pairs, *, stream: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply)
    async with pair(model, settings=AT_ONCE) as (here, there):
        asking = asyncio.create_task(send(here, stream=stream, key="k"))
        await reply.asked.wait()
        async with listening(there, key="k") as witness:
            joining = asyncio.create_task(send(there, stream=stream, key="k"))
            refused = await send(there, "Something else", stream=stream, key="k")
            reply.go_on.set()
            answer, joined = await asking, await joining
            last = await witness.end()
        again = await send(there, stream=stream, key="k")

    assert len(model.prompts) == 1
    assert (refused.status, refused.document["type"]) == (422, "urn:advisor-gateway:idempotency-key-reused")
    assert [one.document for one in (joined, again)] == [answer.document] * 2
    assert [one.events for one in (joined, again)] == [answer.events] * 2
    assert [replayed(one.headers) for one in (answer, joined, again)] == [None, "true", "true"]
    assert (last.name, last.data["content"]) == ("run.completed", "At last.")


@both_modes
async def test_a_key_tells_the_problem_of_the_other_replica(pair: Pairs, *, stream: bool) -> None:
    async with pair(ScriptedModel(ModelUnavailable("tired", status=503, retry_after=7))) as (here, there):
        replies = [await send(client, stream=stream, key="k") for client in (here, there)]

    assert [reply.status for reply in replies] == [502, 502]
    assert replies[0].document == replies[1].document
    assert [reply.headers["retry-after"] for reply in replies] == ["7", "7"]


@both_modes
async def test_of_many_who_send_the_same_request_to_both_at_once_one_begins_it(pair: Pairs, *, stream: bool) -> None:
    model = ScriptedModel("Hi")
    async with pair(model) as clients:
        replies = await asyncio.gather(*[send(clients[n % 2], stream=stream, key="k") for n in range(12)])

    assert len(model.prompts) == 1
    assert [reply.document for reply in replies] == [replies[0].document] * 12
    assert sorted(replayed(reply.headers) or "" for reply in replies) == ["", *["true"] * 11]


# --- conversations


@both_modes
async def test_a_conversation_that_is_busy_at_the_other_replica_is_busy(pair: Pairs, *, stream: bool) -> None:
    reply = Hesitant()
    async with pair(ScriptedModel(reply, "Hi"), settings=AT_ONCE) as (here, there):
        asking = asyncio.create_task(ask(here, stream=stream, **C))
        await reply.asked.wait()
        refused = await ask(there, stream=stream, **C)
        deleted = await there.delete("/conversations/c")
        reply.go_on.set()
        await asking
        answer = await ask(there, stream=stream, **C)

    assert (refused.status, refused.document["type"]) == (409, "urn:advisor-gateway:conversation-busy")
    assert problem_of(deleted) == (409, "conversation-busy")
    assert answer.document["content"] == "Hi"


@both_modes
async def test_messages_to_both_wait_for_each_other_in_the_order_they_came(pair: Pairs, *, stream: bool) -> None:
    held = Hesitant("0")
    model = ScriptedModel(held, *[str(number) for number in range(1, 8)])
    async with pair(model, settings=AT_ONCE) as clients:
        asking = [asyncio.create_task(ask(clients[0], "0", stream=stream, **QUEUE))]
        await held.asked.wait()
        for number in range(1, 8):
            asking.append(asyncio.create_task(ask(clients[number % 2], str(number), stream=stream, **QUEUE)))
            await line(clients[0], "running", *["queued"] * number)
        held.go_on.set()
        replies = await asyncio.gather(*asking)

    numbers = [str(number) for number in range(8)]
    assert [reply.document["content"] for reply in replies] == numbers
    assert said(model.prompts[-1]) == [text for number in numbers for text in (number, number)][:-1]


@both_modes
async def test_all_that_were_before_at_either_replica_are_cancelled_where_that_is_wanted(
    pair: Pairs, *, stream: bool
) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply, "Hi")
    async with pair(model, settings=AT_ONCE) as clients:
        earlier = [asyncio.create_task(ask(clients[0], "0", stream=stream, **C))]
        await reply.asked.wait()
        for number in (1, 2):
            earlier.append(asyncio.create_task(ask(clients[number % 2], str(number), stream=stream, **QUEUE)))
            await line(clients[0], "running", *["queued"] * number)
        answer = await ask(clients[1], "3", stream=stream, **CANCEL)
        cancelled = await asyncio.gather(*earlier)

    assert [reply.document["finish_reason"] for reply in cancelled] == ["cancelled"] * 3
    assert (answer.document["content"], said(model.prompts[-1])) == ("Hi", ["3"])


@both_modes
async def test_one_that_was_told_to_end_at_the_other_replica_refuses_nobody_and_is_waited_for(
    pair: Pairs, *, stream: bool
) -> None:
    stubborn = Stubborn()
    model = ScriptedModel(stubborn, "Hi")
    async with pair(model, settings=AT_ONCE) as (here, there):
        first = asyncio.create_task(ask(here, "One", stream=stream, **C))
        await stubborn.asked.wait()
        [run_id] = await line(here, "running")
        await here.post(f"/runs/{run_id}/cancel")
        await stubborn.cancelled.wait()
        second = asyncio.create_task(ask(there, "Two", stream=stream, **C))
        await line(there, "running", "queued")
        stubborn.go_on.set()
        await first
        answer = await second

    assert answer.document["content"] == "Hi"
