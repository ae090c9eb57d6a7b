"""What a model server's errors mean in the gateway's terms.

Total: whatever status and body come, there is an error of the right class with a short, scrubbed text, and nothing
here raises. An error inside an answer that began with status 200 goes through the same judgement.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from app.chat import (
    ContentRefused,
    ContextLengthExceeded,
    ModelAuthenticationFailed,
    ModelError,
    ModelNotFound,
    ModelProtocolError,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
    QuotaExceeded,
)
from app.chat.text import well_formed_text
from app.providers.openai.refusals import class_of, labels_in
from app.providers.openai.wire_json import decode, encode

Scrub = Callable[[str], str]

BASE_URL_HINT = "check the base URL (GATEWAY_MODEL__BASE_URL): for many servers it ends in /v1"
_KEY_HINT = "check the API key (GATEWAY_MODEL__API_KEY)"
_NAME_HINT = "check the model's name (GATEWAY_MODEL__NAME, or `model` in the request)"

_OPENINGS: Mapping[type[ModelError], str] = {
    ContextLengthExceeded: "The conversation is too long for the model",
    ContentRefused: "The model server refused the request for its content",
    ModelAuthenticationFailed: "The model server does not accept the gateway's credentials",
    ModelNotFound: "The model server does not have the model",
    ModelRejected: "The model server refused the request",
    QuotaExceeded: "The quota at the model server is used up",
    ModelRateLimited: "The model server takes no more requests for now",
    ModelUnavailable: "The model server failed",
}

_LONGEST = 500
_LOOKED_AT = 4000
_MESSAGE_KEYS = ("message", "msg", "detail", "description", "error_description", "error_msg", "reason", "title")
_WORDS = frozenset(_MESSAGE_KEYS)
_CODE_KEYS = ("code", "error_code", "type")
_STATUS_KEYS = ("status", "status_code", "http_status", "code", "error_code")
_CHUNK_KEYS = frozenset({"choices", "id", "model", "object", "type", "usage"})
_NO_ERROR = frozenset({0, "0", HTTPStatus.OK, "200", "", "success", "ok"})
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class _Details:
    """What an error body says of itself."""

    message: str | None = None
    code: str | None = None
    status: int | None = None
    labels: frozenset[str] = frozenset()


def error_of_status(
    status: int, headers: Mapping[str, str], body: bytes, scrub: Scrub, *, now: Callable[[], float] = time.time
) -> ModelError:
    """The error that an HTTP answer other than 2xx means.

    Args:
        status: its status.
        headers: its headers, names in lower case.
        body: its body or the beginning of it, of any shape.
        scrub: masks secrets.
        now: the time, for `Retry-After` given as a date.
    """
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        target = scrub(headers.get("location", "")) or "somewhere it does not say"
        message = f"The model server redirects (HTTP {status}) to {target}, which is not followed; {BASE_URL_HINT}."
        return ModelRejected(message, status=status, code="redirect")
    try:
        payload = decode(body)
        found = replace(_details(payload), labels=labels_in(payload))
    except ValueError:
        found = _Details(message=excerpt(body, scrub) or None)
    return _judged(found, status, scrub, retry_after(headers, now))


def error_in_answer(payload: Any, scrub: Scrub) -> ModelError:
    """The error that an answer of status 200 holds in `payload`. Its own number, if any, is taken for the status."""
    return _judged(replace(_details(payload), labels=labels_in(payload)), None, scrub, None)


def protocol_error(what: str, code: str = "malformed") -> ModelProtocolError:
    """The error for an answer that cannot be used: the model server sent `what`."""
    return ModelProtocolError(f"The model server sent {what}.", code=code)


def tells_of_an_error(payload: Mapping[str, Any]) -> bool:
    """Whether an object in the place of an answer, or beside one, is an error.

    One without choices is, too, if it has words for somebody and a code, or nothing that a chunk has.
    """
    if payload.get("error") or payload.get("object") == "error" or payload.get("type") == "error":
        return True
    if payload.get("choices") or _WORDS.isdisjoint(payload) or not any(payload.get(key) for key in _MESSAGE_KEYS):
        return False
    code = payload.get("code")
    if isinstance(code, str | int):
        return code not in _NO_ERROR
    return _CHUNK_KEYS.isdisjoint(payload)


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds after which the server wants to be asked again, from any of the forms there are."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            seconds = _until(value, now)
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    return None


def _until(date: str, now: Callable[[], float]) -> float:
    try:
        moment = parsedate_to_datetime(date)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - now())
    except (ValueError, OverflowError, OSError):
        return math.nan


def excerpt(body: bytes, scrub: Scrub, longest: int = _LONGEST) -> str:
    """A short piece of a body that is safe to show; of a web page, its title only."""
    text = body[:_LOOKED_AT].decode("utf-8", "replace")
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        title = re.search(r"(?is)<title[^>]*>([^<]{1,200})", text)
        text = f'a web page titled "{" ".join(title[1].split())}"' if title else "a web page"
    return _short(text, scrub, longest)


def _short(text: str, scrub: Scrub, longest: int = _LONGEST) -> str:
    text = scrub("".join(char if char.isprintable() else " " for char in well_formed_text(text[:_LOOKED_AT])))
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _details(payload: Any, depth: int = 0) -> _Details:
    if isinstance(payload, list):
        payload = next((item for item in payload if isinstance(item, dict | str) and item), None)
    if isinstance(payload, str):
        return _Details(message=payload or None)
    if not isinstance(payload, dict):
        return _Details()
    code = next((payload[key] for key in _CODE_KEYS if _is_code(payload.get(key))), None)
    outer = _Details(
        next((said for key in _MESSAGE_KEYS if (said := _said(payload.get(key), depth))), None),
        None if code is None else str(code),
        next((status for key in _STATUS_KEYS if (status := _status(payload.get(key)))), None),
    )
    inner = payload.get("error") or payload.get("errors") or _relayed(payload)
    if not inner or depth >= _DEEPEST:
        return outer
    found = _details(inner, depth + 1)
    return _Details(
        found.message or outer.message,
        found.code or outer.code,
        found.status or outer.status,
    )


def _relayed(payload: Mapping[str, Any]) -> Any:
    """The error of the server behind a router, which puts nothing but "Provider returned error" over it."""
    metadata = payload.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not isinstance(raw, str) or raw.lstrip()[:1] not in ("{", "["):
        return raw
    try:
        return decode(raw.encode("utf-8", "replace"))
    except ValueError:
        return raw


def _said(value: Any, depth: int) -> str | None:
    if isinstance(value, list | dict) and value:
        inner = _details(value, depth + 1).message if depth < _DEEPEST else None
        return inner or _as_text(value)
    return value if isinstance(value, str) and value.strip() else None


def _as_text(value: Any) -> str | None:
    try:
        return encode(value)
    except ValueError:
        return None


def _is_code(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def _status(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == len("503"):
        value = int(value)
    if type(value) is int and HTTPStatus.BAD_REQUEST <= value < 600:  # noqa: PLR2004 - where HTTP statuses end
        return value
    return None


def _judged(found: _Details, status: int | None, scrub: Scrub, wait: float | None) -> ModelError:
    told = _short(found.message or "", scrub)
    code = _short(found.code or "", scrub, 100) or None
    effective = status or found.status
    where = "" if effective is None else f" (HTTP {effective})" if status else f" ({effective})"
    kind = class_of(effective, found.labels, (found.message or "")[:_LOOKED_AT])
    message = f"{_OPENINGS[kind]}{where}"
    message += f": {told}" if told else "; it gave no reason" if code is None else f": {code}"
    hint = _hint(kind, effective)
    if hint:
        message = f"{message.rstrip('.')} ({hint})"
    return kind(message, status=effective, code=code, retry_after=wait)


def _hint(kind: type[ModelError], status: int | None) -> str:
    if kind is ModelAuthenticationFailed:
        return _KEY_HINT
    if kind is ModelNotFound:
        return _NAME_HINT
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        return f"{BASE_URL_HINT}; and the model's name"
    return ""
