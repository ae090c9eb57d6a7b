"""Coming back to a run's events: what is missing, exactly once and in order, and then what comes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx_sse

from app.chat import AssistantMessage, ChatResponse, FinishReason, ModelUnavailable, ToolContext
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, Held, failing
from tests.support.web import ask
from tests.web.runs.conftest import Gateways
from tests.web.runs.following import (
    AT_ONCE,
    PING,
    RETRY,
    Door,
    begun_and_left,
    blocks,
    both_ways,
    data_of,
    ended,
    every_door,
    following,
    hung_up,
    name_of,
    named,
    newest,
    read,
)

BROKEN = ModelUnavailable("the model server is tired", status=503, code="tired")


async def report(_: str, context: ToolContext) -> str:
    """Tell how far it is."""
    context.progress("half", current=1, total=2)
    return "zwölf\n\nUhr"


def talkative(held: Held) -> tuple[ScriptedModel, list[Any]]:
    """A model that thinks, talks and calls tools for two rounds, and those tools. The second round waits."""
    calls = tool_calls(("report", {"of": "the day" * 5}), ("fail", "{}"), content="Let me see.")
    asking = ChatResponse.of_call(
        AssistantMessage(calls.content, calls.tool_calls, reasoning="Ask two."), FinishReason.TOOL_CALLS
    )
    model = ScriptedModel(asking, tool_calls(("held", {})), AssistantMessage("It is\n\nnoon.", reasoning="So it is."))
    return model, [HandWrittenTool("report", report), failing("fail", ValueError()), held.tool]


# --- what is missing


@every_door
@both_ways
async def test_after_every_event_of_a_run_that_has_ended_comes_exactly_the_rest(
    gateway: Gateways, door: Door, by: str
) -> None:
    held = Held()
    model, tools = talkative(held)
    async with gateway(model, tools, settings=AT_ONCE) as client:
        run_id = await begun_and_left(client, door, held.begun)
        async with following(client, run_id) as first:
            held.let_go.set()
            seen = await first.rest()
        resumed = [await client.get(f"/runs/{run_id}/events", **named(n, by)) for n in range(len(seen))]
        nothing = await client.get(f"/runs/{run_id}/events", **named(len(seen), by))

    assert name_of(seen[-1]) == "run.completed"
    assert {"tool_call.ready", "tool_call.progress", "tool_call.result", "tool_call.error"} <= set(map(name_of, seen))
    assert [response.text for response in resumed] == [RETRY + "".join(seen[n:]) for n in range(len(seen))]
    assert (nothing.status_code, nothing.content) == (204, b"")


async def test_what_the_caller_saw_is_what_is_read_again(gateway: Gateways) -> None:
    held = Held()
    held.let_go.set()
    model, tools = talkative(held)
    async with (
        gateway(model, tools) as client,
        client.stream("POST", "/chat/stream", json={"message": "Hello"}) as response,
    ):
        seen = blocks((await response.aread()).decode())
        again = await client.get(response.headers["Location"])

    assert again.text == RETRY + "".join(seen)
    assert {"text.delta", "reasoning.delta", "tool_call.arguments"} <= set(map(name_of, seen))


@every_door
async def test_after_every_event_of_a_run_that_is_going_comes_the_rest_and_then_what_happens(
    gateway: Gateways, door: Door
) -> None:
    held = Held()
    model, tools = talkative(held)
    async with gateway(model, tools, settings=AT_ONCE) as client, AsyncExitStack() as leaving:
        run_id = await begun_and_left(client, door, held.begun)
        first = await leaving.enter_async_context(following(client, run_id))
        await first.until(lambda text: '"name":"held","arguments"' in text)  # nothing more before the tool's end
        before = first.events
        readers = [await leaving.enter_async_context(following(client, run_id, n)) for n in range(len(before) + 1)]
        for n, reader in enumerate(readers):
            await reader.until_events(len(before) - n)
            assert reader.events == before[n:]
        held.let_go.set()
        seen = await first.rest()
        rest = [await reader.rest() for reader in readers]

    assert seen[: len(before)] == before
    assert name_of(seen[-1]) == "run.completed"
    assert rest == [seen[n:] for n in range(len(before) + 1)]


async def test_of_a_long_run_nothing_is_lost_where_one_write_ends_and_the_next_begins(gateway: Gateways) -> None:
    async with gateway(ScriptedModel("word " * 1_200)) as client:
        run_id = (await ask(client, stream=True)).document["id"]
        seen = await read(client, run_id)
        rests = {n: await read(client, run_id, n) for n in (1, 511, 512, 513, 1_024, len(seen) - 1)}

    assert len(seen) > 1_200
    assert rests == {n: seen[n:] for n in rests}


async def test_the_header_wins_over_the_address(gateway: Gateways) -> None:
    async with gateway(ScriptedModel("one two three")) as client:
        run_id = (await ask(client, stream=True)).document["id"]
        seen = await read(client, run_id)
        address = f"/runs/{run_id}/events?after=1"
        come_back = await client.get(address, headers={"Last-Event-ID": "4"})
        first_time = await client.get(address, headers={"Last-Event-ID": ""})
        has_all = await client.get(address, headers={"Last-Event-ID": str(len(seen))})
        junk = await client.get(address, headers={"Last-Event-ID": "junk"})

    assert come_back.text == RETRY + "".join(seen[4:])
    assert first_time.text == RETRY + "".join(seen[1:])
    assert (has_all.status_code, junk.status_code) == (204, 422)


async def test_a_reader_that_is_not_ours_is_told_when_to_come_back_and_where_it_was(gateway: Gateways) -> None:
    async with gateway(ScriptedModel("one two three")) as client:
        run_id = (await ask(client, stream=True)).document["id"]
        async with httpx_sse.aconnect_sse(client, "GET", f"/runs/{run_id}/events?after=2") as source:
            theirs = [event async for event in source.aiter_sse()]

    assert theirs[0].retry == 1000
    assert [event.id for event in theirs] == [str(number) for number in range(3, 3 + len(theirs))]
    assert (theirs[-1].event, theirs[-1].json()["content"]) == ("run.completed", "one two three")


# --- who reads


@both_modes
async def test_a_run_goes_on_while_somebody_reads_it(gateway: Gateways, *, stream: bool) -> None:
    held = Held()
    async with gateway(ScriptedModel(tool_calls(("held", {})), "Done."), [held.tool]) as client:
        asking = asyncio.create_task(ask(client, stream=stream))
        await held.begun()
        run_id = await newest(client)
        async with following(client, run_id) as second:
            await hung_up(asking)
            going = (await client.get(f"/runs/{run_id}")).json()
            held.let_go.set()
            seen = await second.rest()

    assert (going["status"], held.cancelled) == ("running", 0)
    assert (name_of(seen[-1]), data_of(seen[-1])["content"]) == ("run.completed", "Done.")


@both_modes
async def test_a_run_ends_when_its_last_reader_leaves(gateway: Gateways, *, stream: bool) -> None:
    held = Held()
    async with gateway(ScriptedModel(tool_calls(("held", {})), "Done."), [held.tool]) as client:
        asking = asyncio.create_task(ask(client, stream=stream))
        await held.begun()
        run_id = await newest(client)
        async with following(client, run_id), following(client, run_id):
            await hung_up(asking)
        run = await ended(client, run_id)
        seen = await read(client, run_id)

    assert (run["status"], held.cancelled) == ("cancelled", 1)
    assert name_of(seen[-1]) == "run.cancelled"


@every_door
async def test_a_reader_who_comes_back_and_waits_hears_that_the_line_is_alive(gateway: Gateways, door: Door) -> None:
    reply = Hesitant("Hi")
    settings = {"stream": {"commit_after": 0, "heartbeat": 0.001}}
    async with gateway(ScriptedModel(reply), settings=settings) as client:
        run_id = await begun_and_left(client, door, reply.asked.wait)
        async with following(client, run_id, 2) as reader:
            await reader.until(lambda text: text.count(PING) >= 3)
            assert reader.events == []
            reply.go_on.set()
            seen = await reader.rest()

    assert name_of(seen[-1]) == "run.completed"


@both_modes
async def test_the_problem_of_a_run_is_the_same_for_every_reader(gateway: Gateways, *, stream: bool) -> None:
    reply = Hesitant(Cut("Half a", BROKEN))
    async with gateway(ScriptedModel(reply), settings=AT_ONCE) as client:
        asking = asyncio.create_task(ask(client, stream=stream))
        await reply.asked.wait()
        run_id = await newest(client)
        async with following(client, run_id, 2) as live:
            reply.go_on.set()
            caller, seen = await asking, await live.rest()
        again = await read(client, run_id)
        told = (await client.get(f"/runs/{run_id}")).json()["problem"]

    assert seen == again[2:]
    assert name_of(seen[-1]) == "run.failed"
    assert caller.document == data_of(seen[-1]) == told
    assert (told["status"], told["code"], told["request_id"]) == (502, "tired", caller.headers["x-request-id"])
