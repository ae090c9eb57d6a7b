"""The OpenAPI page is true: what it says of bodies, answers, events and problems is what happens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from app.advisors import SafeguardAdvisor
from app.chat import ModelRateLimited
from app.main import create_app
from app.providers.scripted import ScriptedModel, tool_calls
from app.settings import Settings
from app.web.errors import KINDS
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.openapi import Page
from tests.support.tools import echo
from tests.support.web import ENDPOINTS, gateway, reply_of, serving

USER = {"role": "user", "content": "Hello"}
CALL = {"role": "assistant", "tool_calls": [{"id": "a", "name": "echo", "arguments": "{}"}]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": ""}


@pytest.fixture(scope="module")
def page() -> Page:
    """The page."""
    return Page(create_app(Settings(), model=ScriptedModel(), tools=[]).openapi())


def references(value: Any) -> Iterator[str]:
    """Every `$ref` in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_leads_somewhere_and_every_schema_is_one(page: Page) -> None:
    schemas = page.document["components"]["schemas"]

    assert {reference.removeprefix("#/components/schemas/") for reference in references(page.document)} <= set(schemas)
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)


def test_every_route_is_described_with_every_error_it_can_give(page: Page) -> None:
    described = {
        path: {method: set(operation["responses"]) for method, operation in methods.items()}
        for path, methods in page.document["paths"].items()
    }
    run = {"200", "400", "409", "413", "415", "422", "429", "500", "502", "503", "504"}

    assert described == {
        "/chat": {"post": run | {"202"}},
        "/chat/stream": {"post": run | {"410"}},
        "/runs": {"get": {"200", "422", "500", "503"}},
        "/runs/{run_id}": {"get": {"200", "404", "410", "500", "503"}},
        "/runs/{run_id}/cancel": {"post": {"202", "404", "410", "500", "503"}},
        "/runs/{run_id}/events": {"get": {"200", "204", "404", "410", "422", "500", "503"}},
        "/conversations": {"get": {"200", "422", "500", "501", "503"}},
        "/conversations/{conversation_id}": {
            "get": {"200", "404", "500", "501", "503"},
            "delete": {"204", "404", "409", "500", "501", "503"},
        },
        "/conversations/{conversation_id}/fork": {
            "post": {"201", "400", "404", "409", "413", "415", "422", "500", "501", "503"}
        },
        "/tool-calls": {"post": {"200", "400", "413", "415", "422", "500", "503"}},
        "/tools": {"get": {"200", "500"}},
        "/healthz": {"get": {"200", "500"}},
        "/readyz": {"get": {"200", "500", "503"}},
    }
    everywhere = {status for methods in described.values() for statuses in methods.values() for status in statuses}
    assert {str(kind.status) for kind in KINDS.values()} < everywhere


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        ({"message": "Hello"}, True),
        ({"message": "Hello", "messages": None, "options": None, "tools": None}, True),
        ({"messages": [USER, CALL, RESULT]}, True),
        ({"messages": [{**CALL, "content": None}, RESULT]}, True),
        ({"message": "Hello", "options": {"temperature": 1, "stop": "x", "tool_choice": "auto"}}, True),
        ({"message": "Hello", "tool_context": {"a": {"b": [None]}}}, True),
        ({}, False),
        ({"message": None}, False),
        ({"message": "Hello", "messages": [USER]}, False),
        ({"message": " "}, False),
        ({"message": "Hello", "unknown": 1}, False),
        ({"message": "Hello", "conversation_id": "a\nb"}, False),
        ({"message": "Hello", "conversation_id": ""}, False),
        ({"message": "Hello", "tool_context": {"a": None}}, False),
        ({"message": "Hello", "tool_context": {" ": 1}}, False),
        ({"message": "Hello", "options": {"temperature": 3}}, False),
        ({"message": "Hello", "options": {"seed": "7"}}, False),
        ({"messages": []}, False),
        ({"messages": [{"role": "robot", "content": "x"}]}, False),
        ([], False),
    ],
    ids=str,
)
@both_modes
async def test_the_schema_of_a_body_and_the_gateway_agree(body: Any, fits: bool, page: Page, *, stream: bool) -> None:
    async with gateway(ScriptedModel("Hi"), [echo()]) as client:
        response = await client.post(ENDPOINTS[stream], json=body)

    assert page.validator(page.body(ENDPOINTS[stream])["schema"]).is_valid(body) is fits
    assert response.status_code == (200 if fits else 422)


async def test_every_answer_and_problem_fits_its_schema(page: Page) -> None:
    script = (
        tool_calls(("echo", {"n": 1}), ("nobody", {})),
        "Done.",
        ModelRateLimited("too often", code="slow", status=429),
    )
    async with gateway(ScriptedModel(*script), [echo()]) as client:
        responses = [
            await client.post("/chat", json={"message": "Hello"}),
            await client.post("/chat", json={"message": "Hello"}),
            await client.post("/chat", json={"massage": "Hello"}),
            await client.post("/chat/stream", content=b"{"),
            await client.post("/tool-calls", json={"messages": [USER, CALL]}),
            await client.get("/tools"),
            await client.get("/healthz"),
            await client.get("/readyz"),
        ]

    assert [response.status_code for response in responses] == [200, 429, 422, 400, 200, 200, 200, 200]
    for response in responses:
        page.check(response)


async def test_every_event_fits_its_schema(page: Page) -> None:
    model = ScriptedModel(tool_calls(("echo", {"n": 1}), ("nobody", {})), "Done.", tool_calls(("fail", {})))
    async with gateway(model, [echo()]) as client:
        responses = [
            await client.post("/chat/stream", json={"message": "Hello"}),
            await client.post("/chat/stream", json={"message": "Hello", "tools": []}),
        ]
    async with gateway(ScriptedModel(), advisors=[SafeguardAdvisor(["hello"])]) as client:
        responses.append(await client.post("/chat/stream", json={"message": "Hello"}))

    replies = [reply_of(response) for response in responses]
    assert [reply.names[-1] for reply in replies] == ["run.completed", "run.failed", "run.completed"]
    assert replies[-1].names == ["run.started", "text.delta", "run.completed"], "an answer without a round"
    for response in responses:
        page.check(response)


async def test_the_end_of_a_stream_whose_reader_fell_out_fits_the_page_and_ends_no_run(page: Page) -> None:
    reply, settings = Hesitant("one two three four five"), {"runs": {"max_events": 3}, "stream": {"commit_after": 0}}
    async with gateway(ScriptedModel(reply), settings=settings) as client:
        async with client.stream("POST", "/chat/stream", json={"message": "Hello"}) as cut_off:
            reply.go_on.set()
            await cut_off.aread()
        gone = await client.get(cut_off.headers["location"])
        run = (await client.get(cut_off.headers["location"].removesuffix("/events"))).json()
        rest = await client.get(cut_off.headers["location"], params={"after": gone.json()["first"] - 1})

    assert run["status"] == "completed", "who is sent away has not left"
    assert (gone.status_code, rest.text.count("event: run.completed")) == (410, 1)
    page.check(gone)
    assert "event: stream.cut_off" in cut_off.text
    assert "event: run.completed" not in cut_off.text
    page.check(cut_off)


@pytest.mark.parametrize(("path", "method"), [("/chat/stream", "post"), ("/runs/{run_id}/events", "get")])
def test_every_event_of_the_contract_is_described(page: Page, path: str, method: str) -> None:
    contract = (
        "run.started round.started text.delta reasoning.delta tool_call.started tool_call.arguments tool_call.ready"
        " tool_call.progress tool_call.result tool_call.error round.completed run.completed run.cancelled run.failed"
        " stream.cut_off"
    )

    assert set(page.events(path, method)) == set(contract.split())


async def test_every_example_of_a_body_fits_and_is_answered(page: Page) -> None:
    asked = 0
    async with serving(create_app(Settings())) as client:
        for path in ("/chat", "/chat/stream", "/tool-calls"):
            for example in page.body(path)["examples"].values():
                page.validator(page.body(path)["schema"]).validate(example["value"])
                response = await client.post(path, json=example["value"])
                assert response.status_code in {200, 202}
                page.check(response)
                asked += 1

    assert asked == 5


def test_every_link_leads_to_a_route_that_takes_what_it_hands_over(page: Page) -> None:
    links = [
        link
        for methods in page.document["paths"].values()
        for operation in methods.values()
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]

    assert links
    for link in links:
        _, _, path, method = link["operationRef"].split("/")
        operation = page.document["paths"][path.replace("~1", "/")][method]
        assert set(link["parameters"]) <= {parameter["name"] for parameter in operation["parameters"]}


@pytest.mark.fault("C07")
@pytest.mark.parametrize("docs", [True, False])
async def test_the_pages_can_be_switched_off(docs: bool) -> None:
    app = create_app(Settings(server={"docs": docs}), model=ScriptedModel(), tools=[])
    async with serving(app) as client:
        found = [(await client.get(path)).status_code for path in ("/docs", "/redoc", "/openapi.json")]
        alive = await client.get("/healthz")

    assert found == [200 if docs else 404] * 3
    assert alive.status_code == 200


def test_what_callers_read_first_is_there(page: Page) -> None:
    assert re.fullmatch(r"3\.\d+\.\d+", page.document["openapi"])
    for methods in page.document["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["description"]
