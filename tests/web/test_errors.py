"""Every error is a problem document, the same by both endpoints, before and after the first byte."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from app.chat import (
    BaseAdvisor,
    ChatRequest,
    ConfigurationError,
    ContentRefused,
    ContextLengthExceeded,
    GatewayError,
    ModelAuthenticationFailed,
    ModelError,
    ModelNotFound,
    ModelProtocolError,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
    QuotaExceeded,
    Tool,
    ToolError,
    ToolFailed,
)
from app.main import create_app
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from app.runs import ConversationBusy, GatewayFull, ShuttingDown
from app.web import application
from app.web.documents import ProblemDocument
from app.web.errors import HANDLERS, KINDS, Problems, problem_of
from tests.support.modes import both_modes
from tests.support.tools import failing
from tests.support.web import ask, gateway, serving


class Tired(ModelUnavailable):
    """A subclass that the table does not know."""


ERRORS: list[tuple[Exception, int, str]] = [
    (ModelRejected("no such model", status=404), 502, "model-rejected"),
    (ContextLengthExceeded("too long", status=400), 502, "context-length-exceeded"),
    (ContentRefused("not this", status=400), 502, "content-refused"),
    (ModelAuthenticationFailed("wrong key", status=401), 502, "model-authentication-failed"),
    (ModelNotFound("never heard of it", status=404), 502, "model-not-found"),
    (ModelProtocolError("the answer was cut"), 502, "model-protocol-error"),
    (ModelUnavailable("nobody listens"), 502, "model-unavailable"),
    (ModelRateLimited("too often", status=429), 429, "model-rate-limited"),
    (QuotaExceeded("pay first", status=429), 429, "model-quota-exceeded"),
    (ModelTimeout("too slow"), 504, "model-timeout"),
    (ModelError("of no known kind"), 502, "model-error"),
    (Tired("worn out"), 502, "model-unavailable"),
    (ToolFailed("the door is locked"), 500, "tool-error"),
    (ConfigurationError("two loops"), 500, "misconfigured"),
    (GatewayError("refused by an advisor"), 500, "gateway-error"),
]
CASES = pytest.mark.parametrize(("error", "status", "name"), ERRORS, ids=[type(error).__name__ for error, *_ in ERRORS])


class Raising(BaseAdvisor):
    """An advisor that refuses every request."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def before(self, request: ChatRequest) -> ChatRequest:
        raise self._error


def errors_in(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What was logged as an error."""
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.fault("S10")
@both_modes
@CASES
async def test_an_error_has_its_status_and_its_type(error: Exception, status: int, name: str, *, stream: bool) -> None:
    async with gateway(ScriptedModel(error)) as client:
        reply = await ask(client, stream=stream)

    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.status == reply.document["status"] == status
    assert reply.document["type"] == f"urn:advisor-gateway:{name}"
    assert reply.document["title"]
    assert (reply.document["detail"] == str(error)) != isinstance(error, ConfigurationError)
    assert reply.document["request_id"] == reply.headers["x-request-id"]
    ProblemDocument.model_validate(reply.document)


@pytest.mark.fault("S01")
@CASES
async def test_after_the_first_byte_it_is_an_event_with_the_same_document(
    error: Exception, status: int, name: str
) -> None:
    broken = Cut("Well,", error) if isinstance(error, ModelError) else tool_calls(("fail", {}))
    settings = {"tool_calling": {"raise_errors": True}}
    async with gateway(ScriptedModel(error), settings=settings) as client:
        before = await ask(client, stream=True)
    async with gateway(ScriptedModel(broken), [failing("fail", error)], settings=settings) as client:
        after = await ask(client, stream=True)

    if isinstance(error, ToolError):
        assert after.of("tool_call.error")[0]["error"] == str(error)  # what a tool says on purpose is for the model
        return
    assert (before.status, after.status, after.names[-1]) == (status, 200, "run.failed")
    del before.document["request_id"], after.document["request_id"]
    assert before.document == after.document


@pytest.mark.fault("S01", "S10")
@both_modes
@pytest.mark.parametrize("begun", [False, True], ids=["before", "after the first byte"])
async def test_a_fault_of_ours_is_told_without_details_and_logged_once_with_them(
    caplog: pytest.LogCaptureFixture, *, begun: bool, stream: bool
) -> None:
    fault = ZeroDivisionError("secret inner state")
    script = (tool_calls(("fail", {})),) if begun else (fault,)
    settings = {"tool_calling": {"raise_errors": True}}
    async with gateway(ScriptedModel(*script), [failing("fail", fault)], settings=settings) as client:
        reply = await ask(client, stream=stream)

    if stream and begun:
        assert (reply.status, reply.names[-1]) == (200, "run.failed")
    else:
        assert reply.status == 500
    assert reply.document["type"] == "urn:advisor-gateway:internal"
    assert "secret" not in str(reply.document)
    (record,) = errors_in(caplog)
    assert record.exc_info
    assert record.exc_info[1] is fault


@pytest.mark.fault("S08")
async def test_a_fault_outside_of_a_run_is_told_and_logged_in_the_same_way(caplog: pytest.LogCaptureFixture) -> None:
    broken = False

    def provider() -> list[Tool]:
        if broken:
            raise ZeroDivisionError("secret inner state")
        return []

    async with gateway(ScriptedModel(), [provider]) as client:
        broken = True
        response = await client.get("/tools")

    assert response.status_code == 500
    assert response.json()["request_id"] == response.headers["x-request-id"]
    assert "secret" not in response.text
    (record,) = errors_in(caplog)
    assert record.exc_info


async def test_an_error_outside_of_a_run_that_is_the_operators_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    broken = False

    def provider() -> list[Tool]:
        if broken:
            raise ConfigurationError("the tools moved away")
        return []

    async with gateway(ScriptedModel(), [provider]) as client:
        broken = True
        response = await client.get("/tools")

    assert response.status_code == 500
    assert "moved" not in response.text
    assert ["the tools moved away" in record.getMessage() for record in errors_in(caplog)] == [True]


@both_modes
async def test_an_advisor_may_refuse_with_an_error_of_its_own(*, stream: bool) -> None:
    error = GatewayError("the advisor knows better")
    async with gateway(ScriptedModel(), advisors=[Raising(error)]) as client:
        reply = await ask(client, stream=stream)

    assert (reply.status, reply.document["detail"]) == (500, str(error))


# --- details


@pytest.mark.fault("E01")
@both_modes
async def test_the_model_servers_status_and_code_are_told(*, stream: bool) -> None:
    error = ModelRateLimited("pay first", status=429, code="insufficient_quota")
    async with gateway(ScriptedModel(error)) as client:
        document = (await ask(client, stream=stream)).document

    assert (document["code"], document["upstream_status"]) == ("insufficient_quota", 429)


@both_modes
@pytest.mark.parametrize(
    ("wanted", "told"),
    [(7, 7), (0.2, 1), (2.1, 3), (0, 1), (-5, 1), (1e9, 86_400), (None, 10), (float("inf"), 10), (float("nan"), 10)],
)
async def test_who_is_rate_limited_is_told_when_to_come_back(wanted: float | None, told: int, *, stream: bool) -> None:
    async with gateway(ScriptedModel(ModelRateLimited("too often", retry_after=wanted))) as client:
        reply = await ask(client, stream=stream)

    assert reply.headers["retry-after"] == str(told)
    assert reply.document["retry_after"] == told


@both_modes
async def test_who_has_used_up_the_quota_is_not_told_to_come_back_in_a_moment(*, stream: bool) -> None:
    async with gateway(ScriptedModel(QuotaExceeded("pay first"), QuotaExceeded("next month", retry_after=7))) as client:
        told = [(await ask(client, stream=stream)).headers["retry-after"] for _ in range(2)]

    assert told == ["3600", "7"]


def test_the_page_on_http_names_every_type_of_problem() -> None:
    page = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`([a-z-]+)`", page))

    # What only a fault of the set-up shows is "and others" there.
    assert {kind.name for kind in KINDS.values() if kind.status != 500} - {"model-error"} <= told


@pytest.mark.parametrize(
    ("error", "status", "header"),
    [(ConversationBusy("c"), 409, None), (GatewayFull("full"), 503, "1"), (ShuttingDown("bye"), 503, "5")],
    ids=["busy", "full", "shutting down"],
)
def test_a_run_that_was_not_begun_says_when_to_come_back(error: Exception, status: int, header: str | None) -> None:
    response = problem_of(error).response()

    assert response.status_code == status
    assert response.headers.get("retry-after") == header


def test_no_two_kinds_of_problem_share_a_name() -> None:
    names = [kind.name for kind in KINDS.values()]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("method", "path", "status", "name"),
    [
        ("GET", "/", 404, "not-found"),
        ("GET", "/nothing", 404, "not-found"),
        ("POST", "/chat/", 404, "not-found"),
        ("POST", "/nothing/%0d%0aX: y", 404, "not-found"),
        ("DELETE", "/chat", 405, "method-not-allowed"),
        ("POST", "/tools", 405, "method-not-allowed"),
        ("PUT", "/readyz", 405, "method-not-allowed"),
    ],
)
async def test_what_is_not_there_is_a_problem_document_too(method: str, path: str, status: int, name: str) -> None:
    async with gateway(ScriptedModel()) as client:
        response = await client.request(method, path)

    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == f"urn:advisor-gateway:{name}"
    assert ("allow" in response.headers) == (status == 405)
    ProblemDocument.model_validate(response.json())


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/chat", "POST"),
        ("/readyz", "GET, HEAD"),
        ("/conversations", "GET"),
        ("/conversations/c", "DELETE, GET"),
        ("/conversations/c/fork", "DELETE, GET, POST"),  # a conversation may be called c/fork
    ],
)
async def test_a_method_that_an_address_does_not_take_is_told_all_that_it_takes(path: str, methods: str) -> None:
    async with gateway(ScriptedModel()) as client:
        response = await client.put(path)

    assert response.status_code == 405
    assert response.headers.get_list("allow") == [methods]


async def test_a_fault_after_the_response_has_begun_is_left_to_the_server() -> None:
    fault = ZeroDivisionError("cut here")

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise fault

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is received")

    with pytest.raises(ZeroDivisionError):
        await Problems(broken, HANDLERS)({"type": "http", "method": "GET", "path": "/"}, receive, send)

    assert [message["type"] for message in sent] == ["http.response.start"]


async def test_a_handlers_response_that_breaks_off_is_left_to_the_server() -> None:
    sent: list[Message] = []

    async def broken(_: Scope, __: Receive, ___: Send) -> None:
        raise ValueError

    async def tell(_: Request, __: Exception) -> StreamingResponse:
        return StreamingResponse(breaking_off())

    async def breaking_off() -> AsyncIterator[str]:
        yield "I was"
        raise ZeroDivisionError

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "asgi": {"spec_version": "2.4"}, "method": "GET", "path": "/", "headers": []}
    with pytest.raises(ZeroDivisionError):
        await Problems(broken, {ValueError: tell})(scope, receive, send)

    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]


async def test_a_lifespan_that_yields_no_gateway_is_said_to_be_wrong(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, object]]:
        yield {"gateway": None}

    async with serving(application(lifespan, version="0")) as client:
        response = await client.get("/tools")

    assert response.status_code == 500
    assert "lifespan was not run, or does not yield one" in caplog.text


async def test_an_application_that_was_not_started_says_so(caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(model=ScriptedModel("Hi"), tools=[])

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        response = await client.post("/chat", json={"message": "Hello"})

    assert response.status_code == 500
    assert "lifespan was not run" in caplog.text
