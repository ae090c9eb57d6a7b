"""What is remembered, over HTTP: it can be listed, read, forgotten and copied, wherever it is kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from app.advisors import MemoryAdvisor
from app.chat import AssistantMessage, ChatResponse, Message, ToolCall
from app.main import create_app
from app.memory import ChatMemory, InMemoryChatMemory
from app.providers.scripted import ScriptedModel, tool_calls
from app.settings import Settings
from tests.support.hesitant import Hesitant
from tests.support.openapi import Page
from tests.support.served import served
from tests.support.tools import echo
from tests.support.web import ask, gateway
from tests.web.conversations import STORES, memory_url, problem, say

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return memory_url(request, tmp_path)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(create_app(Settings(), model=ScriptedModel(), tools=[]).openapi())


@pytest.fixture
async def client(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway whose model repeats itself."""
    async with gateway(ScriptedModel(forever="Fine."), settings={"memory": {"url": url}}) as client:
        yield client


async def listed(client: httpx.AsyncClient, **params: Any) -> list[str]:
    """The ids on a page."""
    response = await client.get("/conversations", params=params)
    assert response.status_code == 200, response.text
    return [one["id"] for one in response.json()["conversations"]]


async def test_a_conversation_is_read_turn_by_turn(client: httpx.AsyncClient, page: Page) -> None:
    await say(client, "One", "Two", system="Be brief.")
    response = await client.get("/conversations/trip")
    page.check(response)
    document = response.json()

    assert document.keys() == {"id", "created_at", "updated_at", "system", "summary", "turns"}
    assert (document["id"], document["system"], document["summary"]) == ("trip", ["Be brief."], None)
    assert [turn["number"] for turn in document["turns"]] == [1, 2]
    assert [turn["messages"] for turn in document["turns"]] == [
        [{"role": "user", "content": text}, {"role": "assistant", "content": "Fine."}] for text in ("One", "Two")
    ]
    times = [document["created_at"], *(turn["created_at"] for turn in document["turns"]), document["updated_at"]]
    assert all(re.fullmatch(TIME, time) for time in times)
    assert times == sorted(times)


async def test_calls_and_results_are_read_as_they_can_be_sent(url: str, page: Page) -> None:
    calls = ChatResponse.of_call(
        AssistantMessage("Let me see.", (ToolCall("a", "echo", '{"n":1}', {"sign": [1]}),), reasoning="Hm.")
    )
    model, settings = ScriptedModel(calls, "Done."), {"memory": {"url": url, "inside_loop": True}}
    async with gateway(model, [echo()], settings=settings) as client:
        await say(client, "Echo 1")
        response = await client.get("/conversations/trip")
    page.check(response)
    ((turn),) = response.json()["turns"]

    assert turn["messages"] == [
        {"role": "user", "content": "Echo 1"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [{"id": "a", "name": "echo", "arguments": '{"n":1}', "extra": {"sign": [1]}}],
            "reasoning": "Hm.",
        },
        {"role": "tool", "tool_call_id": "a", "content": '{"n":1}'},
        {"role": "assistant", "content": "Done."},
    ]


async def test_conversations_are_listed_page_by_page_the_one_that_was_added_to_last_first(
    client: httpx.AsyncClient, page: Page
) -> None:
    names = ["a", "b", "c/d", "e f", "naïve", "日本", "50%"]
    for name in names:
        await say(client, "Hello", conversation_id=name)
    await say(client, "Again", conversation_id="b")
    found: list[dict[str, Any]] = []
    place: dict[str, str] = {}
    while True:
        response = await client.get("/conversations", params={"limit": "3", **place})
        page.check(response)
        found += response.json()["conversations"]
        if response.json()["next"] is None:
            break
        place = {"before": response.json()["next"]}

    assert [one["id"] for one in found] == ["b", *(name for name in reversed(names) if name != "b")]
    assert [one["turns"] for one in found] == [2, *[1] * 6]
    assert found[0]["created_at"] < found[0]["updated_at"]
    assert all(re.fullmatch(TIME, one["updated_at"]) for one in found)


async def test_the_next_page_can_stand_in_an_address_as_it_is(client: httpx.AsyncClient) -> None:
    for name in ("a", "ü & b?c=d#e+f/g%2F"):
        await say(client, "Hello", conversation_id=name)
    place = (await client.get("/conversations?limit=1")).json()["next"]

    assert re.fullmatch(r"[A-Za-z0-9_-]+", place)
    assert [one["id"] for one in (await client.get(f"/conversations?before={place}")).json()["conversations"]] == ["a"]


async def test_without_conversations_there_is_an_empty_page(client: httpx.AsyncClient, page: Page) -> None:
    response = await client.get("/conversations")
    page.check(response)

    assert response.json() == {"conversations": [], "next": None}


async def test_a_page_that_is_just_full_is_the_last(client: httpx.AsyncClient) -> None:
    for name in "abc":
        await say(client, "Hello", conversation_id=name)

    assert (await client.get("/conversations?limit=3")).json()["next"] is None
    assert (await client.get("/conversations?limit=2")).json()["next"] is not None


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=101", "limit=x", "limit=", "before=", "before=x", "before=%00", "before=run_1"),
        "before=MjAyNi0wMS0wMVQwMDowMDowMC9h",  # without a zone
        "before=MjAyNi0wMS0wMVQwMDowMDowMCswMDowMC8",  # without an id
        "before=MjAyNi0wMS0wMVQwMDowMDowMCswMDowMC8AYQ",  # NUL in it
        "before=MDAwMS0wMS0wMVQwMDowMDowMCsxNDowMC9h",  # before time began
        "before=_____w",  # no text
        "before=2026-01-01T00:00:00%2B00:00/a",
    ],
)
async def test_a_page_that_cannot_be_is_refused(page: Page, query: str) -> None:
    async with gateway(ScriptedModel()) as client:
        response = await client.get(f"/conversations?{query}")
    page.check(response)

    assert problem(response) == (422, "parameter-invalid")


@pytest.mark.parametrize("name", ["nobody", "%00", "a%00b", "%20", "%ED%A0%80", "%FF", "a/b/c", "x" * 5000, ""])
async def test_what_is_not_remembered_is_not_found(client: httpx.AsyncClient, page: Page, name: str) -> None:
    responses = [
        await client.get(f"/conversations/{name}"),
        await client.delete(f"/conversations/{name}"),
        await client.post(f"/conversations/{name}/fork", json={}),
    ]
    for response in responses:
        page.check(response)

    assert [problem(response) for response in responses] == [(404, "conversation-not-found")] * 3


async def test_a_conversation_is_forgotten_and_begins_anew(client: httpx.AsyncClient, page: Page) -> None:
    await say(client, "One", "Two")
    await say(client, "Hello", conversation_id="other")
    response = await client.delete("/conversations/trip")
    page.check(response)
    assert (response.status_code, response.content) == (204, b"")
    assert problem(await client.get("/conversations/trip")) == (404, "conversation-not-found")
    assert problem(await client.delete("/conversations/trip")) == (404, "conversation-not-found")
    assert await listed(client) == ["other"]
    await say(client, "Three")

    assert [turn["number"] for turn in (await client.get("/conversations/trip")).json()["turns"]] == [1]


async def test_a_conversation_is_not_forgotten_while_a_run_of_it_is_going(url: str, page: Page) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel("Fine.", reply), settings={"memory": {"url": url}}) as client:
        await say(client, "One")
        asking = asyncio.create_task(ask(client, "Two", stream=False, conversation_id="trip"))
        await reply.asked.wait()
        response = await client.delete("/conversations/trip")
        page.check(response)
        assert problem(response) == (409, "conversation-busy")
        assert len((await client.get("/conversations/trip")).json()["turns"]) == 1
        reply.go_on.set()
        await asking

        assert len((await client.get("/conversations/trip")).json()["turns"]) == 2
        assert (await client.delete("/conversations/trip")).status_code == 204


async def test_a_conversation_is_copied_and_both_go_on(client: httpx.AsyncClient, page: Page) -> None:
    await say(client, "One", "Two", "Three", system="Be brief.")
    response = await client.post("/conversations/trip/fork", json={"id": "detour", "turn": 2})
    page.check(response)
    assert (response.status_code, response.headers["location"]) == (201, "/conversations/detour")
    assert response.json() == (await client.get(response.headers["location"])).json()
    await say(client, "Four", conversation_id="detour")

    texts = {
        name: [turn["messages"][0]["content"] for turn in (await client.get(f"/conversations/{name}")).json()["turns"]]
        for name in ("trip", "detour")
    }
    assert texts == {"trip": ["One", "Two", "Three"], "detour": ["One", "Two", "Four"]}
    assert (await client.get("/conversations/detour")).json()["system"] == ["Be brief."]


@pytest.mark.parametrize("body", [{}, {"id": None, "turn": None}])
async def test_a_copy_gets_a_name_where_it_is_given_none(
    client: httpx.AsyncClient, page: Page, body: dict[str, Any]
) -> None:
    await say(client, "One", "Two")
    response = await client.post("/conversations/trip/fork", json=body)
    page.check(response)
    name = response.json()["id"]

    assert re.fullmatch("conversation_[0-9a-f]{32}", name)
    assert response.headers["location"] == f"/conversations/{name}"
    assert len(response.json()["turns"]) == 2
    assert await listed(client) == [name, "trip"]


async def test_a_copy_that_cannot_be_is_refused(client: httpx.AsyncClient, page: Page) -> None:
    await say(client, "One", "Two")
    await say(client, "Hello", conversation_id="other")
    bodies: list[Any] = [{"id": "other"}, {"id": "trip"}, {"turn": 3}]
    bodies += [{"id": ""}, {"id": "a\nb"}, {"turn": 0}, {"turn": "1"}, {"turns": 1}, [], 7]
    asked = [
        *(("trip", body) for body in bodies),
        ("nobody", {"id": "other"}),
    ]
    responses = [await client.post(f"/conversations/{name}/fork", json=body) for name, body in asked]
    responses.append(await client.post("/conversations/trip/fork", content=b"{"))
    for response in responses:
        page.check(response)

    assert [problem(response) for response in responses] == [
        *[(409, "conversation-exists")] * 2,
        (404, "turn-not-found"),
        *[(422, "body-invalid")] * 7,
        (404, "conversation-not-found"),
        (400, "body-not-json"),
    ]
    assert await listed(client) == ["other", "trip"]


async def test_a_copy_does_not_go_where_a_run_is_about_to_write(url: str, page: Page) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel("Fine.", reply, "Fine."), settings={"memory": {"url": url}}) as client:
        await say(client, "One")
        asking = asyncio.create_task(ask(client, "Hello", stream=False, conversation_id="new"))
        await reply.asked.wait()
        response = await client.post("/conversations/trip/fork", json={"id": "new"})
        page.check(response)
        assert problem(response) == (409, "conversation-busy")
        reply.go_on.set()
        await asking

        assert len((await client.get("/conversations/new")).json()["turns"]) == 1


@pytest.mark.parametrize(
    "name", ["a/b", "a/fork", "fork", "50%", "%2F", "naïve", "日本 👩‍🌾", "a b", "a?b=c#d", "a//b", "a;b,c+d=e&f"]
)
async def test_any_name_can_stand_in_an_address(client: httpx.AsyncClient, page: Page, name: str) -> None:
    address = f"/conversations/{quote(name, safe='')}"
    await say(client, "One", conversation_id=name)
    read = await client.get(address)
    forked = await client.post(f"{address}/fork", json={"id": f"copy of {name}"})
    again = await client.get(forked.headers["location"])
    gone = await client.delete(address)
    for response in (read, forked, again, gone):
        page.check(response)

    assert (read.status_code, read.json()["id"]) == (200, name)
    assert (forked.status_code, gone.status_code) == (201, 204)
    assert (again.status_code, again.json()["id"]) == (200, f"copy of {name}")
    assert await listed(client) == [f"copy of {name}"]


@pytest.mark.server
@pytest.mark.parametrize("name", ["a/b", "a/fork", "50%", "%2F", "naïve", "日本", "a?b=c#d", "a//b", "a/../b"])
async def test_any_name_can_stand_in_an_address_before_a_real_server(name: str) -> None:
    app = create_app(Settings(), model=ScriptedModel(forever="Fine."), tools=[])
    async with (
        served(app) as (host, port),
        httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False) as client,
    ):
        await say(client, "One", conversation_id=name)
        address = f"/conversations/{quote(name, safe='')}"
        forked = await client.post(f"{address}/fork", json={"id": f"copy of {name}"})

        assert (await client.get(address)).json()["id"] == name
        assert (await client.get(forked.headers["location"])).json()["id"] == f"copy of {name}"
        assert (await client.delete(address)).status_code == 204
        assert await listed(client) == [f"copy of {name}"]


async def test_a_page_of_another_origin_may_forget_where_it_may_ask() -> None:
    settings = {"server": {"cors_origins": ["https://app.example.org"]}}
    headers = {"Origin": "https://app.example.org", "Access-Control-Request-Method": "DELETE"}
    async with gateway(ScriptedModel(), settings=settings) as client:
        response = await client.options("/conversations/trip", headers=headers)

    assert response.status_code == 200
    assert "DELETE" in response.headers["access-control-allow-methods"]


class PlainMemory:
    """A memory of somebody else's, that can remember and nothing more."""

    def __init__(self) -> None:
        self._inner = InMemoryChatMemory()

    async def get(self, conversation_id: str) -> tuple[Message, ...]:
        return await self._inner.get(conversation_id)

    async def append(self, conversation_id: str, messages: Any) -> None:
        await self._inner.append(conversation_id, messages)

    async def clear(self, conversation_id: str) -> None:
        await self._inner.clear(conversation_id)


@pytest.mark.parametrize(
    "parts",
    [
        {"settings": {"memory": {"enabled": False}}},
        {"memory": PlainMemory()},
        {"advisors": [MemoryAdvisor(InMemoryChatMemory())]},
    ],
    ids=["off", "custom", "an advisor's own"],
)
async def test_what_cannot_be_looked_at_is_not_implemented(parts: dict[str, Any], page: Page) -> None:
    async with gateway(ScriptedModel(forever="Fine."), **parts) as client:
        await say(client, "One")
        responses = [
            await client.get("/conversations"),
            await client.get("/conversations/trip"),
            await client.delete("/conversations/trip"),
            await client.post("/conversations/trip/fork", json={}),
        ]
    for response in responses:
        page.check(response)

    assert [problem(response) for response in responses] == [(501, "conversations-unknown")] * 4


async def test_a_store_that_is_given_can_be_looked_at() -> None:
    memory: ChatMemory = InMemoryChatMemory()
    async with gateway(ScriptedModel(tool_calls(("echo", {})), "Fine."), [echo()], memory=memory) as client:
        await say(client, "One")

        assert await listed(client) == ["trip"]
