"""Each body of the table through a whole gateway with a model server on loopback behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.chat import Tool, ToolDefinition
from app.tooling import ToolCallback
from app.web.answers import usage_document
from tests.support.bodies import Body, all_bodies, parameters, value_of
from tests.support.chunks import chunk, event, text_stream
from tests.support.gates import PATIENCE
from tests.support.model_server import HANG, Answer, ModelServer
from tests.support.modes import both_modes
from tests.support.web import Reply, ask, gateway

pytestmark = pytest.mark.server

ALL = list(all_bodies())
THEN = "Anything else?"


class Watched:
    """Tools of these names, that take any object, and what they were asked."""

    def __init__(self, names: Iterable[str]) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.tools = [self._tool(name) for name in dict.fromkeys(names)]

    def _tool(self, name: str) -> Tool:
        async def take_note(arguments: dict[str, Any]) -> str:
            self.asked.append((name, arguments))
            return "noted"

        return ToolCallback.from_definition(ToolDefinition(name, "Take note.", {"type": "object"}), take_note)


@asynccontextmanager
async def before(server: ModelServer, *tools: Tool) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway with the server as its model. It has one connection: one that is not given back is missed at once."""
    model = {"base_url": server.base_url, "name": "probe", "max_connections": 1, "max_event_bytes": 350_000}
    once = {"attempts": 1}  # else failures would be waited out
    async with gateway(tools=tools, settings={"model": model, "retry": once}) as client:
        yield client


def answer(body: Body) -> Answer:
    """The body as a server sends it."""
    whole = body.content_type == "application/json"
    return Answer(body.data, content_type=body.content_type, framing="length" if whole else "chunked")


async def turn(client: httpx.AsyncClient, message: str, *, stream: bool, **body: Any) -> Reply:
    async with asyncio.timeout(PATIENCE):
        return await ask(client, message, stream=stream, **body)


@both_modes
@pytest.mark.parametrize("body", parameters(ALL))
async def test_a_body_becomes_the_answer_or_the_problem_that_is_in_it(body: Body, stream: bool) -> None:
    async with ModelServer() as server:
        server.always(answer(body))
        async with before(server) as client:
            reply = await turn(client, "How late?", stream=stream, conversation_id="c", tool_calling=False)
            assert server.exchanges[0].body["stream"] is stream
            if body.failure:
                _assert_problem(reply, body)
            else:
                _assert_answer(reply, body)
            if reply.events:
                _assert_told(reply, body)

            server.always(Answer(text_stream("No.")))
            after = await turn(client, THEN, stream=stream, conversation_id="c")

            assert after.document["content"] == "No."
            sent = server.exchanges[-1].body["messages"]
            assert sent[-1] == {"role": "user", "content": THEN}
            if body.failure or not (body.content or body.refusal):
                assert len(sent) == 1, "nothing of a turn without an answer is remembered"
            elif not body.calls:
                assert [one["role"] for one in sent] == ["user", "assistant", "user"]
                assert sent[1]["content"] == body.content
        await asyncio.wait_for(server.until(lambda: server.open_connections == 0), PATIENCE)


@both_modes
@pytest.mark.parametrize("body", parameters([one for one in ALL if one.calls]))
async def test_calls_that_came_whole_are_run_and_no_others(body: Body, stream: bool) -> None:
    watched = Watched(name for name, _, _ in body.calls)
    async with ModelServer() as server:
        rounds = 0

        def in_turn(_: Any) -> Answer:
            nonlocal rounds
            rounds += 1
            return answer(body) if rounds == 1 or body.failure else Answer(text_stream("Done."))

        server.always(in_turn)
        async with before(server, *watched.tools) as client:
            reply = await turn(client, "How late?", stream=stream)

    assert sorted(watched.asked, key=repr) == sorted(body.executable, key=repr)
    if body.executable:
        results = [(run["name"], run["result"]) for run in reply.document["tool_runs"]]
        assert results == [(name, "noted") for name, _, _ in body.calls]
        ids = [call["id"] for call in server.exchanges[1].body["messages"][-1 - len(results)]["tool_calls"]]
        assert ids == [one["tool_call_id"] for one in server.exchanges[1].body["messages"][-len(results) :]]
        assert len(set(ids)) == len(ids)


@both_modes
@pytest.mark.fault("U38", "D08")
@pytest.mark.parametrize(
    "last",
    [
        pytest.param(event({"error": {"message": "engine lost"}}), id="an error"),
        pytest.param(b"data: {oops\n\n", id="a broken chunk"),
        pytest.param(event(chunk({"content": 5})), id="content that is none"),
        pytest.param(b"data: " + b"x" * 400_000, id="an event that is too large"),
    ],
)
async def test_a_server_that_goes_on_after_its_failure_is_left_at_once(last: bytes, stream: bool) -> None:
    async with ModelServer() as server:
        server.always(Answer(event(chunk({"content": "The li"})), last, HANG))
        async with before(server) as client:
            reply = await turn(client, "How late?", stream=stream)
            assert reply.document["type"].startswith("urn:advisor-gateway:model-")

            await asyncio.wait_for(server.exchanges[0].gone.wait(), PATIENCE)
            await asyncio.wait_for(server.until(lambda: server.open_connections == 0), PATIENCE)


def _assert_problem(reply: Reply, body: Body) -> None:
    assert body.failure is not None
    problem = reply.document
    kind = problem["type"].removeprefix("urn:advisor-gateway:")
    if body.failure.kind is None:
        assert kind.startswith("model-")
        assert kind != "model-protocol-error"
    else:
        assert kind == body.failure.kind
    assert problem.get("code") == body.failure.code
    assert body.failure.said in problem["detail"]
    assert problem["status"] >= 400
    if reply.events:
        assert reply.names[-1] == "run.failed"
    else:
        assert reply.status == problem["status"]
        assert reply.headers["content-type"] == "application/problem+json"


def _assert_answer(reply: Reply, body: Body) -> None:
    document = reply.document
    assert reply.status == 200
    assert (document["content"], document["reasoning"], document["refusal"]) == (
        body.content,
        body.reasoning,
        body.refusal,
    )
    assert (document["finish_reason"], document["usage"]) == (body.finish, usage_document(body.usage))
    calls = document["tool_calls"]
    assert [(call["name"], value_of(call["arguments"])) for call in calls] == [
        (name, value_of(arguments)) for name, arguments, _ in body.calls
    ]
    for call, (_, _, call_id) in zip(calls, body.calls, strict=True):
        assert call["id"] == (call_id or call["id"]) != ""


def _assert_told(reply: Reply, body: Body) -> None:
    """What the events said before the last one."""
    assert "".join(data["text"] for data in reply.of("text.delta")) == body.content
    assert "".join(data["text"] for data in reply.of("reasoning.delta")) == (body.reasoning or "")
    ready = [(data["name"], value_of(data["arguments"])) for data in reply.of("tool_call.ready")]
    assert ready == (body.executable or ready if body.finish == "tool_calls" and not body.failure else [])
    told = [(data["name"], data["call_id"]) for data in reply.of("tool_call.started")]
    assert [name for name, _ in told] == [name for name, _, _ in body.calls]
