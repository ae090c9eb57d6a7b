"""Readers slower than their run: they hold nobody up, miss nothing that is kept, and are told when they fell behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

import httpx
import pytest

from app.providers.scripted import ScriptedModel, tool_calls
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.tools import Held
from tests.support.web import events_in
from tests.web.runs.conftest import Gateways
from tests.web.runs.following import AT_ONCE, PING, RETRY, ended, last_event_id, problem_of, read

TEXT = " ".join(f"word{number}" for number in range(100))
FEW = AT_ONCE | {"runs": {"max_events": 10}}
HELLO = {"message": "Hello"}

Way: TypeAlias = Literal["begun", "come back to"]

each_way = pytest.mark.parametrize("way", ["begun", "come back to"])
"""Whether a stream is the one that begins its run, or one that follows it."""


class SlowReader:
    """Reads when it is told to; until then the gateway waits for it, as on a full socket."""

    def __init__(self, response: httpx.Response, run_id: str) -> None:
        self.run_id = run_id
        self._writes = response.aiter_raw()

    async def rest(self) -> list[str]:
        """What is written to the end, write by write."""
        async with asyncio.timeout(PATIENCE):
            writes = [written.decode().replace(PING, "").removeprefix(RETRY) async for written in self._writes]
        return [written for written in writes if written]


@asynccontextmanager
async def reading_slowly(client: httpx.AsyncClient, way: Way, **body: Any) -> AsyncIterator[SlowReader]:
    """Begin a run. It is read by one who is slow, and hangs up at the end of the block."""
    asked, slow = {**HELLO, **body}, {"unread": 1}
    if way == "begun":
        async with client.stream("POST", "/chat/stream", json=asked, extensions=slow) as response:
            yield SlowReader(response, response.headers["location"].split("/")[2])
    else:
        async with client.stream("POST", "/chat/stream", json=asked) as begun:
            address = begun.headers["location"]
            async with client.stream("GET", address, extensions=slow) as response:
                await begun.aclose()
                yield SlowReader(response, address.split("/")[2])


@each_way
async def test_a_reader_slower_than_its_run_gets_everything_that_is_kept_many_events_in_one_write(
    gateway: Gateways, way: Way
) -> None:
    reply = Hesitant(TEXT)
    async with gateway(ScriptedModel(reply), settings=AT_ONCE) as client, reading_slowly(client, way) as reader:
        reply.go_on.set()
        assert (await ended(client, reader.run_id))["answer"]["content"] == TEXT
        writes = await reader.rest()
        events = await read(client, reader.run_id)

    assert "".join(writes) == "".join(events)
    assert len(events) == 2 + 100 + 2
    assert len(writes) < 10
    assert all(events_in(written) for written in writes)


@each_way
async def test_a_reader_who_reads_nothing_holds_up_neither_the_run_nor_another_reader(
    gateway: Gateways, way: Way
) -> None:
    reply = Hesitant(TEXT)
    async with (
        gateway(ScriptedModel(reply, "Hi"), settings=AT_ONCE) as client,
        reading_slowly(client, way) as reader,
        client.stream("GET", f"/runs/{reader.run_id}/events") as response,
    ):
        reply.go_on.set()
        async with asyncio.timeout(PATIENCE):
            text = (await response.aread()).decode()
        assert events_in(text.removeprefix(RETRY))[-1].data["content"] == TEXT
        assert (await client.post("/chat", json=HELLO)).json()["content"] == "Hi"


@each_way
async def test_a_reader_who_fell_behind_what_is_kept_is_told_so_and_its_run_goes_on(
    lone_gateway: Gateways, way: Way
) -> None:
    reply, held = Hesitant(tool_calls(("held", {}), content=TEXT)), Held()
    model = ScriptedModel(reply, "Done.")
    async with lone_gateway(model, [held.tool], settings=FEW) as client:
        async with reading_slowly(client, way) as reader:
            reply.go_on.set()
            await held.begun()
            before, _, cut_off = "".join(await reader.rest()).partition("event: stream.cut_off\ndata: ")
        seen = [event.id for event in events_in(before)]
        gone = await client.get(f"/runs/{reader.run_id}/events", headers=last_event_id(seen[-1]))
        going = (await client.get(f"/runs/{reader.run_id}")).json()
        held.let_go.set()
        run = await ended(client, reader.run_id)

    assert seen == list(range(1, len(seen) + 1)), "nothing but the end is missing"
    problem = json.loads(cut_off)
    assert cut_off.endswith("}\n\n")
    assert (problem["type"], problem["status"]) == ("urn:advisor-gateway:events-gone", 410)
    assert (problem["run_id"], problem["first"]) == (reader.run_id, 2 + 100 + 3 - 10 + 1)
    assert problem_of(gone) == (410, "events-gone")
    assert (going["status"], held.cancelled) == ("running", 0)
    assert (run["status"], run["answer"]["content"]) == ("completed", "Done.")


@each_way
async def test_who_was_cut_off_can_read_on_from_the_oldest_event_that_is_kept(lone_gateway: Gateways, way: Way) -> None:
    reply = Hesitant(TEXT)
    async with lone_gateway(ScriptedModel(reply), settings=FEW) as client, reading_slowly(client, way) as reader:
        reply.go_on.set()
        answer = (await ended(client, reader.run_id))["answer"]
        problem = json.loads("".join(await reader.rest()).partition("event: stream.cut_off\ndata: ")[2])
        events = [events_in(event)[0] for event in await read(client, reader.run_id, problem["first"] - 1)]

    assert [event.id for event in events] == list(range(95, 105))
    assert answer.items() <= events[-1].data.items()


@each_way
async def test_a_reader_who_fell_behind_does_not_take_others_with_it(lone_gateway: Gateways, way: Way) -> None:
    reply, held = Hesitant(tool_calls(("held", {}), content=TEXT)), Held()
    model = ScriptedModel(reply, "Done.")
    async with lone_gateway(model, [held.tool], settings=FEW) as client, reading_slowly(client, way) as reader:
        reply.go_on.set()
        await held.begun()
        async with client.stream(
            "GET", f"/runs/{reader.run_id}/events", params={"after": 2 + 100 + 3 - 10}
        ) as response:
            assert "stream.cut_off" in "".join(await reader.rest())
            held.let_go.set()
            async with asyncio.timeout(PATIENCE):
                text = (await response.aread()).decode()

    events = events_in(text.removeprefix(RETRY))
    assert [event.id for event in events] == list(range(96, 96 + len(events)))
    assert (events[-1].name, events[-1].data["content"]) == ("run.completed", "Done.")


@pytest.mark.fault("D03")
@each_way
async def test_a_slow_reader_who_leaves_has_left_like_any_other(gateway: Gateways, way: Way) -> None:
    reply, held = Hesitant(tool_calls(("held", {}), content=TEXT)), Held()
    async with gateway(ScriptedModel(reply), [held.tool], settings=AT_ONCE) as client:
        async with reading_slowly(client, way) as reader:
            reply.go_on.set()
            await held.begun()
        run = await ended(client, reader.run_id)

    assert (run["status"], run["answer"]["content"], held.cancelled) == ("cancelled", TEXT, 1)


async def test_a_late_reader_is_sent_what_is_there_in_writes_that_are_bounded(gateway: Gateways) -> None:
    text = " ".join(["word"] * 1_500)
    async with gateway(ScriptedModel(text)) as client:
        begun = await client.post("/chat/stream", json=HELLO)
        async with client.stream("GET", begun.headers["location"]) as response:
            sizes = [len(events_in(written.decode().removeprefix(RETRY))) async for written in response.aiter_raw()]

    assert sum(sizes) == 2 + 1_500 + 2
    assert max(sizes) <= 512
    assert len(sizes) < 10
