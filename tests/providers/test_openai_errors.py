"""Errors of a model server, in the gateway's terms: total, short and without secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import (
    ContentRefused,
    ContextLengthExceeded,
    ModelAuthenticationFailed,
    ModelError,
    ModelNotFound,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
    QuotaExceeded,
)
from app.providers.openai.errors import error_in_answer, error_of_status, excerpt, retry_after
from app.providers.openai.refusals import labels_in
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
        (401, ModelAuthenticationFailed),
        (402, ModelRejected),
        (403, ModelAuthenticationFailed),
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
    error = judged(status, {"error": {"message": "The server is asleep.", "code": "sleeping"}})

    assert type(error) is kind
    assert (error.status, error.code) == (status, "sleeping")
    assert f"(HTTP {status}): The server is asleep" in str(error)


@pytest.mark.fault("E01")
def test_a_used_up_quota_is_told_apart_by_its_code() -> None:
    error = judged(429, {"error": {"message": "Pay first.", "type": "insufficient_quota", "code": None}})

    assert type(error) is QuotaExceeded
    assert error.code == "insufficient_quota"


REFUSALS: list[tuple[type[ModelError], int, Any]] = [
    # OpenAI, and who writes as it does
    (ContextLengthExceeded, 400, {"error": {"message": "Too much.", "code": "context_length_exceeded"}}),
    (ContextLengthExceeded, 400, {"error": {"message": "This model's maximum context length is 8 tokens. However, …"}}),
    (ContentRefused, 400, {"error": {"message": "No.", "type": "x", "code": "content_policy_violation"}}),
    (ContentRefused, 400, {"error": {"message": "It was flagged as violating our usage policy.", "code": "bad"}}),
    (ModelAuthenticationFailed, 401, {"error": {"message": "No.", "code": "invalid_api_key"}}),
    (ModelAuthenticationFailed, 403, {"error": {"message": "Your country is not served.", "code": "region"}}),
    (
        ModelNotFound,
        404,
        {"error": {"message": "The model `x-1.5` does not exist or you cannot see it.", "code": None}},
    ),
    (ModelNotFound, 400, {"error": {"message": "Gone.", "code": "model_not_found"}}),
    (QuotaExceeded, 429, {"error": {"message": "Pay.", "type": "billing", "code": "billing_not_active"}}),
    # Azure
    (
        ContentRefused,
        400,
        {"error": {"message": "No.", "code": "400", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
    ),
    (ModelNotFound, 404, {"error": {"code": "DeploymentNotFound", "message": "There is no such thing."}}),
    (ModelAuthenticationFailed, 401, {"statusCode": 401, "message": "Unauthorized. Access token is missing."}),
    # vLLM
    (
        ContextLengthExceeded,
        400,
        {"object": "error", "message": "The prompt is longer than the model's context.", "code": 400},
    ),
    (ContextLengthExceeded, 400, {"error": {"message": "Please reduce the length of the input prompt.", "code": 400}}),
    (ModelNotFound, 404, {"object": "error", "message": "The model `q` does not exist.", "type": "NotFoundError"}),
    # llama.cpp, once with a status that is none of the caller's doing
    (ContextLengthExceeded, 400, {"error": {"code": 400, "message": "Long.", "type": "exceed_context_size_error"}}),
    (ContextLengthExceeded, 500, {"error": {"message": "the request exceeds the available context size"}}),
    (ModelUnavailable, 503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
    (ModelAuthenticationFailed, 401, {"error": {"message": "Invalid API Key", "type": "authentication_error"}}),
    # Ollama
    (ModelNotFound, 404, {"error": {"message": "model 'q:latest' not found", "type": "not_found_error", "code": None}}),
    (ModelNotFound, 404, {"error": 'model "q" not found, try pulling it first'}),
    (ModelRejected, 400, {"error": {"message": "q does not support tools", "type": "api_error"}}),
    # DeepSeek
    (ModelNotFound, 400, {"error": {"message": "Model Not Exist", "code": "invalid_request_error"}}),
    (ContentRefused, 400, {"error": {"message": "Content Exists Risk", "code": "invalid_request_error"}}),
    (ModelRejected, 402, {"error": {"message": "Insufficient Balance", "code": "invalid_request_error"}}),
    # Mistral
    (
        ContextLengthExceeded,
        400,
        {"object": "error", "message": "Prompt contains 9 tokens, too large for model with 4."},
    ),
    (ModelNotFound, 400, {"object": "error", "message": "Invalid model: q", "type": "invalid_model", "code": "1500"}),
    (ModelAuthenticationFailed, 401, {"message": "Unauthorized", "request_id": "1"}),
    # Groq
    (ContextLengthExceeded, 413, {"error": {"message": "Request too large for model `q`: reduce your message size."}}),
    (ModelNotFound, 400, {"error": {"message": "The model `q` has been decommissioned.", "code": "gone"}}),
    # OpenRouter
    (
        ContextLengthExceeded,
        502,
        {
            "error": {
                "message": "Provider returned error",
                "code": 502,
                "metadata": {"raw": '{"error": {"message": "maximum context length is 9 tokens"}}'},
            }
        },
    ),
    (ContentRefused, 403, {"error": {"message": "Your input was flagged.", "code": 403, "metadata": {"reasons": []}}}),
    (ModelAuthenticationFailed, 401, {"error": {"message": "No auth credentials found", "code": 401}}),
    (ModelNotFound, 400, {"error": {"message": "a/b is not a valid model ID", "code": 400}}),
    (ModelNotFound, 404, {"error": {"message": "No endpoints found for a/b.", "code": 404}}),
    (ModelRejected, 404, {"error": {"message": "No endpoints found that support tool use.", "code": 404}}),
    # Together
    (ModelNotFound, 404, {"error": {"message": "Unable to access model q.", "code": "model_not_available"}}),
    # Anthropic's and Gemini's own shapes
    (
        ContextLengthExceeded,
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 4"}},
    ),
    (ModelNotFound, 404, {"type": "error", "error": {"type": "not_found_error", "message": "model: q"}}),
    (
        ModelAuthenticationFailed,
        401,
        {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
    ),
    (
        ContextLengthExceeded,
        400,
        [{"error": {"message": "The input token count (9) exceeds the maximum number of tokens allowed."}}],
    ),
    (ModelAuthenticationFailed, 400, [{"error": {"message": "No.", "details": [{"reason": "API_KEY_INVALID"}]}}]),
    (ModelNotFound, 404, [{"error": {"message": "models/q is not found for API version v1.", "status": "NOT_FOUND"}}]),
    (
        ModelRateLimited,
        429,
        [{"error": {"message": "You exceeded your current quota.", "status": "RESOURCE_EXHAUSTED"}}],
    ),
    # what only looks alike
    (ModelRejected, 404, {"detail": "Not Found"}),
    (ModelRejected, 404, b"<html><title>404 Not Found</title></html>"),
    (
        ModelRejected,
        400,
        {"error": {"message": "max_tokens is too large: 9. It is at most 4.", "code": "invalid_value"}},
    ),
    (ModelRejected, 400, {"error": {"message": "Invalid value for tool_choice; the tool was not found."}}),
    (ModelRateLimited, 429, {"error": {"message": "Request too large for q on tokens per min", "type": "tokens"}}),
    (ModelRejected, 403, {"error": {"message": "Pay.", "code": "insufficient_quota"}}),
]


@pytest.mark.fault("E01", "E02", "U38")
@pytest.mark.parametrize(("kind", "status", "body"), REFUSALS)
def test_what_a_server_refuses_a_request_for_is_told_apart(kind: type[ModelError], status: int, body: Any) -> None:
    error = judged(status, body)

    assert type(error) is kind
    assert error.status == status


@pytest.mark.fault("U38")
@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (ContextLengthExceeded, {"error": {"message": "Long.", "type": "exceed_context_size_error"}}),
        (ContentRefused, {"error": {"message": "No.", "code": "content_filter"}}),
        (ModelAuthenticationFailed, {"error": {"message": "No.", "code": 401}}),
        (ModelAuthenticationFailed, {"error": {"message": "Incorrect API key provided: x", "type": "odd"}}),
        (ModelNotFound, {"error": {"message": "The model q does not exist", "type": "NotFoundError"}}),
        (QuotaExceeded, {"error": {"message": "Pay.", "type": "insufficient_quota"}}),
        (ModelRateLimited, {"error": {"message": "Slow down.", "type": "rate_limit_error"}}),
        (ModelRejected, {"error": {"message": "Bad.", "type": "invalid_request_error"}}),
        (ModelUnavailable, {"error": {"message": "Oops.", "type": "server_error"}}),
        (ModelUnavailable, {"error": {"message": "Oops.", "code": 500}}),
        (ModelUnavailable, {"error": {"message": "Out of time.", "code": 408}}),
    ],
)
def test_an_error_within_an_answer_is_told_apart_in_the_same_way(kind: type[ModelError], payload: Any) -> None:
    assert type(error_in_answer(payload, Scrubber())) is kind


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ('{"error": {"message": "the real reason"}}', "the real reason"),
        ({"message": "the real reason"}, "the real reason"),
        ("the real reason", "the real reason"),
        ("{the real reason", "{the real reason"),
        (None, "Provider returned error"),
    ],
)
def test_the_error_that_a_router_relays_is_told_and_not_the_router_s(raw: Any, told: str) -> None:
    error = judged(502, {"error": {"message": "Provider returned error", "metadata": {"raw": raw}}})

    assert str(error).endswith(f": {told}")


def test_only_so_many_labels_are_looked_at() -> None:
    endless: dict[str, Any] = {"details": [{"code": f"code_{number}"} for number in range(1000)]}
    deep: dict[str, Any] = {"code": "context_length_exceeded"}
    for _ in range(50):
        deep = {"error": deep}

    assert len(labels_in(endless)) <= 20
    assert labels_in(deep) == frozenset()


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
