"""A request with an `Idempotency-Key` is done once, however often and by whichever endpoint it is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.chat import AssistantMessage, ModelUnavailable
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import Held, echo
from tests.support.web import ENDPOINTS, events_in
from tests.web.runs.asking import AT_ONCE, each_way, keyed, leave, listening, replayed, send
from tests.web.runs.conftest import Gateways

LOOK = tool_calls(("echo", {"at": "it"}), content="Let me see.")
ANSWER = AssistantMessage("It is so.", reasoning="Is it?")


# --- joining


@each_way
async def test_a_request_sent_again_while_its_run_is_going_joins_it(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {}), content="Let me see."), ANSWER)
    async with gateway(model, [held.tool], settings={"stream": AT_ONCE}) as client:
        asking = asyncio.create_task(send(client, stream=first, key="k"))
        await held.begun()
        joining = asyncio.create_task(send(client, stream=then, key="k"))
        async with listening(client, key="k") as witness:  # what was sent before it has joined as well
            held.let_go.set()
            one, other = await asking, await joining
            await witness.end()

    assert (one.status, replayed(one.headers)) == (200, None)
    assert (other.status, replayed(other.headers), replayed(witness.headers)) == (200, "true", "true")
    assert other.document == one.document
    assert one.events == (witness.events if first else ())
    assert other.events == (witness.events if then else ())
    assert (len(model.prompts), len(held.tool.asked)) == (2, 1)


@each_way
async def test_a_request_sent_again_after_its_end_has_the_same_answer_and_the_same_events(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    model, tool = ScriptedModel(LOOK, ANSWER), echo()
    async with gateway(model, [tool]) as client:
        one = await send(client, stream=first, key="k", conversation_id="c")
        again = [await send(client, stream=then, key="k", conversation_id="c") for _ in range(2)]
        events = (await client.get(f"/runs/{one.document['id']}/events")).text.removeprefix("retry: 1000\n")

    assert [replayed(reply.headers) for reply in (one, *again)] == [None, "true", "true"]
    assert [reply.document for reply in again] == [one.document] * 2
    assert list(one.events) == (events_in(events) if first else [])
    assert [list(reply.events) for reply in again] == [events_in(events) if then else []] * 2
    assert (len(model.prompts), len(tool.asked)) == (2, 1)


@pytest.mark.parametrize("count", [2, 10])
@pytest.mark.parametrize("modes", [[False], [True], [False, True], [True, False]], ids=str)
async def test_requests_sent_at_once_are_one_run(gateway: Gateways, *, modes: list[bool], count: int) -> None:
    model, tool = ScriptedModel(LOOK, ANSWER), echo()
    async with gateway(model, [tool]) as client:
        replies = await asyncio.gather(
            *[
                send(client, stream=modes[number % len(modes)], key="k", conversation_id="c", when_busy="reject")
                for number in range(count)
            ]
        )

    assert {reply.status for reply in replies} == {200}
    assert [replayed(reply.headers) for reply in replies].count(None) == 1
    assert all(reply.document == replies[0].document for reply in replies)
    streams = [reply.events for reply in replies if reply.events]
    assert all(events == streams[0] for events in streams)
    assert (len(model.prompts), len(tool.asked)) == (2, 1)


@both_modes
async def test_another_key_and_no_key_are_other_runs(gateway: Gateways, *, stream: bool) -> None:
    model = ScriptedModel("1", "2", "3", "4")
    async with gateway(model) as client:
        replies = [await send(client, stream=stream, key=key) for key in ("k", "K", None, None)]

    assert [reply.document["content"] for reply in replies] == ["1", "2", "3", "4"]
    assert [replayed(reply.headers) for reply in replies] == [None] * 4


async def test_a_background_run_is_found_by_its_key_while_it_goes_and_after_its_end(gateway: Gateways) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply)) as client:
        begun = await client.post("/chat", json={"message": "Hello", "background": True}, headers=keyed("k"))
        going = await client.post("/chat", json={"message": "Hello", "background": True}, headers=keyed("k"))
        reply.go_on.set()
        async with asyncio.timeout(PATIENCE):
            while (await client.get(begun.headers["location"])).json()["status"] == "running":
                pass
        ended = await client.post("/chat", json={"message": "Hello", "background": True}, headers=keyed("k"))

    assert [response.status_code for response in (begun, going, ended)] == [202] * 3
    assert [replayed(response.headers) for response in (begun, going, ended)] == [None, "true", "true"]
    assert begun.headers["location"] == going.headers["location"] == ended.headers["location"]
    assert (going.json()["status"], ended.json()["status"]) == ("running", "completed")
    assert ended.json()["answer"]["content"] == "At last."


# --- another body


OTHERS: list[dict[str, Any]] = [
    {"message": "Hello!"},
    {"message": None, "messages": [{"role": "user", "content": "Hello"}]},
    {"conversation_id": "d"},
    {"options": {"temperature": 0.5}},
    {"tools": []},
    {"tool_context": {"user": 2}},
    {"tool_calling": False},
    {"when_busy": "queue"},
    {"on_disconnect": "continue"},
]


@both_modes
@pytest.mark.parametrize("other", OTHERS, ids=lambda other: next(reversed(other)))
async def test_another_body_with_the_key_is_refused_while_the_run_goes_and_after_its_end(
    gateway: Gateways, other: dict[str, Any], *, stream: bool
) -> None:
    reply, tool = Hesitant(), echo()
    model = ScriptedModel(reply)
    body: dict[str, Any] = {"message": "Hello", "conversation_id": "c", "tool_context": {"user": 1}}
    async with gateway(model, [tool], settings={"stream": AT_ONCE}) as client:
        asking = asyncio.create_task(send(client, stream=stream, key="k", **body))
        await reply.asked.wait()
        going = [await send(client, stream=way, key="k", **{**body, **other}) for way in ENDPOINTS]
        reply.go_on.set()
        answer = await asking
        ended = [await send(client, stream=way, key="k", **{**body, **other}) for way in ENDPOINTS]

    for refused in (*going, *ended):
        assert refused.status == 422
        assert refused.document["type"] == "urn:advisor-gateway:idempotency-key-reused"
        assert "new key" in refused.document["detail"]
        assert replayed(refused.headers) is None
    assert (answer.status, answer.document["content"], len(model.prompts)) == (200, "At last.", 1)


@each_way
async def test_of_two_bodies_sent_at_once_with_one_key_one_is_done(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    model = ScriptedModel("Hi")
    async with gateway(model) as client:
        replies = await asyncio.gather(
            *[send(client, message, stream=stream, key="k") for message, stream in (("One", first), ("Two", then))]
        )

    assert sorted(reply.status for reply in replies) == [200, 422]
    assert len(model.prompts) == 1


@both_modes
async def test_the_order_of_the_fields_and_white_space_make_no_other_body(gateway: Gateways, *, stream: bool) -> None:
    model = ScriptedModel("Hi")
    bodies = [
        '{"message": "Gr\\u00fc\\u00dfe", "options": {"seed": 1, "top_p": 1}, "tool_context": {"a": {"b": 1, "c": 2}}}',
        '{"tool_context":{"a":{"c":2,"b":1}},\n "options":{"top_p":1,"seed":1},"message":"Grüße"}',
    ]
    async with gateway(model) as client:
        responses = [await client.post(ENDPOINTS[stream], content=body.encode(), headers=keyed("k")) for body in bodies]

    assert [(response.status_code, replayed(response.headers)) for response in responses] == [
        (200, None),
        (200, "true"),
    ]
    assert len(model.prompts) == 1


# --- runs that did not get their answer


@each_way
async def test_a_failed_run_is_told_again_by_the_same_problem(gateway: Gateways, *, first: bool, then: bool) -> None:
    error = ModelUnavailable("the model server is tired", status=503, code="tired")
    model = ScriptedModel(error, Cut("Well,", error))
    async with gateway(model) as client:
        early = [await send(client, stream=stream, key="early") for stream in (first, then)]
        late = [await send(client, stream=stream, key="late") for stream in (first, then)]

    for one, again in (early, late):
        assert [replayed(reply.headers) for reply in (one, again)] == [None, "true"]
        assert again.document == one.document
        assert one.document["type"] == "urn:advisor-gateway:model-unavailable"
        assert one.document["request_id"] == one.headers["x-request-id"] != again.headers["x-request-id"]
    assert [reply.status for reply in early] == [502, 502]
    assert [reply.names[-1:] for reply in late] == [
        # What was not streamed to the first one is not there to be streamed: the model had said nothing.
        ["run.failed"] if stream and first else []
        for stream in (first, then)
    ]
    assert len(model.prompts) == 2


@both_modes
async def test_a_run_that_was_cancelled_is_not_done_again(gateway: Gateways, *, stream: bool) -> None:
    held = Held()
    async with gateway(ScriptedModel(tool_calls(("held", {}))), [held.tool]) as client:
        asking = asyncio.create_task(send(client, stream=stream, key="k"))
        await held.begun()
        [run] = (await client.get("/runs")).json()["runs"]
        await client.post(f"/runs/{run['id']}/cancel")
        again = await send(client, stream=stream, key="k")
        cancelled = await asking

    assert (cancelled.status, cancelled.document["finish_reason"]) == (200, "cancelled")
    assert (again.document, again.events) == (cancelled.document, cancelled.events)
    assert replayed(again.headers) == "true"
    assert len(held.tool.asked) == 1


@both_modes
@pytest.mark.parametrize(("asked_for", "status"), [("cancel", "cancelled"), ("continue", "stop")])
async def test_a_caller_who_left_and_asks_again_has_what_became_of_the_run(
    gateway: Gateways, asked_for: str, status: str, *, stream: bool
) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {})), "Done.")
    async with gateway(model, [held.tool]) as client:
        asking = asyncio.create_task(send(client, stream=stream, key="k", on_disconnect=asked_for))
        await held.begun()
        await leave(asking)
        if asked_for == "continue":
            held.let_go.set()
        async with asyncio.timeout(PATIENCE):
            await held.ended.wait()  # where runs are shared, others are asked first whether they read this one
        again = await send(client, stream=stream, key="k", on_disconnect=asked_for)

    assert (again.status, again.document["finish_reason"], replayed(again.headers)) == (200, status, "true")
    assert len(held.tool.asked) == 1


# --- readers


@each_way
async def test_the_run_goes_on_while_one_who_joined_is_there_though_the_first_has_left(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply), settings={"stream": AT_ONCE}) as client:
        asking = asyncio.create_task(send(client, stream=first, key="k"))
        await reply.asked.wait()
        joining = asyncio.create_task(send(client, stream=then, key="k"))
        async with listening(client, key="k"):
            await leave(asking)
        assert not reply.cancelled.is_set()
        reply.go_on.set()
        answer = await joining

    assert (answer.status, answer.document["content"]) == (200, "At last.")


@each_way
async def test_the_run_ends_when_the_last_of_its_callers_has_left(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply), settings={"stream": AT_ONCE}) as client:
        asking = asyncio.create_task(send(client, stream=first, key="k"))
        await reply.asked.wait()
        joining = asyncio.create_task(send(client, stream=then, key="k"))
        async with listening(client, key="k"):
            await leave(joining)
            await leave(asking)
            assert not reply.cancelled.is_set()
        async with asyncio.timeout(PATIENCE):
            await reply.cancelled.wait()
