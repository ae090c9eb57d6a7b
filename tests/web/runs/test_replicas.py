"""Readers of a run at a replica that it does not go on at."""

from __future__ import annotations

import asyncio
import signal

import httpx
import pytest

from tests.support.chunks import DONE, chunk, event
from tests.support.gates import PATIENCE
from tests.support.gateway_process import running_gateway
from tests.support.model_server import Answer, ModelServer
from tests.web.runs.following import blocks, following, name_of, read


@pytest.mark.server
async def test_a_replica_that_leaves_ends_the_streams_of_others_runs_in_good_order(redis_url: str) -> None:
    rest = asyncio.Event()
    said: list[bytes | asyncio.Event] = [
        event(chunk({"content": "Hel"})),
        rest,
        event(chunk({"content": "lo"})),
        event(chunk(finish="stop")),
        DONE,
    ]
    async with ModelServer() as model:
        model.always(Answer(*said))
        settings = {
            "GATEWAY_REDIS__URL": redis_url,
            "GATEWAY_MODEL__BASE_URL": model.base_url,
            "GATEWAY_MODEL__NAME": "probe",
        }
        with running_gateway(settings) as one, running_gateway(settings) as other:
            async with (
                httpx.AsyncClient(base_url=one.url, trust_env=False, timeout=PATIENCE) as here,
                httpx.AsyncClient(base_url=other.url, trust_env=False, timeout=PATIENCE) as there,
            ):
                body = {"message": "Hello", "on_disconnect": "continue"}
                async with here.stream("POST", "/chat/stream", json=body) as begun:
                    run_id = begun.headers["Location"].split("/")[2]
                async with following(there, run_id) as reader:
                    await reader.until(lambda text: "Hel" in text)
                    other.signal(signal.SIGTERM)
                    heard = await reader.rest()
                code, log = await asyncio.to_thread(other.wait), other.log
                rest.set()
                remaining = await read(here, run_id, len(heard))

    assert code == 0
    assert "ERROR" not in log, log
    assert [name_of(block) for block in heard] == ["run.started", "round.started", "text.delta"]
    assert name_of(remaining[-1]) == "run.completed"
    assert blocks("".join(heard + remaining)) == heard + remaining
