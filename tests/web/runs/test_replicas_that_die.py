"""Replicas as processes: killed, or stopped for so long that others take their runs for lost."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.chunks import completion, text_stream
from tests.support.gates import PATIENCE
from tests.support.gateway_process import GatewayProcess
from tests.support.model_server import Answer, Exchange, ModelServer
from tests.support.modes import both_modes
from tests.support.web import ENDPOINTS, events_in
from tests.web.runs.asking import keyed
from tests.web.runs.following import data_of, ended, following, name_of, read

pytestmark = pytest.mark.server

LEASE = 5.0
C: dict[str, Any] = {"conversation_id": "c"}
QUEUE = {**C, "when_busy": "queue"}


class Teller:
    """Answers what it is asked, `At last.` after a while where it is asked to wait.

    Attributes:
        asked: set when it is asked to wait.
        go_on: set to let it answer then.
        prompts: what was said in each request.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.prompts: list[list[str]] = []

    def __call__(self, exchange: Exchange) -> Answer:
        """The answer to a request."""
        said = [message["content"] for message in exchange.body["messages"]]
        self.prompts.append(said)
        waits = said[-1] == "Wait." and not self.asked.is_set()
        answer = "At last." if waits else f"Re: {said[-1]}"
        if waits:
            self.asked.set()
        steps: list[bytes | asyncio.Event] = [self.go_on] if waits else []
        if exchange.body.get("stream"):
            return Answer(*steps, text_stream(*answer))
        return Answer(*steps, completion(answer), content_type="application/json")


@pytest.fixture
async def model() -> AsyncIterator[tuple[ModelServer, Teller]]:
    async with ModelServer() as server:
        server.always(teller := Teller())
        yield server, teller


class Replicas:
    """Starts gateways that share their runs and their memory.

    Args:
        env: their settings.
        stack: ends them.
    """

    def __init__(self, env: Mapping[str, str], stack: AsyncExitStack) -> None:
        self._env = env
        self._stack = stack

    async def start(self) -> tuple[GatewayProcess, httpx.AsyncClient]:
        """One more."""
        process = GatewayProcess(self._env)
        self._stack.callback(process.close)
        await asyncio.to_thread(process.wait_until_answering, f"{process.url}/readyz")
        client = httpx.AsyncClient(base_url=process.url, trust_env=False, timeout=3 * PATIENCE)
        return process, await self._stack.enter_async_context(client)


@pytest.fixture
async def replicas(model: tuple[ModelServer, Teller], redis_url: str, tmp_path: Path) -> AsyncIterator[Replicas]:
    env = {
        "GATEWAY_REDIS__URL": redis_url,
        "GATEWAY_REDIS__LEASE": str(LEASE),
        "GATEWAY_MODEL__BASE_URL": model[0].base_url,
        "GATEWAY_MODEL__NAME": "probe",
        "GATEWAY_MEMORY__URL": str(tmp_path / "gateway.db"),
        "GATEWAY_STREAM__COMMIT_AFTER": "0",
    }
    async with AsyncExitStack() as stack:
        yield Replicas(env, stack)


async def say(client: httpx.AsyncClient, message: str, *, stream: bool = False, **body: Any) -> httpx.Response:
    """Ask, and wait for the answer."""
    return await client.post(ENDPOINTS[stream], json={"message": message, **body})


def answer_of(response: httpx.Response) -> dict[str, Any]:
    """The document that a response ends with."""
    if not response.headers["content-type"].startswith("text/event-stream"):
        return dict(response.json())
    return {key: value for key, value in events_in(response.text)[-1].data.items() if key not in {"run_id", "round"}}


async def turns(client: httpx.AsyncClient) -> list[list[str]]:
    """What is remembered of the conversation."""
    document = (await client.get("/conversations/c")).json()
    return [[message["content"] for message in turn["messages"]] for turn in document["turns"]]


@asynccontextmanager
async def waiting(
    client: httpx.AsyncClient, teller: Teller, *, stream: bool, key: str | None = None
) -> AsyncIterator[tuple[asyncio.Task[httpx.Response], str]]:
    """Ask for what takes a while, and be there when the model is asked. Gives the asking and the run's id."""
    body = {"message": "Wait.", **C}
    asking = asyncio.create_task(client.post(ENDPOINTS[stream], json=body, headers=keyed(key)))
    async with asyncio.timeout(PATIENCE):
        await teller.asked.wait()
    run_id = str((await client.get("/runs", params={"limit": 1})).json()["runs"][0]["id"])
    try:
        yield asking, run_id
    finally:
        asking.cancel()
        await asyncio.wait([asking])


async def test_a_replica_that_is_killed_in_mid_stream_loses_its_run_once_and_nothing_else(
    model: tuple[ModelServer, Teller], replicas: Replicas
) -> None:
    _, teller = model
    clock = asyncio.get_running_loop().time
    (one, here), (_, there) = await replicas.start(), await replicas.start()
    await say(here, "One.", **C)
    async with waiting(here, teller, stream=True, key="k") as (asking, run_id):
        queued = asyncio.create_task(say(there, "Two.", **QUEUE))
        async with following(there, run_id) as reader:
            await reader.until_events(2)
            one.signal(signal.SIGKILL)
            killed_at = clock()
            seen = await reader.rest()
            took = clock() - killed_at
        with pytest.raises(httpx.TransportError):
            await asking
    run = await ended(there, run_id)
    key = [await there.post(path, json={"message": "Wait.", **C}, headers=keyed("k")) for path in ENDPOINTS.values()]
    second = await queued
    third = await say(there, "Three.", **C)
    remembered = await turns(there)
    again = await read(there, run_id)

    assert took < LEASE
    assert [name_of(event) for event in seen] == ["run.started", "round.started", "run.failed"]
    assert seen == again
    assert (run["status"], run["problem"]) == ("failed", data_of(seen[-1]))
    assert run["problem"]["type"] == "urn:advisor-gateway:lost"
    assert [answer_of(response) for response in key] == [run["problem"]] * 2
    assert (second.json()["content"], third.json()["content"]) == ("Re: Two.", "Re: Three.")
    assert remembered == [[text, f"Re: {text}"] for text in ("One.", "Two.", "Three.")]


async def test_what_all_replicas_left_behind_is_put_in_order_by_the_next_one(
    model: tuple[ModelServer, Teller], replicas: Replicas
) -> None:
    _, teller = model
    one, here = await replicas.start()
    async with waiting(here, teller, stream=False) as (asking, run_id):
        waits = asyncio.create_task(say(here, "Two.", **QUEUE))
        async with asyncio.timeout(PATIENCE):
            while len((await here.get("/runs")).json()["runs"]) < 2:
                pass
        one.signal(signal.SIGKILL)
        for task in (asking, waits):
            with pytest.raises(httpx.TransportError):
                await task
    _, there = await replicas.start()
    run = await ended(there, run_id)
    answer = await say(there, "Three.", **QUEUE)
    runs = (await there.get("/runs")).json()["runs"]

    assert run["problem"]["type"] == "urn:advisor-gateway:lost"
    assert answer.json()["content"] == "Re: Three."
    assert [run["status"] for run in runs] == ["completed", "failed", "failed"]
    assert await turns(there) == [["Three.", "Re: Three."]]


@both_modes
async def test_a_replica_that_was_stopped_and_goes_on_ends_its_lost_run_and_nothing_is_doubled(
    model: tuple[ModelServer, Teller], replicas: Replicas, *, stream: bool
) -> None:
    _, teller = model
    (one, here), (_, there) = await replicas.start(), await replicas.start()
    async with waiting(here, teller, stream=stream) as (asking, run_id):
        one.signal(signal.SIGSTOP)
        teller.go_on.set()  # the answer is there when the replica goes on
        run = await ended(there, run_id)
        again = await say(there, "Wait.", **C)
        one.signal(signal.SIGCONT)
        async with asyncio.timeout(PATIENCE):
            first = await asking
        async with asyncio.timeout(PATIENCE):
            while (await here.get(f"/runs/{run_id}")).json() != run:
                pass
        events = [await read(client, run_id) for client in (here, there)]
    after = await say(here, "And?", **C)

    assert run["problem"]["type"] == "urn:advisor-gateway:lost"
    assert answer_of(first) == run["problem"]
    assert events[0] == events[1]
    assert [name_of(event) for event in events[0]].count("run.failed") == 1
    assert (again.json()["content"], after.json()["content"]) == ("Re: Wait.", "Re: And?")
    assert await turns(there) == [["Wait.", "Re: Wait."], ["And?", "Re: And?"]]
    assert teller.prompts[-1] == ["Wait.", "Re: Wait.", "And?"]
