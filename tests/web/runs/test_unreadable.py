"""Runs and events that are not there, or not any more, and places that are none."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from app.providers.scripted import ScriptedModel, tool_calls
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import Held
from tests.support.web import ask
from tests.web.runs.conftest import Gateways
from tests.web.runs.following import (
    AT_ONCE,
    Door,
    begun_and_left,
    both_ways,
    data_of,
    ended,
    every_door,
    following,
    name_of,
    named,
    problem_of,
    read,
    written,
)

UNKNOWN = f"run_{0:032x}"


@pytest.mark.parametrize("number", ["x", "-1", "+1", "1.5", "1e1", "0x1", "1_0", "٣", "9" * 19])
@both_ways
async def test_a_place_that_is_no_number_is_refused(gateway: Gateways, number: str, by: str) -> None:
    async with gateway(ScriptedModel("Hi")) as client:
        run_id = (await ask(client, stream=False)).document["id"]
        refused = await client.get(f"/runs/{run_id}/events", **named(number, by))

    assert problem_of(refused) == (422, "parameter-invalid")
    assert by in refused.json()["detail"]


@both_modes
async def test_a_place_beyond_a_run_that_is_going_is_refused(gateway: Gateways, *, stream: bool) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply), settings=AT_ONCE) as client:
        run_id = await begun_and_left(client, "stream" if stream else "background", reply.asked.wait)
        refused = [await client.get(f"/runs/{run_id}/events", params={"after": n}) for n in (3, 10**17)]
        async with following(client, run_id, 2) as reader:
            reply.go_on.set()
            seen = await reader.rest()

    assert [problem_of(response) for response in refused] == [(422, "parameter-invalid")] * 2
    assert name_of(seen[-1]) == "run.completed"


@pytest.mark.parametrize("run_id", [UNKNOWN, UNKNOWN.upper(), "run_", "x" * 5_000, "%0A"])
async def test_a_run_that_never_was_is_not_found(gateway: Gateways, run_id: str) -> None:
    async with gateway(ScriptedModel("Hi")) as client:
        await ask(client, stream=False)
        responses = [await client.get(f"/runs/{run_id}{path}") for path in ("", "/events", "/events?after=3")]

    assert [problem_of(response) for response in responses] == [(404, "run-not-found")] * 3


async def gone(client: httpx.AsyncClient, run_id: str) -> list[tuple[int, str]]:
    """Wait until a run is forgotten. Returns what is then answered."""
    async with asyncio.timeout(PATIENCE):
        while (await client.get(f"/runs/{run_id}")).status_code == 200:
            pass
    return [problem_of(await client.get(f"/runs/{run_id}{path}")) for path in ("", "/events", "/events?after=3")]


@both_modes
async def test_a_run_that_is_forgotten_for_its_age_is_gone(gateway: Gateways, *, stream: bool) -> None:
    async with gateway(ScriptedModel("Hi"), settings={"runs": {"keep": 0}}) as client:
        run_id = (await ask(client, stream=stream)).document["id"]

        assert await gone(client, run_id) == [(410, "run-gone")] * 3


@both_modes
async def test_a_run_that_is_forgotten_for_a_later_one_is_gone(lone_gateway: Gateways, *, stream: bool) -> None:
    async with lone_gateway(ScriptedModel(forever="Hi"), settings={"runs": {"max_kept": 1}}) as client:
        first, second = [(await ask(client, stream=stream)).document["id"] for _ in range(2)]

        assert await gone(client, first) == [(410, "run-gone")] * 3
        assert (await client.get(f"/runs/{second}")).json()["status"] == "completed"


@both_modes
async def test_a_run_is_not_forgotten_while_it_is_going(gateway: Gateways, *, stream: bool) -> None:
    reply = Hesitant("At last.")
    async with gateway(ScriptedModel(reply, "Hi"), settings={"runs": {"max_kept": 1}} | AT_ONCE) as client:
        run_id = await begun_and_left(client, "stream" if stream else "call", reply.asked.wait)
        await ask(client, stream=stream)
        async with following(client, run_id) as reader:
            reply.go_on.set()
            seen = await reader.rest()

    assert data_of(seen[-1])["content"] == "At last."


@every_door
async def test_who_lacks_events_that_fell_out_is_told_so_and_others_get_the_rest(
    single_gateway: Gateways, door: Door
) -> None:
    reply, held = Hesitant(tool_calls(("held", {}))), Held()
    model = ScriptedModel(reply, "one two three")
    so_far, last = (3, 8) if door == "call" else (5, 13)
    async with single_gateway(model, [held.tool], settings={"runs": {"max_events": 2}} | AT_ONCE) as client:
        run_id = await begun_and_left(client, door, reply.asked.wait)
        reply.go_on.set()
        await held.begun()
        await written(client, run_id, so_far)
        lacking = [await client.get(f"/runs/{run_id}/events", params={"after": n}) for n in range(so_far - 2)]
        async with following(client, run_id, so_far - 2) as reader:
            await reader.until_events(2)
        held.let_go.set()
        answer = (await ended(client, run_id))["answer"]
        lacking += [await client.get(f"/runs/{run_id}/events", params={"after": n}) for n in range(last - 2)]
        there = [await read(client, run_id, n) for n in (last - 2, last - 1)]
        nothing = await client.get(f"/runs/{run_id}/events", params={"after": last})

    assert [problem_of(response) for response in lacking] == [(410, "events-gone")] * (so_far - 2 + last - 2)
    assert [list(map(name_of, events)) for events in there] == [["round.completed", "run.completed"], ["run.completed"]]
    assert there[0][1:] == there[1]
    assert data_of(there[1][0]) == answer
    assert nothing.status_code == 204
