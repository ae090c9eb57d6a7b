"""Model servers behind aliases as they are configured, on real sockets: who is asked, and what callers are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from app.chat import ConfigurationError
from app.main import create_app
from app.settings import Settings
from app.web.documents import ReadyDocument
from tests.support.chunks import completion, text_stream
from tests.support.gates import PATIENCE
from tests.support.model_server import BREAK, HANG, Answer, AnswerTo, Exchange, ModelServer
from tests.support.modes import both_modes
from tests.support.web import ask, gateway, serving

pytestmark = pytest.mark.server

NO_WAIT = {"base_delay": 0}
KEY = "sk-0123456789abcdef"


def saying(text: str) -> AnswerTo:
    """An answer in the mode it is asked for."""

    def answer(exchange: Exchange) -> Answer:
        if exchange.body.get("stream"):
            return Answer(text_stream(text))
        return Answer.json(completion(text))

    return answer


def failing(status: int = 503, **headers: str) -> Answer:
    """A refusal."""
    return Answer.json({"error": {"message": "not now"}}, status=status, **headers)


@asynccontextmanager
async def servers(count: int = 2) -> AsyncIterator[list[ModelServer]]:
    """Model servers; each says its place unless it was told otherwise."""
    async with AsyncExitStack() as running:
        started = [await running.enter_async_context(ModelServer()) for _ in range(count)]
        for number, server in enumerate(started, 1):
            server.always(saying(f"server {number}"))
        yield started


def targets(*of: ModelServer, **keys: Any) -> list[dict[str, Any]]:
    """The settings of an alias."""
    return [{"base_url": server.base_url, **keys} for server in of]


@both_modes
async def test_the_alias_of_a_request_chooses_the_server_and_each_hears_its_own_name(*, stream: bool) -> None:
    async with servers() as (one, two):
        models = {"fast": targets(one, name="qwen3-4b"), "good": targets(two)}
        async with gateway(settings={"models": models}) as client:
            fast = await ask(client, stream=stream)
            good = await ask(client, stream=stream, model="good")
            unknown = await ask(client, stream=stream, model="better")

    assert [fast.document["content"], good.document["content"]] == ["server 1", "server 2"]
    assert [one.exchanges[0].body["model"], two.exchanges[0].body["model"]] == ["qwen3-4b", "good"]
    assert unknown.status == 422
    assert unknown.document["errors"] == [
        {"loc": ["model"], "message": "unknown model 'better'; known: 'fast', 'good'"}
    ]


@both_modes
async def test_the_model_section_stays_the_default_beside_aliases(*, stream: bool) -> None:
    async with servers() as (one, two):
        settings = {"model": {"base_url": one.base_url, "name": "home"}, "models": {"fast": targets(two)}}
        async with gateway(settings=settings) as client:
            replies = [
                await ask(client, stream=stream, **asked) for asked in ({}, {"model": "home"}, {"model": "fast"})
            ]

    assert [reply.document["content"] for reply in replies] == ["server 1", "server 1", "server 2"]
    assert [reply.document["rounds"][0].get("target") for reply in replies] == [None, None, "fast-1"]


@both_modes
async def test_the_model_section_may_name_the_alias_that_is_the_default(*, stream: bool) -> None:
    async with servers() as (one, two):
        settings = {"model": {"name": "good"}, "models": {"fast": targets(one), "good": targets(two)}}
        async with gateway(settings=settings) as client:
            assert (await ask(client, stream=stream)).document["content"] == "server 2"


@both_modes
@pytest.mark.parametrize(
    "fault",
    [failing(500), failing(429), failing(408), failing(409), Answer(BREAK), Answer(b"", content_type=None)],
    ids=["500", "429", "408", "409", "disconnect", "nothing"],
)
async def test_where_a_server_fails_the_next_one_answers_and_the_answer_says_so(fault: Answer, *, stream: bool) -> None:
    async with servers() as (one, two):
        one.always(fault)
        models = {"fast": [*targets(one, target="gpu"), *targets(two, target="rented")]}
        async with gateway(settings={"models": models}) as client:
            reply = await ask(client, stream=stream)

    assert (reply.status, reply.document["content"]) == (200, "server 2")
    assert [one["target"] for one in reply.document["rounds"]] == ["rented"]


@both_modes
async def test_a_server_that_does_not_answer_at_all_is_passed_over(*, stream: bool) -> None:
    async with servers(1) as [there]:
        gone = ModelServer()
        async with gone:
            address = gone.base_url
        models = {"fast": [{"base_url": address}, *targets(there)]}
        async with gateway(settings={"models": models}) as client:
            assert (await ask(client, stream=stream)).document["content"] == "server 1"


async def test_a_server_that_does_not_begin_its_stream_is_passed_over() -> None:
    async with servers() as (one, two):
        one.always(Answer(HANG))
        models = {"fast": [*targets(one, first_byte_timeout=0.05), *targets(two)]}
        async with gateway(settings={"models": models}) as client:
            reply = await ask(client, stream=True)
            await asyncio.wait_for(one.exchanges[0].gone.wait(), PATIENCE)

    assert reply.document["content"] == "server 2"


@both_modes
async def test_the_only_server_is_asked_again(*, stream: bool) -> None:
    async with servers(1) as [server]:
        server.will(failing(503), failing(429))
        settings = {"model": {"base_url": server.base_url}, "retry": NO_WAIT}
        async with gateway(settings=settings) as client:
            reply = await ask(client, stream=stream)

    assert (reply.status, reply.document["content"]) == (200, "server 1")
    assert len(server.exchanges) == 3
    assert [set(one) for one in reply.document["rounds"]] == [{"finish_reason", "usage"}]


@both_modes
@pytest.mark.parametrize(("status", "told"), [(429, 429), (503, 502)])
async def test_a_wish_for_much_patience_is_handed_to_the_caller(status: int, told: int, *, stream: bool) -> None:
    async with servers(1) as [server]:
        server.always(failing(status, retry_after="77"))
        async with gateway(settings={"model": {"base_url": server.base_url}}) as client:
            reply = await ask(client, stream=stream)

    assert (reply.status, reply.headers["retry-after"]) == (told, "77")
    assert reply.document["retry_after"] == 77
    assert len(server.exchanges) == 1


@both_modes
async def test_a_full_server_is_a_503_that_says_when_to_come_back(*, stream: bool) -> None:
    async with servers(1) as [server]:
        go_on = asyncio.Event()
        server.will(lambda exchange: Answer(go_on, *saying("at last")(exchange).steps))
        limits = {"max_concurrency": 1, "max_queue": 0}
        async with gateway(settings={"model": {"base_url": server.base_url, **limits}}) as client:
            first = asyncio.create_task(ask(client, stream=True))
            await asyncio.wait_for(server.request(), PATIENCE)
            refused = await ask(client, stream=stream)
            ready = (await client.get("/readyz")).json()
            go_on.set()
            answered = await first
            again = await ask(client, stream=stream)

    assert (refused.status, refused.document["type"]) == (503, "urn:advisor-gateway:model-busy")
    assert int(refused.headers["retry-after"]) == refused.document["retry_after"] >= 1
    assert ready["targets"][0]["active"] == 1
    assert (answered.document["content"], again.status) == ("at last", 200)


@pytest.mark.fault("D07", "D09")
async def test_a_pool_of_few_connections_survives_a_storm_of_clients_that_leave() -> None:
    async with servers(1) as [server]:
        server.always(lambda _: Answer(text_stream("slow").partition(b"data: [DONE]")[0], HANG))
        settings = {"model": {"base_url": server.base_url, "max_connections": 3, "max_queue": 1000}}
        async with gateway(settings=settings) as client:
            leaving = [asyncio.create_task(ask(client, stream=True)) for _ in range(60)]
            await asyncio.wait_for(server.request(3), PATIENCE)
            for task in leaving:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)
            await asyncio.wait_for(server.until(lambda: server.open_connections == 0), PATIENCE)
            server.always(saying("well"))
            reply = await ask(client, stream=True)
            ready = (await client.get("/readyz")).json()

    assert reply.document["content"] == "well"
    assert ready["targets"] == [{"alias": "gpt-4o-mini", "breaker": "closed", "active": 0, "waiting": 0}]


@pytest.mark.fault("D08")
@both_modes
async def test_a_storm_of_refusals_uses_up_no_connections(*, stream: bool) -> None:
    async with servers(1) as [server]:
        server.always(failing(429))
        settings = {"model": {"base_url": server.base_url, "max_connections": 2}, "retry": {**NO_WAIT, "attempts": 1}}
        async with gateway(settings=settings) as client:
            refused = await asyncio.gather(*(ask(client, stream=stream) for _ in range(20)))
            server.always(saying("well"))
            answers = await asyncio.gather(*(ask(client, stream=stream) for _ in range(4)))
            still_open = server.open_connections

    assert {reply.status for reply in refused} == {429}
    assert [reply.document["content"] for reply in answers] == ["well"] * 4
    assert still_open <= 2


@both_modes
async def test_readyz_lists_the_servers_with_their_breakers_and_asks_none(*, stream: bool) -> None:
    async with servers() as (one, two):
        one.always(failing(500))
        settings = {"models": {"fast": targets(one, two)}, "breaker": {"failures": 1}}
        async with gateway(settings=settings) as client:
            await ask(client, stream=stream)
            asked = len(one.exchanges) + len(two.exchanges)
            ready = (await client.get("/readyz")).json()

    ReadyDocument.model_validate(ready)
    assert (ready["model"], ready["demo"]) == ("fast", False)
    assert ready["targets"] == [
        {"alias": "fast", "target": "fast-1", "breaker": "open", "active": 0, "waiting": 0},
        {"alias": "fast", "target": "fast-2", "breaker": "closed", "active": 0, "waiting": 0},
    ]
    assert len(one.exchanges) + len(two.exchanges) == asked


async def test_the_round_that_ends_in_a_stream_says_its_server_too() -> None:
    async with servers(1) as [server], gateway(settings={"models": {"fast": targets(server)}}) as client:
        reply = await ask(client, stream=True)

    assert [one["target"] for one in reply.of("round.completed")] == ["fast-1"]


@pytest.mark.fault("X02", "X03")
async def test_each_server_gets_its_own_key_and_none_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    async with servers() as (one, two):
        one.always(Answer.json({"error": {"message": f"bad key {KEY}"}}, status=500))
        two.always(Answer.json({"error": {"message": f"bad key {KEY[::-1]}"}}, status=401))
        models = {"fast": [*targets(one, api_key=KEY), *targets(two, api_key=KEY[::-1])]}
        settings = Settings(models=models)
        async with serving(create_app(settings, tools=[])) as client:
            reply = await ask(client, stream=False)

    assert one.exchanges[0].headers["authorization"] == f"Bearer {KEY}"
    assert two.exchanges[0].headers["authorization"] == f"Bearer {KEY[::-1]}"
    assert reply.status == 502
    shown = f"{reply.document} {caplog.text} {settings!r}"
    assert KEY not in shown
    assert KEY[::-1] not in shown
    assert "target='fast-2'" in caplog.text


def test_two_servers_of_an_alias_with_one_name_stop_the_start() -> None:
    models = {"fast": [{"base_url": "http://a.example.org", "target": "a"}] * 2}

    with pytest.raises(ConfigurationError, match="two targets of the alias 'fast' are named 'a'"):
        create_app(Settings(models=models))
