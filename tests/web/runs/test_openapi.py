"""What the OpenAPI page says of runs is what happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx

from app.chat import ModelRateLimited
from app.providers.scripted import ScriptedModel, tool_calls
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.openapi import Page
from tests.support.tools import echo
from tests.support.web import ENDPOINTS
from tests.web.runs.asking import keyed
from tests.web.runs.conftest import Gateways

HELLO = {"message": "Hello"}
BACKGROUND = HELLO | {"background": True, "conversation_id": "c", "when_busy": "queue"}
UNKNOWN = f"/runs/run_{0:032x}"


async def page_of(client: httpx.AsyncClient) -> Page:
    """The page that the gateway shows."""
    return Page((await client.get("/openapi.json")).json())


async def reached(place: asyncio.Event) -> None:
    """Wait until something is there."""
    async with asyncio.timeout(PATIENCE):
        await place.wait()


async def run_of(client: httpx.AsyncClient, key: str) -> str:
    """The address of a run that has ended, and was begun with a key."""
    return f"/runs/{(await client.post('/chat', json=HELLO, headers=keyed(key))).json()['id']}"


def statuses(responses: Sequence[httpx.Response]) -> list[str]:
    """How far runs were."""
    return [response.json()["status"] for response in responses]


def kind_of(response: httpx.Response) -> str:
    """The kind of a problem."""
    return str(response.json()["type"]).removeprefix("urn:advisor-gateway:")


async def test_a_run_fits_its_schema_in_every_status(gateway: Gateways) -> None:
    first, third = Hesitant(tool_calls(("echo", {}), ("nobody", {}))), Hesitant()
    model = ScriptedModel(first, "Done.", ModelRateLimited("too often", status=429), third)
    async with gateway(model, [echo()]) as client:
        page = await page_of(client)
        accepted = [await client.post("/chat", json=BACKGROUND) for _ in range(4)]
        runs = [f"/runs/{response.json()['id']}" for response in accepted]
        await reached(first.asked)
        going = [await client.get(run) for run in runs]
        first.go_on.set()
        await reached(third.asked)
        cancelled = [await client.post(f"{run}/cancel") for run in reversed(runs)]
        streams = [await client.get(f"{run}/events") for run in runs]
        ended = [await client.get(run) for run in runs]
        lists = [await client.get("/runs"), await client.get("/runs?limit=3&conversation_id=c")]

    assert statuses(accepted) == ["running", "queued", "queued", "queued"]
    assert statuses(going) == statuses(accepted)
    assert statuses(cancelled) == ["queued", "running", "failed", "completed"]
    assert statuses(ended) == ["completed", "failed", "cancelled", "cancelled"]
    assert [bool(response.json()["next"]) for response in lists] == [False, True]
    for response in (*accepted, *going, *cancelled, *streams, *ended, *lists):
        page.check(response)


async def test_reading_on_fits_the_page(gateway: Gateways) -> None:
    async with gateway(ScriptedModel("Hi")) as client:
        page = await page_of(client)
        stream = await client.post("/chat/stream", json=HELLO)
        address = stream.headers["location"]
        answers = [stream, *[await client.get(f"{address}?after={number}") for number in (0, 1, 4, 5)]]

    assert [response.status_code for response in answers] == [200, 200, 200, 200, 204]
    for response in answers:
        page.check(response)


@both_modes
async def test_a_run_that_is_joined_fits_the_page_whatever_it_gave(gateway: Gateways, *, stream: bool) -> None:
    async with gateway(ScriptedModel("Hi", ModelRateLimited("too often", status=429), "Hi")) as client:
        page = await page_of(client)
        responses = [
            await client.post(ENDPOINTS[stream], json=HELLO, headers=keyed(key)) for key in ("a", "a", "b", "b")
        ]
        responses += [await client.post("/chat", json=BACKGROUND, headers=keyed("c")) for _ in range(2)]

    assert [response.status_code for response in responses] == [200, 200, 429, 429, 202, 202]
    assert [response.headers.get("idempotency-replayed") for response in responses] == [None, "true"] * 3
    for response in responses:
        page.check(response)


async def test_every_refusal_fits_the_page(lone_gateway: Gateways) -> None:
    waiting, settings = Hesitant(), {"runs": {"max_events": 3, "max_kept": 1}}
    async with lone_gateway(ScriptedModel("Hi", "Hi", waiting), settings=settings) as client:
        page = await page_of(client)
        refused = [await client.get("/runs?limit=0"), await client.get("/runs?before=x")]
        forgotten, kept = [await run_of(client, key) for key in ("a", "b")]
        for run in (UNKNOWN, forgotten):
            refused += [await client.get(run), await client.get(f"{run}/events"), await client.post(f"{run}/cancel")]
        refused.append(await client.get(f"{kept}/events"))
        refused.append(await client.post("/chat/stream", json=HELLO, headers=keyed("b")))
        refused += [await client.post(path, json={"message": "Bye"}, headers=keyed("b")) for path in ENDPOINTS.values()]
        going = (await client.post("/chat", json=BACKGROUND)).headers["location"]
        await reached(waiting.asked)
        refused += [await client.get(f"{going}/events?after={place}") for place in ("3", "x")]
        refused += [await client.post(path, json=HELLO | {"conversation_id": "c"}) for path in ENDPOINTS.values()]
        await client.post(f"{going}/cancel")

    assert [kind_of(response) for response in refused] == [
        *["parameter-invalid"] * 2,
        *["run-not-found"] * 3,
        *["run-gone"] * 3,
        *["events-gone"] * 2,
        *["idempotency-key-reused"] * 2,
        *["parameter-invalid"] * 2,
        *["conversation-busy"] * 2,
    ]
    for response in refused:
        page.check(response)
