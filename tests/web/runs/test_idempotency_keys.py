"""What an `Idempotency-Key` may be, what uses it up, and how long it is kept."""

from __future__ import annotations

import asyncio
import signal
import string

import httpx
import pytest

from app.providers.scripted import ScriptedModel, tool_calls
from tests.support.chunks import completion, text_stream
from tests.support.gates import PATIENCE
from tests.support.gateway_process import running_gateway
from tests.support.hesitant import Hesitant
from tests.support.model_server import Answer, ModelServer
from tests.support.modes import both_modes
from tests.support.tools import Held, echo
from tests.support.web import ENDPOINTS, ask
from tests.web.runs.asking import AT_ONCE, each_way, listening, replayed, send
from tests.web.runs.conftest import Gateways

# --- what it may be


@both_modes
@pytest.mark.parametrize(
    "keys",
    [
        [b""],
        [b"   "],
        [b"k" * 256],
        ["schlüssel".encode()],
        [b"schl\xfcssel"],
        [b"two words"],
        [b"a\tb"],
        [b"a\x07b"],
        [b"a\x7fb"],
        [b"one", b"two"],
        [b"one", b"one"],
    ],
    ids=repr,
)
async def test_a_key_that_cannot_be_used_is_refused_and_nothing_is_run(
    gateway: Gateways, keys: list[bytes], *, stream: bool
) -> None:
    model = ScriptedModel()
    async with gateway(model) as client:
        response = await client.post(
            ENDPOINTS[stream], json={"message": "Hello"}, headers=[(b"Idempotency-Key", key) for key in keys]
        )
        runs = (await client.get("/runs")).json()["runs"]

    problem = response.json()
    assert (response.status_code, problem["type"]) == (422, "urn:advisor-gateway:parameter-invalid")
    for told in ("Idempotency-Key", "one text", "1 to 255 visible ASCII characters", "UUID"):
        assert told in problem["detail"]
    assert (model.prompts, runs) == ([], [])


@both_modes
@pytest.mark.parametrize("key", ["0", "k" * 255, string.punctuation, string.digits + string.ascii_letters])
async def test_a_key_is_any_visible_ascii_text(gateway: Gateways, key: str, *, stream: bool) -> None:
    model = ScriptedModel("Hi")
    async with gateway(model) as client:
        replies = [await send(client, stream=stream, key=key) for _ in range(2)]

    assert [(reply.status, replayed(reply.headers)) for reply in replies] == [(200, None), (200, "true")]
    assert len(model.prompts) == 1


# --- what uses it up


@both_modes
async def test_a_request_refused_for_its_body_uses_no_key_up(gateway: Gateways, *, stream: bool) -> None:
    model = ScriptedModel("Hi")
    async with gateway(model) as client:
        refused = [
            await send(client, stream=stream, key="k", tools=["nope"]),
            await send(client, stream=stream, key="k", when_busy="later"),
        ]
        answer = await send(client, stream=stream, key="k")

    assert [reply.status for reply in refused] == [422, 422]
    assert (answer.status, answer.document["content"], replayed(answer.headers)) == (200, "Hi", None)


@both_modes
async def test_a_request_refused_by_a_busy_conversation_uses_no_key_up(gateway: Gateways, *, stream: bool) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply, "Hi")) as client:
        asking = asyncio.create_task(ask(client, stream=stream, conversation_id="c"))
        await reply.asked.wait()
        refused = await send(client, stream=stream, key="k", conversation_id="c")
        reply.go_on.set()
        await asking
        answer = await send(client, stream=stream, key="k", conversation_id="c")

    assert (refused.status, replayed(refused.headers)) == (409, None)
    assert (answer.status, answer.document["content"], replayed(answer.headers)) == (200, "Hi", None)


@both_modes
async def test_a_request_refused_by_a_full_gateway_uses_no_key_up(single_gateway: Gateways, *, stream: bool) -> None:
    reply = Hesitant()
    async with single_gateway(ScriptedModel(reply, "Hi"), settings={"runs": {"max_active": 1}}) as client:
        asking = asyncio.create_task(ask(client, stream=stream))
        await reply.asked.wait()
        refused = await send(client, stream=stream, key="k")
        reply.go_on.set()
        await asking
        answer = await send(client, stream=stream, key="k")

    assert (refused.status, replayed(refused.headers)) == (503, None)
    assert (answer.status, answer.document["content"], replayed(answer.headers)) == (200, "Hi", None)


@each_way
async def test_a_run_is_joined_where_a_new_one_would_be_refused(gateway: Gateways, *, first: bool, then: bool) -> None:
    reply = Hesitant()
    settings = {"runs": {"max_active": 1}, "stream": AT_ONCE}
    async with gateway(ScriptedModel(reply), settings=settings) as client:
        asking = asyncio.create_task(send(client, stream=first, key="k", conversation_id="c"))
        await reply.asked.wait()
        joining = asyncio.create_task(send(client, stream=then, key="k", conversation_id="c"))
        async with listening(client, key="k", conversation_id="c") as witness:
            reply.go_on.set()
            one, other = await asking, await joining
            await witness.end()

    assert (other.status, replayed(other.headers)) == (200, "true")
    assert other.document == one.document


@each_way
async def test_a_run_that_cancels_those_before_it_is_not_cancelled_by_its_own_key(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    reply = Hesitant()
    body = {"conversation_id": "c", "when_busy": "cancel_previous"}
    async with gateway(ScriptedModel(reply), settings={"stream": AT_ONCE}) as client:
        asking = asyncio.create_task(send(client, stream=first, key="k", **body))
        await reply.asked.wait()
        joining = asyncio.create_task(send(client, stream=then, key="k", **body))
        async with listening(client, key="k", **body):
            reply.go_on.set()
            one, other = await asking, await joining

    assert [reply.document["content"] for reply in (one, other)] == ["At last."] * 2


@pytest.mark.server
@both_modes
async def test_a_gateway_on_its_way_out_still_gives_the_runs_it_has(*, stream: bool) -> None:
    go_on = asyncio.Event()
    body = text_stream("Hi") if stream else completion("Hi")
    media_type = "text/event-stream" if stream else "application/json"
    async with ModelServer() as server:
        server.will(Answer(go_on, body, content_type=media_type))
        settings = {"GATEWAY_MODEL__BASE_URL": server.base_url, "GATEWAY_MODEL__NAME": "m"}
        with running_gateway(settings | {"GATEWAY_SERVER__DRAIN": "60"}) as process:
            async with httpx.AsyncClient(base_url=process.url, timeout=60, trust_env=False) as client:
                asking = asyncio.create_task(send(client, stream=stream, key="k"))
                await server.request()
                process.signal(signal.SIGTERM)
                while (await client.get("/readyz")).status_code == httpx.codes.OK:
                    pass
                refused = await send(client, stream=stream, key="new")
                async with listening(client, key="k") as joined:
                    go_on.set()
                    await joined.end()
                answer = await asking
            code = process.wait()
            log = process.log

    assert (refused.status, refused.document["type"]) == (503, "urn:advisor-gateway:shutting-down")
    assert (answer.status, answer.document["content"]) == (200, "Hi")
    assert (joined.status, replayed(joined.headers)) == (200, "true")
    assert (joined.events[-1].name, joined.events[-1].data["id"]) == ("run.completed", answer.document["id"])
    assert (code, len(server.exchanges)) == (0, 1), log


# --- how long it is kept


@both_modes
async def test_a_key_is_free_again_when_its_run_is_no_longer_kept(gateway: Gateways, *, stream: bool) -> None:
    model, tool = ScriptedModel(tool_calls(("echo", {})), "1", tool_calls(("echo", {})), "2"), echo()
    async with gateway(model, [tool], settings={"runs": {"keep": 0}}) as client:
        one = await send(client, "One", stream=stream, key="k")
        await forgotten(client, one.document["id"])
        other = await send(client, "Two", stream=stream, key="k")

    assert [reply.document["content"] for reply in (one, other)] == ["1", "2"]
    assert [replayed(reply.headers) for reply in (one, other)] == [None, None]
    assert len(tool.asked) == 2


@both_modes
async def test_the_key_of_the_run_that_ended_first_is_free_when_too_many_are_kept(
    lone_gateway: Gateways, *, stream: bool
) -> None:
    reply = Hesitant("1")
    async with lone_gateway(ScriptedModel(reply, "2", "3", "4"), settings={"runs": {"max_kept": 2}}) as client:
        asking = asyncio.create_task(send(client, "1", stream=stream, key="k1"))
        await reply.asked.wait()
        second = await send(client, "2", stream=stream, key="k2")
        reply.go_on.set()
        await asking
        await send(client, "3", stream=stream, key="k3")
        await forgotten(client, second.document["id"])
        kept = [await send(client, message, stream=stream, key=f"k{message}") for message in ("1", "3")]
        again = await send(client, "2", stream=stream, key="k2")

    assert [(reply.document["content"], replayed(reply.headers)) for reply in kept] == [("1", "true"), ("3", "true")]
    assert (again.document["content"], replayed(again.headers)) == ("4", None)


@each_way
async def test_a_run_that_is_going_is_joined_though_none_is_kept_after_its_end(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    reply = Hesitant()
    settings = {"runs": {"keep": 0, "max_kept": 0}, "stream": AT_ONCE}
    async with gateway(ScriptedModel(reply), settings=settings) as client:
        asking = asyncio.create_task(send(client, stream=first, key="k"))
        await reply.asked.wait()
        joining = asyncio.create_task(send(client, stream=then, key="k"))
        async with listening(client, key="k") as witness:
            for _ in range(10):  # the other one, who came first, has joined by then too
                await client.get("/runs")
            reply.go_on.set()
            replies = await asking, await joining
            last = await witness.end()

    assert [reply.document["content"] for reply in replies] == ["At last."] * 2
    assert last.data["content"] == "At last."


# --- runs whose first events fell out of the journal


@both_modes
async def test_a_stream_whose_first_events_are_no_longer_kept_is_gone_and_its_answer_is_there(
    gateway: Gateways, *, stream: bool
) -> None:
    model = ScriptedModel("Hi")
    async with gateway(model, settings={"runs": {"max_events": 2}}) as client:
        one = await send(client, stream=False, key="k")
        again = await send(client, stream=stream, key="k")
        answer = await client.get(f"/runs/{one.document['id']}")

    assert len(model.prompts) == 1
    assert answer.json()["answer"] == one.document
    if stream:
        assert (again.status, again.document["type"]) == (410, "urn:advisor-gateway:events-gone")
        assert again.document["first"] == 3
    else:
        assert (again.status, again.document) == (200, one.document)


async def test_one_who_cannot_join_disturbs_nobody(single_gateway: Gateways) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {})), "Done.")
    async with single_gateway(model, [held.tool], settings={"runs": {"max_events": 1}}) as client:
        asking = asyncio.create_task(send(client, stream=False, key="k"))
        await held.begun()
        late = [await send(client, stream=True, key="k") for _ in range(2)]
        held.let_go.set()
        answer = await asking

    assert [reply.status for reply in late] == [410, 410]
    assert (answer.status, answer.document["content"], len(held.tool.asked)) == (200, "Done.", 1)


async def forgotten(client: httpx.AsyncClient, run_id: str) -> None:
    """Wait until a run is no longer kept."""
    async with asyncio.timeout(PATIENCE):
        while (await client.get(f"/runs/{run_id}")).status_code != httpx.codes.GONE:
            pass
