"""What a model server's error is about, told from its status, its codes and types, and well-known sentences.

Codes are trusted before sentences, for they do not change with a release. Only what is certain is told apart: a class
decides whether a request is tried again, whether a server is left alone, and what a caller is told to do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

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

_RETRIABLE_4XX = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY})
_ABOUT_THE_KEY = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})

_LABEL_KEYS = ("code", "type", "status", "reason", "error_type", "error_code", "err_code")
_NESTED_KEYS = (
    "error",
    "errors",
    "innererror",
    "inner_error",
    "details",
    "detail",
    "metadata",
    "provider_specific_fields",
)
_LONGEST_LABEL = 80
_DEEPEST = 5
_MOST = 20

_CODES: Mapping[type[ModelError], frozenset[str]] = {
    QuotaExceeded: frozenset(
        {
            "insufficient_quota",
            "exceeded_current_quota_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "insufficient_balance",
            "insufficient_user_quota",
        }
    ),
    ContextLengthExceeded: frozenset(
        {
            "context_length_exceeded",
            "exceed_context_size_error",
            "context_window_exceeded",
            "contextwindowexceedederror",
            "model_context_window_exceeded",
            "string_above_max_length",
            "tokens_limit_reached",
            "request_too_large",
        }
    ),
    ContentRefused: frozenset(
        {
            "content_filter",
            "content_filter_error",
            "content_policy_violation",
            "contentpolicyviolationerror",
            "responsibleaipolicyviolation",
            "data_inspection_failed",
            "datainspectionfailed",
            "moderation_blocked",
            "prohibited_content",
        }
    ),
    ModelAuthenticationFailed: frozenset(
        {
            "invalid_api_key",
            "api_key_invalid",
            "incorrect_api_key",
            "authentication_error",
            "authenticationerror",
            "invalid_authentication",
            "invalid_authentication_error",
            "unauthenticated",
            "unauthorized",
            "permission_error",
            "permission_denied",
            "permissiondeniederror",
        }
    ),
    ModelNotFound: frozenset(
        {
            "model_not_found",
            "invalid_model",
            "model_not_available",
            "model_decommissioned",
            "deploymentnotfound",
        }
    ),
}

_KEY = r"(?:api[ _-]?keys?|authentication|authorization|auth credentials|credentials|access token|bearer token)"
_GONE = (
    r"(?:(?:was |is |are |could )?not (?:be )?found|(?:does not|doesn't|not) exist"
    r"|(?:has been |is |was )?decommissioned"
    r"|(?:is |are )?no longer (?:available|supported)|(?:is |are )?not (?:available|deployed|loaded)\b)"
)
_SENTENCES: Mapping[type[ModelError], re.Pattern[str]] = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        ContextLengthExceeded: (
            r"max(?:imum)? context (?:length|size|window)|available context size"
            r"|context (?:length|window|size) exceeded"
            r"|exceed\w* (?:\S+ ){0,4}(?:context (?:length|window|size|limit)|maximum number of tokens|max_model_len"
            r"|max_seq_len|(?:model )?token limit|maximum (?:allowed )?input length)"
            r"|(?:larger|longer|greater) than the (?:\S+ )?context|context window exceeds|maximum prompt length"
            r"|(?:prompt|input) (?:is )?too long|too (?:long|large) (?:for (?:the |this |requested )?model|to fit)"
            r"|(?:prompt|request) (?:contains|has) \d+ tokens.{0,60}too large|reduce the length of (?:the|your|either)"
            r"|request more than max tokens"
        ),
        ContentRefused: (
            r"content management policy|content[ _]?policy[ _]?violation|content exists risk|responsible ?ai"
            r"|violat\w+ (?:\S+ ){0,4}(?:usage|content|safety|acceptable use) polic|\b(?:was|been|were) flagged\b"
            r"|inappropriate content"
            r"|\b(?:blocked|rejected|refused|filtered)\b (?:\S+ ){0,6}(?:safety|moderation|content filter)"
            r"|\b(?:safety|moderation|content filter)\w* (?:\S+ ){0,6}(?:blocked|rejected|refused|filtered)\b"
        ),
        ModelAuthenticationFailed: (
            rf"\b(?:incorrect|invalid|missing|no|expired|wrong) {_KEY}\b"
            rf"|\b{_KEY} (?:\S+ )?(?:invalid|missing|expired|required|not valid|failed|fails)\b"
            r"|\bprovide an api key|\bunauthori[sz]ed\b|\bnot authenticated\b"
        ),
        ModelNotFound: (
            rf"\bmodels?\b[\s:/'\"`]*(?:\S{{1,200}}\s+)?{_GONE}|\bdeployment\b.{{0,60}}{_GONE}"
            r"|\b(?:no such|unknown|invalid) model\b|\bnot a valid model\b|\bno endpoints found for\b"
            r"|\bunable to access model\b"
        ),
    }.items()
}
_OF_A_MODEL = re.compile(r"\b(?:models?|deployment)\b", re.IGNORECASE)
_RATE_WORDS = re.compile(r"rate.?limit|too.?many|quota|throttl|resource.?exhausted", re.IGNORECASE)
_REQUEST_WORDS = re.compile(
    r"invalid|bad.?request|authenti|unauthori|permission|forbidden|not.?found|context.?length|content.?(filter|policy)"
    r"|unsupported|unprocessable|billing|moderation",
    re.IGNORECASE,
)


def labels_in(payload: Any) -> frozenset[str]:
    """The codes and types that an error's body uses of itself, however nested, in lower case."""
    found: set[str] = set()
    for label in _labels(payload, 0):
        found.add(label.lower())
        if len(found) >= _MOST:
            break
    return frozenset(found)


def class_of(status: int | None, labels: Collection[str], message: str) -> type[ModelError]:
    """The class of an error.

    Args:
        status: the HTTP status, or what the body of an answer with status 200 gives for one; None where neither is.
        labels: see `labels_in`.
        message: what the server says.
    """
    if status == HTTPStatus.TOO_MANY_REQUESTS or (status is None and _RATE_WORDS.search(" ".join(labels))):
        return QuotaExceeded if _has_code(QuotaExceeded, labels) else ModelRateLimited
    # Whatever the status: some proxies make a 500 of every error.
    if about := _about((ContextLengthExceeded, ContentRefused), labels, message):
        return about
    if status is not None and (status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRIABLE_4XX):
        return ModelUnavailable
    return _class_of_refusal(status, labels, message)


def _class_of_refusal(status: int | None, labels: Collection[str], message: str) -> type[ModelError]:
    if status in _ABOUT_THE_KEY:
        return ModelRejected if _has_code(QuotaExceeded, labels) else ModelAuthenticationFailed
    if about := _about((ModelNotFound, ModelAuthenticationFailed), labels, message):
        return about
    if status == HTTPStatus.NOT_FOUND and _OF_A_MODEL.search(message):
        return ModelNotFound
    if status is None and not _REQUEST_WORDS.search(" ".join(labels)):
        return ModelUnavailable
    return ModelRejected


def _about(kinds: Iterable[type[ModelError]], labels: Collection[str], message: str) -> type[ModelError] | None:
    return next((kind for kind in kinds if _has_code(kind, labels) or _SENTENCES[kind].search(message)), None)


def _has_code(kind: type[ModelError], labels: Collection[str]) -> bool:
    return not _CODES[kind].isdisjoint(labels)


def _labels(payload: Any, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(payload, list):
        for item in payload[:_MOST]:
            yield from _labels(item, depth + 1)
    if not isinstance(payload, dict):
        return
    for key in _LABEL_KEYS:
        label = payload.get(key)
        if isinstance(label, str) and 0 < len(label) <= _LONGEST_LABEL:
            yield label
    for key in _NESTED_KEYS:
        yield from _labels(payload.get(key), depth + 1)
