"""What is told of runs: of one, how far it is and what came of it; of all, the newest first."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest

from app.chat import ModelUnavailable
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from app.web.documents import RunDocument, RunsDocument
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
    ended,
    every_door,
    name_of,
    newest,
    problem_of,
    read,
)

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
GOING = {"ended_at": None, "answer": None, "problem": None}


async def told(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    """What is told of one run, which fits its schema."""
    response = await client.get(f"/runs/{run_id}")
    assert response.status_code == 200
    RunDocument.model_validate(response.json())
    return dict(response.json())


async def pages(client: httpx.AsyncClient, **asked: Any) -> list[list[str]]:
    """The ids of the runs, page by page to the last."""
    found: list[list[str]] = []
    before: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE):
        while True:
            page = (await client.get("/runs", params={**asked, **before})).json()
            RunsDocument.model_validate(page)
            found.append([run["id"] for run in page["runs"]])
            if page["next"] is None:
                return found
            before = {"before": page["next"]}


# --- one run


@both_modes
async def test_a_run_is_running_and_then_completed_with_the_answer_that_its_caller_has(
    gateway: Gateways, *, stream: bool
) -> None:
    held = Held()
    async with gateway(ScriptedModel(tool_calls(("held", {})), "Done."), [held.tool]) as client:
        asking = asyncio.create_task(ask(client, stream=stream, conversation_id="c"))
        await held.begun()
        running = await told(client, await newest(client))
        held.let_go.set()
        reply = await asking
        completed = await told(client, reply.document["id"])

    summary = {"id": reply.document["id"], "conversation_id": "c", "created_at": running["created_at"]}
    assert running == {**summary, "status": "running", **GOING}
    assert completed == {
        **summary,
        "status": "completed",
        "ended_at": completed["ended_at"],
        "answer": reply.document,
        "problem": None,
    }
    created, over = completed["created_at"], completed["ended_at"]
    assert TIME.fullmatch(created)
    assert TIME.fullmatch(over)
    assert created <= over


@both_modes
async def test_a_run_is_queued_while_it_waits_for_its_conversation(gateway: Gateways, *, stream: bool) -> None:
    reply = Hesitant("First.")
    async with gateway(ScriptedModel(reply, "Second."), settings=AT_ONCE) as client:
        first = asyncio.create_task(ask(client, stream=stream, conversation_id="c"))
        await reply.asked.wait()
        body = {"message": "And?", "conversation_id": "c", "when_busy": "queue", "background": True}
        run_id = (await client.post("/chat", json=body)).json()["id"]
        queued = await told(client, run_id)
        reply.go_on.set()
        assert (await first).document["content"] == "First."
        completed = await ended(client, run_id)
        seen = await read(client, run_id)

    assert queued == {
        "id": run_id, "status": "queued", "conversation_id": "c", "created_at": queued["created_at"], **GOING
    }  # fmt: skip
    assert (completed["status"], completed["answer"]["content"]) == ("completed", "Second.")
    assert [name_of(event) for event in seen][:2] == ["run.started", "round.started"]


@both_modes
async def test_a_cancelled_run_has_the_answer_that_its_caller_has(gateway: Gateways, *, stream: bool) -> None:
    held = Held()
    async with gateway(ScriptedModel(tool_calls(("held", {}), content="Looking")), [held.tool]) as client:
        asking = asyncio.create_task(ask(client, stream=stream))
        await held.begun()
        run_id = await newest(client)
        await client.post(f"/runs/{run_id}/cancel")
        reply = await asking
        cancelled = await told(client, run_id)

    assert (cancelled["status"], cancelled["problem"]) == ("cancelled", None)
    assert cancelled["answer"] == reply.document
    assert (reply.document["finish_reason"], reply.document["content"]) == ("cancelled", "Looking")


@both_modes
async def test_a_failed_run_has_the_problem_that_its_caller_has(gateway: Gateways, *, stream: bool) -> None:
    broken = ModelUnavailable("the model server is tired", status=503, code="tired")
    async with gateway(ScriptedModel(broken, Cut("Half a", broken))) as client:
        for _ in range(2):
            reply = await ask(client, stream=stream)
            failed = await told(client, await newest(client))
            assert (failed["status"], failed["answer"]) == ("failed", None)
            assert failed["problem"] == reply.document
            assert reply.document["type"] == "urn:advisor-gateway:model-unavailable"


# --- all runs


async def test_runs_are_listed_the_newest_first_those_that_are_going_too(gateway: Gateways) -> None:
    held = Held()
    model = ScriptedModel("Hi", ModelUnavailable("down"), tool_calls(("held", {})), "Hi", "Done.")
    async with gateway(model, [held.tool], settings=AT_ONCE) as client:
        await ask(client, stream=False, conversation_id="c")
        await ask(client, stream=True)
        going = await begun_and_left(client, "call", held.begun)
        await ask(client, stream=True, conversation_id="c")
        listed = (await client.get("/runs")).json()
        one_by_one = [await told(client, run["id"]) for run in listed["runs"]]
        held.let_go.set()
        await ended(client, going)

    RunsDocument.model_validate(listed)
    assert [run["status"] for run in listed["runs"]] == ["completed", "running", "failed", "completed"]
    assert [run["conversation_id"] for run in listed["runs"]] == ["c", None, None, "c"]
    assert listed["runs"][1]["id"] == going
    assert listed["next"] is None
    for summary, whole in zip(listed["runs"], one_by_one, strict=True):
        assert summary.items() <= whole.items()
        assert set(whole) - set(summary) == {"answer", "problem"}


@every_door
async def test_a_run_is_listed_whatever_door_it_came_by(gateway: Gateways, door: Door) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply), settings=AT_ONCE) as client:
        assert (await client.get("/runs")).json() == {"runs": [], "next": None}
        run_id = await begun_and_left(client, door, reply.asked.wait)
        assert await pages(client) == [[run_id]]
        reply.go_on.set()
        await ended(client, run_id)
        assert await pages(client) == [[run_id]]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100])
async def test_going_from_page_to_page_shows_every_run_once(gateway: Gateways, limit: int) -> None:
    async with gateway(ScriptedModel(forever="Hi")) as client:
        begun = [(await ask(client, stream=False)).document["id"] for _ in range(4)]
        found = await pages(client, limit=limit)

    newest_first = begun[::-1]
    assert found == [newest_first[start : start + limit] for start in range(0, 4, limit)]


async def test_a_page_is_the_same_whatever_was_begun_or_forgotten_since(lone_gateway: Gateways) -> None:
    async with lone_gateway(ScriptedModel(forever="Hi"), settings={"runs": {"max_kept": 3}}) as client:
        begun = [(await ask(client, stream=False)).document["id"] for _ in range(3)]
        first = (await client.get("/runs", params={"limit": 1})).json()
        begun.append((await ask(client, stream=False)).document["id"])  # the oldest is forgotten for it
        second = (await client.get("/runs", params={"limit": 1, "before": first["next"]})).json()
        of_a_forgotten_one = await client.get("/runs", params={"before": begun[0]})

    assert [run["id"] for run in first["runs"]] == [begun[2]]
    assert [run["id"] for run in second["runs"]] == [begun[1]]
    assert second["next"] is None
    assert of_a_forgotten_one.json() == {"runs": [], "next": None}


async def test_a_page_has_twenty_runs_unless_asked_otherwise(gateway: Gateways) -> None:
    async with gateway(ScriptedModel(forever="Hi")) as client:
        for _ in range(21):
            await ask(client, stream=False)
        found = await pages(client)

    assert list(map(len, found)) == [20, 1]


async def test_the_runs_of_one_conversation_are_listed_by_themselves(gateway: Gateways) -> None:
    async with gateway(ScriptedModel(forever="Hi")) as client:
        begun = [
            (await ask(client, stream=False, conversation_id=conversation)).document["id"]
            for conversation in ("a", "b", None, "a", "b", "a")
        ]
        found = [await pages(client, conversation_id=one, limit=2) for one in ("a", "b", "nobody's", "")]

    assert found == [[[begun[5], begun[3]], [begun[0]]], [[begun[4], begun[1]]], [[]], [[]]]


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "1.5", "٣", "9" * 19])
async def test_a_page_of_another_size_is_refused(gateway: Gateways, limit: str) -> None:
    async with gateway(ScriptedModel()) as client:
        refused = await client.get("/runs", params={"limit": limit})

    assert problem_of(refused) == (422, "parameter-invalid")
    assert "limit" in refused.json()["detail"]


@pytest.mark.parametrize("before", ["x", "run_", f"run_{0:031x}", f"run_{0:033x}", f"RUN_{0:032x}", "run_" + "é" * 32])
async def test_a_page_that_begins_at_no_run_is_refused(gateway: Gateways, before: str) -> None:
    async with gateway(ScriptedModel()) as client:
        refused = await client.get("/runs", params={"before": before})

    assert problem_of(refused) == (422, "parameter-invalid")
    assert "before" in refused.json()["detail"]
