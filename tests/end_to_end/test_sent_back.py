"""What a model server has to get back with the next request: over several rounds, in both modes, at both doors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.web.documents import AnswerDocument
from tests.support.chunks import calls, chunk, completion, stream, text_stream
from tests.support.gates import PATIENCE
from tests.support.model_server import Answer, ModelServer
from tests.support.modes import both_modes
from tests.support.tools import echo
from tests.support.web import Reply, ask, gateway

pytestmark = pytest.mark.server

SIGNED = {"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}}
DETAILS = [{"type": "reasoning.text", "text": "Hm.", "signature": "s"}]


@asynccontextmanager
async def before(server: ModelServer, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    model = {"base_url": server.base_url, "name": "probe", "api_key": "sk-harbour-4711", **settings.pop("model", {})}
    async with gateway(tools=[echo()], settings={"model": model, **settings}) as client, asyncio.timeout(PATIENCE):
        yield client


def round_with_a_call(number: int, *, streamed: bool, **extra: Any) -> Answer:
    """An answer that thinks and asks for one call, which has no id and fields of the server's own."""
    thought = {"reasoning_content": f"Thought {number}.", "reasoning_details": DETAILS}
    asked = {"function": {"name": "echo", "arguments": f'{{"n":{number}}}'}, **(extra or SIGNED)}
    if not streamed:
        return Answer.json(completion({"content": None, "tool_calls": [asked], **thought}, "tool_calls"))
    return Answer(stream(chunk(thought), calls({"index": 0, **asked}), chunk(finish="tool_calls")))


def last(*, streamed: bool) -> Answer:
    return Answer(text_stream("Done.")) if streamed else Answer.json(completion("Done."))


def sent_answers(server: ModelServer, request: int = -1) -> list[dict[str, Any]]:
    """The assistant messages of a request."""
    return [message for message in server.exchanges[request].body["messages"] if message["role"] == "assistant"]


def assert_sent_back(messages: list[dict[str, Any]], *, reasoning: bool = True) -> None:
    """Each message is as it came, with an id that its result has, too."""
    asked = [message for message in messages if message["role"] == "assistant" and "tool_calls" in message]
    results = [message for message in messages if message["role"] == "tool"]
    ids = [message["tool_calls"][0].pop("id") for message in asked]
    assert [message["tool_call_id"] for message in results] == ids
    assert len(set(ids)) == len(ids)
    assert all(ids)
    for number, message in enumerate(asked, 1):
        thought = {"reasoning_content": f"Thought {number}."} if reasoning else {}
        function = {"name": "echo", "arguments": f'{{"n":{number}}}'}
        assert message["tool_calls"] == [{**SIGNED, "type": "function", "function": function}]
        assert {name: message[name] for name in message if name == "reasoning_content"} == thought


@both_modes
@pytest.mark.parity(175, 176)
@pytest.mark.fault("M07", "U07")
async def test_over_several_rounds_everything_goes_back_as_it_came(stream: bool) -> None:
    async with ModelServer() as server, before(server) as client:
        server.will(*(round_with_a_call(n, streamed=stream) for n in (1, 2)), last(streamed=stream))
        reply = await ask(client, stream=stream)

    assert reply.document["content"] == "Done."
    assert [run["arguments"] for run in reply.document["tool_runs"]] == ['{"n":1}', '{"n":2}']
    assert [message["reasoning_details"] for message in sent_answers(server)] == [DETAILS, DETAILS]
    assert_sent_back(server.exchanges[-1].body["messages"])


@both_modes
@pytest.mark.parity(176)
async def test_a_remembered_conversation_keeps_what_belongs_to_its_calls(stream: bool) -> None:
    async with ModelServer() as server, before(server, memory={"inside_loop": True}) as client:
        server.will(round_with_a_call(1, streamed=stream), last(streamed=stream), last(streamed=stream))
        await ask(client, stream=stream, conversation_id="c")
        await ask(client, "And then?", stream=stream, conversation_id="c")

    assert_sent_back(server.exchanges[-1].body["messages"], reasoning=False)  # that was another turn


@both_modes
@pytest.mark.fault("M07")
async def test_a_profile_that_wants_all_reasoning_back_gets_that_of_earlier_turns(stream: bool) -> None:
    always = {"profile": {"name": "deepseek"}}
    async with ModelServer() as server, before(server, memory={"inside_loop": True}, model=always) as client:
        server.will(round_with_a_call(1, streamed=stream), last(streamed=stream), last(streamed=stream))
        await ask(client, stream=stream, conversation_id="c")
        await ask(client, "And then?", stream=stream, conversation_id="c")

    assert_sent_back(server.exchanges[-1].body["messages"])


async def driven(client: httpx.AsyncClient, *, stream: bool) -> Reply:
    """A caller's own loop: calls go back with their results until there are none."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    while True:
        reply = await ask(client, None, stream=stream, messages=messages, tool_calling=False)
        AnswerDocument.model_validate(reply.document)
        if reply.document["finish_reason"] != "tool_calls":
            return reply
        answered = {name: reply.document[name] for name in ("content", "reasoning", "tool_calls")}
        ran = await client.post("/tool-calls", json={"messages": [*messages, {"role": "assistant", **answered}]})
        assert ran.status_code == 200, ran.text
        messages = ran.json()["messages"]


@both_modes
@pytest.mark.parity(176)
@pytest.mark.fault("M07", "U07")
async def test_a_caller_who_drives_the_loop_sends_calls_back_as_they_came(stream: bool) -> None:
    async with ModelServer() as server, before(server) as client:
        server.will(*(round_with_a_call(n, streamed=stream) for n in (1, 2)), last(streamed=stream))
        reply = await driven(client, stream=stream)

    assert reply.document["content"] == "Done."
    assert_sent_back(server.exchanges[-1].body["messages"])


@both_modes
async def test_calls_to_which_the_server_added_nothing_are_flat_as_ever(stream: bool) -> None:
    plain = completion({"tool_calls": [{"id": "a", "type": "function", "function": {"name": "echo"}}]}, "tool_calls")
    async with ModelServer() as server, before(server) as client:
        server.will(Answer.json(plain))
        reply = await ask(client, stream=stream, tool_calling=False)

    assert reply.document["tool_calls"] == [{"id": "a", "name": "echo", "arguments": "{}"}]


@both_modes
async def test_what_a_server_adds_to_a_call_does_not_tell_the_key(stream: bool) -> None:
    echoing = {"debug": {"headers": ["Bearer sk-harbour-4711"], "retries": 0}}
    async with ModelServer() as server, before(server) as client:
        server.will(round_with_a_call(1, streamed=stream, **echoing))
        reply = await ask(client, stream=stream, tool_calling=False)

    [asked] = reply.document["tool_calls"]
    assert asked["extra"] == {"debug": {"headers": ["Bearer ***"], "retries": 0}}


@pytest.mark.parametrize("extra", [{"function": 3, "id": "other", "type": None}, {"function": {"name": "other"}}])
async def test_extra_fields_from_a_caller_do_not_change_the_call(extra: dict[str, Any]) -> None:
    asked = {"id": "a", "name": "echo", "arguments": "{}", "extra": extra}
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "a", "content": "{}"},
    ]
    async with ModelServer() as server, before(server) as client:
        server.will(last(streamed=False))
        await ask(client, None, stream=False, messages=messages)

    [sent] = sent_answers(server)
    assert sent["tool_calls"] == [{"id": "a", "type": "function", "function": {"name": "echo", "arguments": "{}"}}]


@both_modes
async def test_a_named_profile_and_its_flags_come_from_the_settings(stream: bool) -> None:
    profile = {"name": "mistral", "strict_tools": True, "unsent_options": ["top_p"], "refused_keywords": ["minimum"]}
    async with ModelServer() as server, before(server, model={"profile": profile}) as client:
        server.will(last(streamed=stream))
        await ask(client, stream=stream, options={"seed": 7, "top_p": 0.5, "temperature": 0.5})

    body = json.loads(server.exchanges[0].raw)
    assert (body["random_seed"], body["temperature"]) == (7, 0.5)
    assert not {"seed", "top_p", "stream_options"} & body.keys()
