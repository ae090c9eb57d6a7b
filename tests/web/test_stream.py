"""The stream, byte by byte: its form, when it begins, its silence, and its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx_sse
import pytest

from app.chat import AssistantMessage, ModelUnavailable, Prompt, ToolContext
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from app.web.event_documents import EVENTS
from app.web.sse import PING
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.tools import HandWrittenTool, Held, echo
from tests.support.web import ask, events_in, gateway

NO_WAITING = {"stream": {"commit_after": 0}}


async def writes(response: Any) -> AsyncIterator[str]:
    """Each write of the application."""
    async for chunk in response.aiter_raw():
        yield chunk.decode()


# --- form


@pytest.mark.fault("S07")
async def test_the_headers_tell_caches_and_proxies_to_pass_events_on_at_once() -> None:
    async with gateway(ScriptedModel("Hi")) as client:
        headers = (await ask(client, stream=True)).headers

    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in headers
    assert "content-length" not in headers


async def test_events_come_in_order_and_each_says_its_run_its_round_and_its_call() -> None:
    async def report(_: str, context: ToolContext) -> str:
        context.progress("half", current=1, total=2, data={"left": [1]})
        return "done"

    model = ScriptedModel(tool_calls(("report", {"n": 1}), content="Wait."), AssistantMessage("Ok.", reasoning="So."))
    async with gateway(model, [HandWrittenTool("report", report)]) as client:
        reply = await ask(client, stream=True)

    assert reply.names == [
        "run.started",
        "round.started",
        "text.delta",
        "tool_call.started",
        "tool_call.arguments",
        "tool_call.ready",
        "tool_call.progress",
        "tool_call.result",
        "round.completed",
        "round.started",
        "reasoning.delta",
        "text.delta",
        "round.completed",
        "run.completed",
    ]
    assert {event.data["run_id"] for event in reply.events} == {reply.document["id"]}
    assert [event.data.get("round") for event in reply.events] == [None, *[1] * 8, *[2] * 5]
    for event in reply.events:
        EVENTS[event.name].model_validate(event.data)
        if event.name.startswith("tool_call."):
            assert (event.data["call_id"], event.data["name"]) == ("call_1", "report")
    progress = {"message": "half", "current": 1, "total": 2, "data": {"left": [1]}}
    assert progress.items() <= reply.of("tool_call.progress")[0].items()
    assert reply.of("tool_call.ready")[0]["arguments"] == '{"n": 1}'


async def test_a_write_holds_whole_events_and_what_is_ready_shares_one() -> None:
    async with (
        gateway(ScriptedModel("one two three four five")) as client,
        client.stream("POST", "/chat/stream", json={"message": "Hello"}) as response,
    ):
        pieces = [events_in(text) async for text in writes(response)]

    assert all(pieces)
    assert len(pieces) < sum(map(len, pieces))
    assert [event.id for piece in pieces for event in piece] == list(range(1, 10))


@pytest.mark.fault("S03", "S05")
async def test_nothing_that_is_said_can_forge_an_event_or_break_a_line() -> None:
    forged = "x\n\nid: 9\nevent: run.completed\ndata: {}\n\n\r\r: c\u2028data: y\u2029\u0085"
    model = ScriptedModel(tool_calls((forged, {"a": forged}), content=forged), forged)
    async with gateway(model, [echo()]) as client:
        response = await client.post("/chat/stream", json={"message": forged})

    events = events_in(response.text)  # which takes nothing but whole events
    assert [event.name for event in events].count("run.completed") == 1
    assert events[-1].data["content"] == forged
    assert not set("\u2028\u2029\u0085\r") & set(response.text)


@pytest.mark.fault("S05")
async def test_a_reader_that_is_not_ours_sees_the_same_events() -> None:
    async with (
        gateway(ScriptedModel("A\u2028B\u0085C\nD")) as client,
        httpx_sse.aconnect_sse(client, "POST", "/chat/stream", json={"message": "Hello"}) as source,
    ):
        theirs = [(event.id, event.event, event.json()) async for event in source.aiter_sse()]

    assert [id_ for id_, _, _ in theirs] == [str(number) for number in range(1, len(theirs) + 1)]
    assert theirs[-1][1] == "run.completed"
    assert theirs[-1][2]["content"] == "A\u2028B\u0085C\nD"


# --- beginning


async def test_the_stream_begins_with_the_models_first_event() -> None:
    model, held = ScriptedModel(tool_calls(("held", {})), "Done."), Held()
    async with (
        gateway(model, [held.tool], settings={"stream": {"commit_after": PATIENCE}}) as client,
        client.stream("POST", "/chat/stream", json={"message": "Hello"}) as response,
    ):
        pieces = writes(response)
        names = [event.name for event in events_in(await anext(pieces))]
        assert names[:3] == ["run.started", "round.started", "tool_call.started"]
        held.let_go.set()
        assert "run.completed" in "".join([piece async for piece in pieces])


async def test_the_stream_begins_without_the_model_when_it_takes_its_time() -> None:
    reply = Hesitant()
    async with (
        gateway(ScriptedModel(reply), settings={"stream": {"commit_after": 0.001}}) as client,
        client.stream("POST", "/chat/stream", json={"message": "Hello"}) as response,
    ):
        assert response.status_code == 200
        pieces = writes(response)
        assert [event.name for event in events_in(await anext(pieces))] == ["run.started", "round.started"]
        reply.go_on.set()
        assert "run.completed" in "".join([piece async for piece in pieces])


@pytest.mark.fault("S01")
async def test_an_error_before_the_beginning_is_a_plain_one_and_afterwards_an_event_with_the_same_document() -> None:
    error = ModelUnavailable("the model server is tired", status=503, code="tired")
    async with gateway(ScriptedModel(error, Cut("Well,", error))) as client:
        before = await ask(client, stream=True)
        after = await ask(client, stream=True)
    hesitant = Hesitant(error)
    async with gateway(ScriptedModel(hesitant), settings=NO_WAITING) as client:
        asking = asyncio.create_task(ask(client, stream=True))
        await hesitant.asked.wait()
        hesitant.go_on.set()
        late = await asking

    assert (before.status, before.names) == (502, [])
    assert (after.status, after.names[-1]) == (200, "run.failed")
    assert (late.status, late.names) == (200, ["run.started", "round.started", "run.failed"])
    for reply in (before, after, late):
        assert reply.document.pop("request_id") == reply.headers["x-request-id"]
    assert before.document == after.document == late.document


# --- silence


@pytest.mark.fault("S06")
async def test_an_idle_stream_carries_comments_before_the_first_token_and_while_tools_run() -> None:
    first, held = Hesitant(), Held()

    async def ask_for_a_tool(_: Prompt) -> AssistantMessage:
        await first(_)
        return tool_calls(("held", {}))

    model = ScriptedModel(ask_for_a_tool, "Done.")
    settings = {"stream": {"commit_after": 0, "heartbeat": 0.001}}
    async with (
        gateway(model, [held.tool], settings=settings) as client,
        client.stream("POST", "/chat/stream", json={"message": "Hello"}) as response,
    ):
        pieces = writes(response)
        assert events_in(await anext(pieces))
        assert [await anext(pieces) for _ in range(3)] == [PING.decode()] * 3
        first.go_on.set()
        await held.begun()
        while "tool_call.ready" not in await anext(pieces):
            pass
        assert [await anext(pieces) for _ in range(3)] == [PING.decode()] * 3
        held.let_go.set()
        rest = "".join([piece async for piece in pieces])

    assert events_in(rest)[-1].name == "run.completed"
    assert not rest.endswith(PING.decode())


async def test_a_stream_that_is_never_idle_carries_no_comments() -> None:
    async with gateway(ScriptedModel("a " * 200), settings={"stream": {"heartbeat": PATIENCE}}) as client:
        assert ": ping" not in (await client.post("/chat/stream", json={"message": "Hello"})).text


async def test_the_heartbeat_can_be_switched_off() -> None:
    async with gateway(ScriptedModel("Hi"), settings={"stream": {"heartbeat": 0}}) as client:
        assert (await ask(client, stream=True)).document["content"] == "Hi"


# --- many loops


@pytest.mark.fault("K06")
def test_two_event_loops_serve_a_stream_each_and_one_after_the_other() -> None:
    async def talk() -> list[str]:
        async with gateway(ScriptedModel("Hi")) as client:
            return (await ask(client, stream=True)).names

    outcomes: list[list[str]] = []
    threads = [threading.Thread(target=lambda: outcomes.append(asyncio.run(talk()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes += [asyncio.run(talk()), asyncio.run(talk())]

    assert outcomes == [["run.started", "round.started", "text.delta", "round.completed", "run.completed"]] * 4
