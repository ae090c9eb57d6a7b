"""One id for each request, in the header, in problems and in the log; and what browsers need."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from app.chat import Prompt
from app.providers.scripted import ScriptedModel
from app.web.request_ids import RequestIdFilter, RequestIds, current_request_id
from tests.support.modes import both_modes
from tests.support.web import ENDPOINTS, gateway

PAGE = "https://app.example.org"


async def id_of(given: str | None) -> str:
    """The id of a request whose caller gives this one."""
    async with gateway(ScriptedModel()) as client:
        headers = {} if given is None else {b"x-request-id": given.encode("latin-1")}
        response = await client.get("/healthz", headers=headers)
    return response.headers["x-request-id"]


@pytest.mark.parametrize("given", ["abc", "0af7651916cd43dd", "a.b-c_d:e/f+g=", "x" * 128])
async def test_a_sane_id_of_the_callers_own_is_kept(given: str) -> None:
    assert await id_of(given) == given


@pytest.mark.parametrize("given", [None, "", "x" * 129, "a b", "caf\xe9", 'a"b', "-a", "a\tb"])
async def test_without_a_sane_one_an_id_is_made_for_each_request(given: str | None) -> None:
    made = await id_of(given)

    assert made not in {given, await id_of(given)}
    assert len(made) == 32


@pytest.mark.parametrize("headers", [None, [(b"x-request-id", b"theirs"), (b"x-request-id", b"twice")], [(b"a", b"b")]])
async def test_a_response_has_one_id_whatever_the_application_sent(headers: list[tuple[bytes, bytes]] | None) -> None:
    sent: list[Message] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        start: Message = {"type": "http.response.start", "status": 204}
        await send(start if headers is None else {**start, "headers": headers})

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is received")

    await RequestIds(app)({"type": "http", "headers": [(b"x-request-id", b"mine")]}, receive, send)

    others = [(name, value) for name, value in headers or [] if name != b"x-request-id"]
    assert sent[0]["headers"] == [*others, (b"x-request-id", b"mine")]


@both_modes
async def test_a_problem_names_its_request(*, stream: bool) -> None:
    async with gateway(ScriptedModel()) as client:
        response = await client.post(ENDPOINTS[stream], content=b"", headers={"x-request-id": "mine"})

    assert response.json()["request_id"] == response.headers["x-request-id"] == "mine"


@pytest.mark.fault("K07")
@both_modes
async def test_what_is_logged_while_a_run_goes_on_carries_the_id_of_its_request(*, stream: bool) -> None:
    logged: dict[str, str] = {}

    async def log(prompt: Prompt) -> str:
        await asyncio.sleep(0)
        record = logging.LogRecord("test", logging.INFO, "", 0, "", (), None)
        assert RequestIdFilter().filter(record)
        logged[prompt.messages[0].content] = record.__dict__["request_id"]  # type: ignore[union-attr] # the user's
        return "Hi"

    async with gateway(ScriptedModel(forever=log)) as client:
        client_ids = {name: httpx.Headers({"x-request-id": f"id-of-{name}"}) for name in ("ada", "bob")}
        await asyncio.gather(
            *[
                client.post(ENDPOINTS[stream], json={"message": name}, headers=headers)
                for name, headers in client_ids.items()
            ]
        )

    assert logged == {"ada": "id-of-ada", "bob": "id-of-bob"}
    assert current_request_id() == "-"


@pytest.mark.fault("X02")
@both_modes
async def test_headers_that_may_hold_keys_are_not_logged(caplog: pytest.LogCaptureFixture, *, stream: bool) -> None:
    caplog.set_level(logging.DEBUG)
    headers = {"authorization": "Bearer sk-very-secret", "x-api-key": "sk-very-secret", "cookie": "k=sk-very-secret"}
    async with gateway(ScriptedModel("Hi")) as client:
        await client.post(ENDPOINTS[stream], json={"message": "a private question"}, headers=headers)
        await client.post(ENDPOINTS[stream], json={"message": ["sk-very-secret"]}, headers=headers)

    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("http")]
    assert not [line for line in ours if "sk-very-secret" in line or "private" in line]


# --- browsers


async def test_a_page_of_an_allowed_origin_may_ask_and_read_what_it_needs() -> None:
    async with gateway(ScriptedModel("Hi"), settings={"server": {"cors_origins": [PAGE]}}) as client:
        preflight = await client.options(
            "/chat/stream",
            headers={
                "origin": PAGE,
                "access-control-request-method": "POST",
                "access-control-request-headers": "content-type,x-request-id",
            },
        )
        answer = await client.post("/chat/stream", json={"message": "Hello"}, headers={"origin": PAGE})
        refused = await client.post("/chat", content=b"", headers={"origin": PAGE})

    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == PAGE
    assert preflight.headers["x-request-id"]
    for response in (answer, refused):
        assert response.headers["access-control-allow-origin"] == PAGE
        exposed = response.headers["access-control-expose-headers"].split(", ")
        assert {"Location", "X-Request-ID"} <= set(exposed)


async def test_a_fault_of_ours_can_be_read_by_a_page_too() -> None:
    broken = False

    def provider() -> list[object]:
        if broken:
            raise ZeroDivisionError
        return []

    async with gateway(ScriptedModel(), [provider], settings={"server": {"cors_origins": [PAGE]}}) as client:
        broken = True
        response = await client.get("/tools", headers={"origin": PAGE})

    assert response.status_code == 500
    assert response.headers["access-control-allow-origin"] == PAGE


@pytest.mark.parametrize("origins", [[], ["https://other.example.org"]])
async def test_other_pages_may_not(origins: list[str]) -> None:
    async with gateway(ScriptedModel("Hi"), settings={"server": {"cors_origins": origins}}) as client:
        response = await client.post("/chat", json={"message": "Hello"}, headers={"origin": PAGE})

    assert "access-control-allow-origin" not in response.headers
