"""Errors of a model server, in the gateway's terms: total, short and without secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import ModelError, ModelRateLimited, ModelRejected, ModelUnavailable
from app.providers.openai.errors import error_in_answer, error_of_status, excerpt, retry_after
from app.providers.scrubbing import Scrubber

NOW = 1_900_000_000.0


def judged(status: int, body: Any = b"", **headers: str) -> ModelError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return error_of_status(status, named, data, Scrubber(["hidden-key-42"]), now=lambda: NOW)


@pytest.mark.fault("E02", "E09")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ModelRejected),
        (401, ModelRejected),
        (402, ModelRejected),
        (403, ModelRejected),
        (404, ModelRejected),
        (405, ModelRejected),
        (408, ModelUnavailable),
        (409, ModelUnavailable),
        (413, ModelRejected),
        (422, ModelRejected),
        (425, ModelUnavailable),
        (429, ModelRateLimited),
        (499, ModelRejected),
        (500, ModelUnavailable),
        (502, ModelUnavailable),
        (503, ModelUnavailable),
        (504, ModelUnavailable),
        (529, ModelUnavailable),
        (999, ModelUnavailable),
    ],
)
def test_the_status_decides_the_class(status: int, kind: type[ModelError]) -> None:
    error = judged(status, {"error": {"message": "The model is asleep.", "code": "sleeping"}})

    assert type(error) is kind
    assert (error.status, error.code) == (status, "sleeping")
    assert f"(HTTP {status}): The model is asleep" in str(error)


@pytest.mark.fault("E01")
def test_a_used_up_quota_is_told_apart_by_its_code() -> None:
    error = judged(429, {"error": {"message": "Pay first.", "type": "insufficient_quota", "code": None}})

    assert isinstance(error, ModelRateLimited)
    assert error.code == "insufficient_quota"


@pytest.mark.fault("E06", "S10")
@pytest.mark.parametrize(
    ("status", "body", "code", "text"),
    [
        (500, {"code": 4077, "description": "busy"}, "4077", "busy"),
        (401, ["weird"], None, "weird"),
        (401, [{"error": {"message": "nested in a list"}}], None, "nested in a list"),
        (429, b"", None, "it gave no reason"),
        (503, b"no healthy upstream", None, "no healthy upstream"),
        (502, b"<html><head><title>502 Bad Gateway</title></head></html>", None, 'a web page titled "502 Bad Gateway"'),
        (422, {"detail": [{"loc": ["body"], "msg": "field required", "type": "missing"}]}, None, "field required"),
        (404, {"detail": "Not Found"}, None, "Not Found"),
        (400, {"error": {"error": {"message": "two deep", "code": "x"}}}, "x", "two deep"),
        (400, {"error": "plain"}, None, "plain"),
        (400, {"error": "Bad Request", "message": "said beside", "status": 400}, None, "Bad Request"),
        (400, {"error": {"code": "only_code"}}, "only_code", "only_code"),
        (400, {"errors": [{"message": "first"}, {"message": "second"}]}, None, "first"),
        (400, {"message": {"reason": {"x": 1}}}, None, '{"x":1}'),
        (400, "a text", None, "a text"),
        (400, 17, None, "it gave no reason"),
        (400, None, None, "it gave no reason"),
        (400, {"error": {"message": ["", {}]}}, None, '["",{}]'),
        (400, b'{"error": {"message": "lone \\ud83d half"}}', None, "lone \ufffd half"),
        (400, b"\xff\xfe\x00binary", None, "binary"),
        (400, b"two\n\tlines \x1b[31m", None, "two lines [31m"),
        (400, {"error": {"message": "m", "code": True}}, None, "m"),
    ],
)
def test_bodies_of_any_shape_give_a_short_text(status: int, body: Any, code: str | None, text: str) -> None:
    error = judged(status, body)

    assert error.status == status
    assert error.code == code
    assert text in str(error)


def test_a_long_message_is_cut() -> None:
    assert len(str(judged(400, {"error": {"message": "long " * 5000}}))) < 600


def test_a_message_nested_too_deeply_to_be_shown_is_left_out() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"x": nested}

    assert "no reason" in str(error_in_answer({"error": {"message": nested}}, Scrubber()))


def test_errors_within_errors_are_followed_so_far_only() -> None:
    error: Any = "deep"
    for _ in range(50):
        error = {"error": error, "message": "outer"}

    assert "outer" in str(error_in_answer(error, Scrubber()))


@pytest.mark.fault("C05")
@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "GATEWAY_MODEL__API_KEY"),
        (403, "GATEWAY_MODEL__API_KEY"),
        (404, "GATEWAY_MODEL__BASE_URL"),
        (405, "GATEWAY_MODEL__BASE_URL"),
    ],
)
def test_what_is_likely_wrong_is_named(status: int, hint: str) -> None:
    assert hint in str(judged(status))


@pytest.mark.fault("C05")
@pytest.mark.parametrize(
    ("location", "told"),
    [("https://u:pw@new.example/v1?token=abc", "https://***@new.example/v1?token=***"), ("", "not say")],
)
def test_a_redirect_is_an_error_that_names_where_to(location: str, told: str) -> None:
    error = judged(307, b"", location=location)

    assert isinstance(error, ModelRejected)
    assert (error.status, error.code) == (307, "redirect")
    assert told in str(error)
    assert "GATEWAY_MODEL__BASE_URL" in str(error)


@pytest.mark.fault("X01")
@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "bad key hidden-key-42", "code": "key hidden-key-42"}},
        {"error": "Authorization: Bearer hidden-key-42"},
        b"you sent hidden-key-42",
        b"<title>hidden-key-42</title><html>",
    ],
)
def test_a_key_that_is_echoed_is_masked(body: Any) -> None:
    error = judged(401, body)

    assert "hidden-key-42" not in f"{error!r} {error.code}"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Sun, 17 Mar 2030 17:46:50 GMT"}, 10.0),
        ({"retry-after": "Sun, 17 Mar 2030 17:46:50"}, 10.0),
        ({"retry-after": "Sun, 17 Mar 2030 17:00:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Sun, 99 Mar 2030"}, None),
    ],
)
def test_the_wait_that_the_server_asks_for_is_read_in_any_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, lambda: NOW) == seconds


def test_the_wait_is_told_with_the_error() -> None:
    assert judged(429, {"error": {"message": "slow"}}, retry_after="12").retry_after == 12.0
    assert judged(503, b"", retry_after="3").retry_after == 3.0


@given(st.integers(300, 999), st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["error", "errors", "message", "code", "type", "status", "detail"]), inner),
    max_leaves=8,
))  # fmt: skip
def test_nothing_that_a_server_sends_breaks_the_judgement(status: int, body: Any) -> None:
    error = judged(status, body)

    assert error.status == status
    assert str(error).isprintable()
    assert isinstance(error_in_answer(body, Scrubber()), ModelError)


def test_an_excerpt_is_short_and_on_one_line() -> None:
    assert excerpt(b"a\n\nb" + b" c" * 5000, Scrubber(), 20) == "a b c c c c c c c c…"
