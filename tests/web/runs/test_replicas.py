"""Readers of a run at a replica that it does not go on at."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest
from redis.asyncio import Redis

from tests.support.chunks import DONE, chunk, event
from tests.support.gates import PATIENCE
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.model_server import Answer, ModelServer
from tests.web.runs.following import blocks, following, name_of, read

HELLO = {"message": "Hello", "on_disconnect": "continue"}


@dataclass
class _Two:
    """Two replicas, and a model that says half of its answer.

    Attributes:
        here: asks the one that runs are begun at.
        there: asks the other one.
        other: the other one.
        rest: has the model say the rest.
    """

    here: httpx.AsyncClient
    there: httpx.AsyncClient
    other: GatewayProcess
    rest: asyncio.Event = field(default_factory=asyncio.Event)

    async def leave(self) -> tuple[int, str]:
        """The exit code and the log of the other one, when it is gone."""
        return await asyncio.to_thread(self.other.wait), self.other.log


@asynccontextmanager
async def _replicas(redis_url: str) -> AsyncIterator[_Two]:
    async with ModelServer() as model:
        settings = {
            "GATEWAY_REDIS__URL": redis_url,
            "GATEWAY_SERVER__DRAIN": "1",
            "GATEWAY_MODEL__BASE_URL": model.base_url,
            "GATEWAY_MODEL__NAME": "probe",
        }
        with running_gateway(settings) as one, running_gateway(settings) as other:
            async with (
                httpx.AsyncClient(base_url=one.url, trust_env=False, timeout=PATIENCE) as here,
                httpx.AsyncClient(base_url=other.url, trust_env=False, timeout=PATIENCE) as there,
            ):
                two = _Two(here, there, other)
                said: list[bytes | asyncio.Event] = [
                    event(chunk({"content": "Hel"})),
                    two.rest,
                    event(chunk({"content": "lo"})),
                ]
                model.always(Answer(*said, event(chunk(finish="stop")), DONE))
                yield two


async def _begun(client: httpx.AsyncClient, headers: dict[str, str] | None = None) -> str:
    async with client.stream("POST", "/chat/stream", json=HELLO, headers=headers) as response:
        return response.headers["Location"].split("/")[2]


@pytest.mark.server
async def test_a_replica_that_leaves_ends_the_streams_of_others_runs_in_good_order(redis_url: str) -> None:
    async with _replicas(redis_url) as two:
        run_id = await _begun(two.here)
        async with following(two.there, run_id) as reader:
            await reader.until(lambda text: "Hel" in text)
            two.other.signal(signal.SIGTERM)
            heard = await reader.rest()
        code, log = await two.leave()
        two.rest.set()
        remaining = await read(two.here, run_id, len(heard))

    assert code == 0
    assert "ERROR" not in log, log
    assert [name_of(block) for block in heard] == ["run.started", "round.started", "text.delta"]
    assert name_of(remaining[-1]) == "run.completed"
    assert blocks("".join(heard + remaining)) == heard + remaining


@pytest.mark.server
async def test_who_waits_at_a_replica_that_leaves_for_an_answer_of_another_is_told_to_ask_again(
    redis_url: str,
) -> None:
    key = {"Idempotency-Key": "k1"}
    async with _replicas(redis_url) as two:
        await _begun(two.here, key)
        asking = asyncio.create_task(two.there.post("/chat", json=HELLO, headers=key))
        await _read_elsewhere(redis_url)
        two.other.signal(signal.SIGTERM)
        told = await asking
        code, log = await two.leave()
        two.rest.set()
        answer = await two.here.post("/chat", json=HELLO, headers=key)

    assert code == 0
    assert "ERROR" not in log, log
    assert (told.status_code, told.json()["type"]) == (503, "urn:advisor-gateway:shutting-down")
    assert int(told.headers["Retry-After"]) > 0
    assert answer.json()["content"] == "Hello"


async def _read_elsewhere(redis_url: str) -> None:
    """Wait until a run has a reader at another replica than its own."""
    async with asyncio.timeout(PATIENCE), Redis.from_url(redis_url) as redis:
        while not await redis.keys("*:readers"):
            pass
