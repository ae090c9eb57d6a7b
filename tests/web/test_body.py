"""Reading bodies: what is not strict JSON of a sane size is refused with a clear 4xx, by every route that takes one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.providers.scripted import ScriptedModel
from app.web.body import BodyInvalid, FieldError, validated
from app.web.schemas import ChatBody
from tests.support.web import gateway

TAKES_A_BODY = pytest.mark.parametrize("path", ["/chat", "/chat/stream", "/tool-calls"])


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    """A body that is sent in chunks, without a length."""
    for part in parts:
        yield part


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of a response with this status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    return document


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n",
        b"message=Hello",
        b'{"message": "Hello"',
        b'{"message": "Hello",}',
        b'{"message": "Hello"} {}',
        b"{'message': 'Hello'}",
        b'{"message": NaN}',
        b'{"message": "Hello", "options": {"temperature": Infinity}}',
        b'{"message": "Hello", "tool_context": {"size": 1e999}}',
        b'{"message": "Hello", "tool_context": {"sizes": [[-1e999]]}}',
        b'{"message": "\xff\xfe"}',
        '{"message": "Hello"}'.encode("utf-16"),
        '{"message": "héllo"}'.encode("latin-1"),
        b'{"message": "\\ud83d"}',
        b'{"message": "\xed\xa0\xbd"}',
        b'{"\\udc00": 1}',
        b'{"message": "a\x00b"}',
        b'{"message": ' + b"[" * 100_000,
        b'{"message": "x", "tool_context": ' + b'{"a":' * 400 + b"1" + b"}" * 401,
        b'{"options": {"seed": ' + b"9" * 10_000 + b"}}",
    ],
    ids=lambda body: repr(body[:40]),
)
@TAKES_A_BODY
async def test_what_is_not_strict_json_in_utf8_is_a_400(path: str, body: bytes) -> None:
    async with gateway(ScriptedModel()) as client:
        assert problem(await client.post(path, content=body), 400)["detail"]


@pytest.mark.parametrize("body", ["[]", '"Hello"', "null", "17", "true"])
@TAKES_A_BODY
async def test_json_that_is_no_object_does_not_fit(path: str, body: str) -> None:
    async with gateway(ScriptedModel()) as client:
        document = problem(await client.post(path, content=body), 422)

    assert document["errors"] == [{"loc": [], "message": "must be a JSON object"}]


@pytest.mark.parametrize("label", [None, "application/x-www-form-urlencoded", "text/plain", "nonsense"])
async def test_a_body_is_read_as_json_whatever_its_label(label: str | None) -> None:
    async with gateway(ScriptedModel("Hi")) as client:
        request = client.build_request("POST", "/chat", content=b'{"message": "Hello"}')
        if label is not None:
            request.headers["content-type"] = label
        response = await client.send(request)

    assert response.json()["content"] == "Hi"


@pytest.mark.parametrize("label", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
@TAKES_A_BODY
async def test_a_web_page_cannot_send_what_its_browser_does_not_ask_about(path: str, label: str | None) -> None:
    model = ScriptedModel()
    async with gateway(model) as client:
        request = client.build_request("POST", path, content=b'{"message": "Hello"}')
        request.headers["origin"] = "https://elsewhere.example"
        if label is not None:
            request.headers["content-type"] = label
        document = problem(await client.send(request), 415)

    assert "application/json" in document["detail"]
    assert model.prompts == []


@pytest.mark.parametrize("label", ["application/json", "Application/JSON; charset=utf-8"])
async def test_a_web_page_that_labels_its_body_is_answered(label: str) -> None:
    async with gateway(ScriptedModel("Hi")) as client:
        headers = {"origin": "http://localhost", "content-type": label}
        response = await client.post("/chat", content=b'{"message": "Hello"}', headers=headers)

    assert response.json()["content"] == "Hi"


async def test_a_byte_order_mark_is_overlooked_and_the_last_of_two_equal_keys_counts() -> None:
    model = ScriptedModel("Hi")
    async with gateway(model) as client:
        body = b'\xef\xbb\xbf{"message": "first", "message": "second"}'
        response = await client.post("/chat", content=body)

    assert response.status_code == 200
    assert model.prompts[0].messages[0].content == "second"  # type: ignore[union-attr] # a user message


# --- size


@pytest.mark.fault("X06")
@TAKES_A_BODY
async def test_an_announced_body_that_is_too_large_is_refused_unread(path: str) -> None:
    async with gateway(ScriptedModel(), settings={"server": {"max_body_bytes": 1000}}) as client:
        response = await client.post(path, content=pieces(), headers={"content-length": "1001"})
        document = problem(response, 413)

    assert "1000 bytes" in document["detail"]


@pytest.mark.fault("X06")
@TAKES_A_BODY
async def test_a_chunked_body_is_counted_while_it_comes(path: str) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b'{"message": "'
        while True:
            yield b"x" * 400

    async with gateway(ScriptedModel(), settings={"server": {"max_body_bytes": 1000}}) as client:
        problem(await client.post(path, content=endless()), 413)


async def test_a_body_of_just_the_limit_is_taken() -> None:
    body = json.dumps({"message": "x" * 1000}).encode()
    async with gateway(ScriptedModel("Hi"), settings={"server": {"max_body_bytes": len(body)}}) as client:
        assert (await client.post("/chat", content=pieces(body[:10], b"", body[10:]))).status_code == 200


@pytest.mark.parametrize("length", ["-1", "1e3", "²", "9" * 5000])
async def test_an_odd_announcement_of_the_length_is_no_fault_of_ours(length: str) -> None:
    async with gateway(ScriptedModel("Hi")) as client:
        announced = {b"content-length": length.encode("latin-1")}
        response = await client.post("/chat", content=pieces(b'{"message": "Hello"}'), headers=announced)

    assert response.status_code in {200, 413}


# --- what is said of fields


async def refused(body: object) -> dict[str, str]:
    """What is said of a body, by the place in it."""
    async with gateway(ScriptedModel()) as client:
        document = problem(await client.post("/chat", json=body), 422)
    return {".".join(map(str, error["loc"])): error["message"] for error in document["errors"]}


@pytest.mark.parametrize(
    ("body", "loc", "hint"),
    [
        ({"mesage": "Hi"}, "mesage", "'message'"),
        ({"message": "Hi", "options": {"temprature": 1}}, "options.temprature", "'temperature'"),
        ({"message": "Hi", "temperature": 1}, "temperature", "'options.temperature'"),
        ({"message": "Hi", "Tools": []}, "Tools", "'tools'"),
        ({"messages": [{"role": "user", "contents": "Hi"}]}, "messages.0.contents", "'content'"),
        ({"message": "Hi", "zzz": 1}, "zzz", "conversation_id"),
    ],
)
async def test_a_field_that_is_not_known_is_told_with_the_nearest_one(
    body: dict[str, Any], loc: str, hint: str
) -> None:
    said = (await refused(body))[loc]

    assert said.startswith("unknown field")
    assert hint in said


async def test_all_that_does_not_fit_is_told_at_once_with_its_place() -> None:
    said = await refused(
        {
            "message": 1,
            "messages": [{"role": "robot"}, {"content": "?"}, 3, {"role": "tool", "content": None}],
            "options": {"temperature": "hot", "seed": True, "tool_choice": 4, "stop": [1], "response_format": {}},
        }
    )

    assert said["message"] == "must be a string"
    assert said["messages.0"].startswith("'role' must be one of 'system', 'user'")
    assert said["messages.1"] == "needs the field 'role'"
    assert said["messages.2"] == "must be a JSON object"
    assert said["messages.3.tool_call_id"] == "is required"
    assert said["messages.3.content"] == "must be a string"
    assert said["options.temperature"] == "must be a number"
    assert said["options.seed"] == "must be an integer"
    assert {"options.tool_choice", "options.stop.0", "options.response_format"} <= set(said)


async def test_the_value_that_was_sent_is_not_repeated() -> None:
    async with gateway(ScriptedModel()) as client:
        response = await client.post("/chat", json={"message": ["my secret"], "model": 17})

    assert "my secret" not in response.text


FIELDS = st.sampled_from([*ChatBody.model_fields, "role", "content", "function", "tool_calls", "temperature", "0"])
JSON_VALUES = st.recursive(
    st.sampled_from([None, True, 0, -1.5, 10**20, "", "user", "assistant", "tool", "Hello"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.dictionaries(FIELDS, JSON_VALUES, max_size=3))
def test_no_value_of_json_makes_validation_fail_in_another_way(value: object) -> None:
    taken: ChatBody | None = None
    said: tuple[FieldError, ...] = ()
    try:
        taken = validated(ChatBody, value)
    except BodyInvalid as refusal:
        said = refusal.errors

    assert bool(taken) != bool(said)
    assert all(error.message for error in said)
