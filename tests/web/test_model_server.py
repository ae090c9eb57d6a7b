"""What a model server sees of a caller who hangs up at the gateway, or cancels: its own connection closed, at once."""

from __future__ import annotations

import asyncio
import json

import pytest

from app.main import create_app
from app.settings import Settings
from tests.support.chunks import call, calls, chunk, completion, event, text_stream
from tests.support.chunks import stream as stream_of
from tests.support.gates import PATIENCE
from tests.support.model_server import HANG, Answer, Exchange, ModelServer, Step
from tests.support.modes import both_modes
from tests.support.served import Connection, served
from tests.support.tools import Held, echo
from tests.support.web import ENDPOINTS, ask, reply_of, serving

pytestmark = pytest.mark.server

HELLO = json.dumps({"message": "Hello"}).encode()
AT_ONCE = 1.0
"""Seconds within which the model server has to see that nobody wants its answer any more."""
PHASES: dict[str, tuple[bytes | Step, ...]] = {
    "before the head": (HANG,),
    "behind the head": (b"", HANG),
    "in the body": (event(chunk({"content": "a"})), HANG),
    "in arguments": (event(calls(call("look", '{"where": "fa', call_id="c1"))), HANG),
    "in silence": (event(chunk({"content": "a"})), b": still here\n\n", HANG),
}


def settings_for(server: ModelServer, **sections: object) -> Settings:
    return Settings(**{"model": {"base_url": server.base_url}, "retry": {"attempts": 1}, **sections})


@both_modes
@pytest.mark.fault("D03", "D07")
@pytest.mark.parametrize("phase", PHASES)
async def test_a_caller_who_hangs_up_ends_the_model_servers_work_at_once(phase: str, *, stream: bool) -> None:
    async with ModelServer() as server, served(create_app(settings_for(server), tools=[])) as address:
        server.will(Answer(*PHASES[phase]))
        async with Connection(address) as line:
            line.post(ENDPOINTS[stream], HELLO)
            async with asyncio.timeout(PATIENCE):
                exchange = await server.request()
                if phase != "before the head":
                    await exchange.told.wait()
            line.hang_up()
            async with asyncio.timeout(AT_ONCE):
                await exchange.gone.wait()
                await server.until(lambda: server.open_connections == 0)


@both_modes
@pytest.mark.parametrize("phase", PHASES)
async def test_a_run_that_is_cancelled_ends_the_model_servers_work_at_once(phase: str, *, stream: bool) -> None:
    async with ModelServer() as server, serving(create_app(settings_for(server), tools=[])) as client:
        server.will(Answer(*PHASES[phase]))
        asking = asyncio.create_task(ask(client, stream=stream))
        async with asyncio.timeout(PATIENCE):
            exchange = await server.request()
            if phase != "before the head":
                await exchange.told.wait()
        [run] = (await client.get("/runs")).json()["runs"]
        await client.post(f"/runs/{run['id']}/cancel")
        async with asyncio.timeout(AT_ONCE):
            await exchange.gone.wait()
            await server.until(lambda: server.open_connections == 0)
        reply = await asking

    assert (reply.status, reply.document["finish_reason"]) == (200, "cancelled")


def asking_for_tools(exchange: Exchange) -> Answer:
    """Two calls, whole or as a stream, as the request wants it."""
    made = [call("held", "{}", call_id="c1"), call("later", "{}", call_id="c2", index=1)]
    if exchange.body.get("stream"):
        return Answer(stream_of(calls(*made), chunk(finish="tool_calls")))
    return Answer.json(completion({"role": "assistant", "content": None, "tool_calls": made}, "tool_calls"))


@both_modes
@pytest.mark.fault("D03")
async def test_a_caller_who_hangs_up_during_a_tool_ends_it_at_once_and_nothing_more_is_called(*, stream: bool) -> None:
    held, later = Held(sequential=True), echo("later")
    async with ModelServer() as server:
        server.will(asking_for_tools)
        async with served(create_app(settings_for(server), tools=[held.tool, later])) as address:
            async with Connection(address) as line:
                line.post(ENDPOINTS[stream], HELLO)
                await held.begun()
            async with asyncio.timeout(AT_ONCE):
                await held.ended.wait()

        # Here the gateway has ended, and whatever it might still have asked for has been asked.
        assert len(server.exchanges) == 1
    assert held.cancelled == 1
    assert later.asked == []


@both_modes
async def test_a_run_out_of_time_ends_the_model_servers_work_at_once(*, stream: bool) -> None:
    async with ModelServer() as server:
        server.will(Answer(event(chunk({"content": "a"})), HANG))
        async with serving(create_app(settings_for(server, runs={"deadline": 0.2}), tools=[])) as client:
            async with asyncio.timeout(PATIENCE):
                reply = reply_of(await client.post(ENDPOINTS[stream], json={"message": "Hello"}))
            async with asyncio.timeout(AT_ONCE):
                await server.exchanges[0].gone.wait()

    assert (reply.status, reply.document["finish_reason"]) == (200, "deadline")
    assert reply.document["content"] == ("a" if stream else "")


@both_modes
@pytest.mark.parametrize(
    ("caps", "word"), [({"max_event_bytes": 500}, "an event"), ({"max_answer_bytes": 500}, "an answer")]
)
async def test_answers_larger_than_the_caps_of_the_settings_are_refused(
    caps: dict[str, int], word: str, *, stream: bool
) -> None:
    async with ModelServer() as server:
        server.will(Answer(text_stream("x" * 2000)))
        settings = settings_for(server, model={"base_url": server.base_url, **caps})
        async with serving(create_app(settings, tools=[])) as client:
            reply = reply_of(await client.post(ENDPOINTS[stream], json={"message": "Hello"}))

    assert reply.document["type"] == "urn:advisor-gateway:model-protocol-error"
    assert reply.document["code"] == "too_large"
    assert reply.document["detail"].startswith(f"The model server sent {word} larger than the 500 bytes")


@both_modes
@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"message": "Long.", "type": "exceed_context_size_error", "code": 400}, "context-length-exceeded"),
        ({"message": "No.", "code": "content_filter"}, "content-refused"),
        ({"message": "Incorrect API key provided.", "code": 401}, "model-authentication-failed"),
        ({"message": "The model q does not exist.", "code": 404}, "model-not-found"),
        ({"message": "Pay.", "type": "insufficient_quota", "code": 429}, "model-quota-exceeded"),
    ],
)
@pytest.mark.parametrize("within", [False, True], ids=["a status", "within an answer"])
@pytest.mark.fault("U38", "S10")
async def test_what_a_request_is_refused_for_is_the_type_of_the_problem(
    body: dict[str, object], name: str, *, within: bool, stream: bool
) -> None:
    code = body["code"]
    status = code if isinstance(code, int) else 400
    async with ModelServer() as server:
        server.will(Answer(event({"error": body})) if within else Answer.json({"error": body}, status=status))
        async with serving(create_app(settings_for(server), tools=[])) as client:
            reply = reply_of(await client.post(ENDPOINTS[stream], json={"message": "Hello"}))

    assert reply.document["type"] == f"urn:advisor-gateway:{name}"
    assert reply.status == reply.document["status"] == (429 if "quota" in name else 502)
    assert str(body["message"]).rstrip(".") in reply.document["detail"]
