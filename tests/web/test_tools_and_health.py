"""What the gateway tells of itself: its tools, that it lives, and that it can serve."""

from __future__ import annotations

import asyncio
from typing import Annotated

import pytest

from app.main import create_app
from app.providers.scripted import ScriptedModel, tool_calls
from app.settings import Settings
from app.tooling import ToolParam, tool
from app.web.documents import AliveDocument, ReadyDocument, ToolsDocument
from tests.support.gates import PATIENCE
from tests.support.modes import both_modes
from tests.support.tools import Held
from tests.support.web import ENDPOINTS, ask, gateway, opened


@tool(default=False, return_direct=True, sequential=True, idempotent=True, timeout=5, max_calls=2)
def open_door(room: Annotated[str, ToolParam(description="Which one.")], times: int = 1) -> str:
    """Open a door."""
    return room * times


@tool
def ring() -> None:
    """Ring the bell."""


async def test_tools_are_listed_with_schemas_and_defaults_also_those_not_offered_by_default() -> None:
    async with gateway(ScriptedModel(), [open_door, ring]) as client:
        document = (await client.get("/tools")).json()

    ToolsDocument.model_validate(document)
    door, bell = document["tools"]
    schema = door.pop("input_schema")
    assert door == {
        "name": "open_door",
        "description": "Open a door.",
        "default": False,
        "return_direct": True,
        "sequential": True,
        "idempotent": True,
        "timeout": 5,
        "max_calls": 2,
    }
    assert schema["properties"]["room"]["description"] == "Which one."
    assert schema["required"] == ["room"]
    assert (bell["name"], bell["default"], bell["timeout"], bell["max_calls"]) == ("ring", True, None, None)


async def test_without_tools_the_list_is_empty() -> None:
    async with gateway(ScriptedModel()) as client:
        assert (await client.get("/tools")).json() == {"tools": []}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_can_be_asked_without_a_body(path: str) -> None:
    async with gateway(ScriptedModel()) as client:
        assert (await client.head(path)).status_code == 200


async def test_the_process_says_that_it_lives() -> None:
    async with gateway(ScriptedModel()) as client:
        response = await client.get("/healthz")

    assert response.status_code == 200
    AliveDocument.model_validate(response.json())


async def test_a_gateway_that_serves_says_with_which_model_and_asks_it_nothing() -> None:
    model = ScriptedModel()
    async with gateway(model, [ring]) as client:
        response = await client.get("/readyz")

    assert response.json() == {"status": "ready", "model": "scripted", "demo": False}
    assert model.prompts == []


async def test_a_demo_says_loudly_that_it_is_one_and_how_to_end_that() -> None:
    async with gateway() as client:
        document = (await client.get("/readyz")).json()

    ReadyDocument.model_validate(document)
    assert (document["model"], document["demo"]) == ("demo", True)
    assert "GATEWAY_MODEL__BASE_URL" in document["note"]


@both_modes
async def test_a_gateway_on_its_way_out_lives_refuses_new_work_and_lets_what_is_going_end(*, stream: bool) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {})), "Done.")
    async with opened(create_app(Settings(), model=model, tools=[held.tool])) as (client, gateway_):
        going = asyncio.create_task(ask(client, stream=stream))
        await held.begun()
        draining = asyncio.create_task(gateway_.runs.drain(PATIENCE))
        await asyncio.sleep(0)
        alive = await client.get("/healthz")
        calls = {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "name": "held"}]}]}
        refused = [
            await client.get("/readyz"),
            await client.post("/tool-calls", json=calls),
            *[await client.post(path, json={"message": "Hello"}) for path in ENDPOINTS.values()],
        ]
        held.let_go.set()
        ended = await going
        await draining

    assert alive.status_code == 200
    for response in refused:
        assert (response.status_code, response.json()["type"]) == (503, "urn:advisor-gateway:shutting-down")
        assert response.headers["retry-after"]
    assert ended.document["content"] == "Done."


@both_modes
async def test_a_run_that_does_not_end_in_time_fails_with_the_reason(*, stream: bool) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {})))
    async with opened(create_app(Settings(), model=model, tools=[held.tool])) as (client, gateway_):
        going = asyncio.create_task(ask(client, stream=stream))
        await held.begun()
        await gateway_.runs.drain(0)
        ended = await going

    assert (ended.status, ended.names[-1:]) == ((200, ["run.failed"]) if stream else (503, []))
    assert ended.document["type"] == "urn:advisor-gateway:shutting-down"
    assert held.cancelled == 1
