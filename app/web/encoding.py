"""JSON as we send it: strict, one line, and readable by clients that split on every Unicode line end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.json import Encoder
from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import Response

from app.chat.text import well_formed_text

_LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""Some readers of event streams split lines at these. In JSON they only stand in strings, so they can be escaped."""

_DEEPEST = 100

_encode_text = Encoder().encode


def encode(value: Any) -> bytes:
    """The value as UTF-8 JSON on one line.

    Never fails, whatever a tool or a model handed over: NaN and infinities become null, lone surrogates and bytes
    that are not UTF-8 become U+FFFD, and what has no JSON form (or holds itself) becomes the name of its type.
    """
    try:
        text = to_json(value, inf_nan_mode="null", fallback=_fallback)
    except (PydanticSerializationError, RecursionError):
        text = to_json(_mended(value, ()), inf_nan_mode="null", fallback=_fallback)
    return text if text.isascii() else _on_one_line(text)


def encode_text(text: str) -> bytes:
    """As `encode`, for a text: a tenth of the time, and streams consist of texts."""
    try:
        encoded = _encode_text(text)
    except (UnicodeEncodeError, TypeError):  # it knows no lone surrogates, and no texts of a kind of their own
        return encode(text)
    return encoded if encoded.isascii() else _on_one_line(encoded)


def json_response(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A document that was made here, as an HTTP response."""
    return Response(encode(document), status, headers=headers, media_type="application/json")


def _on_one_line(text: bytes) -> bytes:
    for raw, escaped in _LINE_ENDS:
        text = text.replace(raw, escaped)
    return text


def _fallback(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else _name(value)


def _name(value: Any) -> str:
    return f"<{type(value).__name__}>"


def _mended(value: Any, above: tuple[int, ...]) -> Any:
    """A copy that can be encoded. `above` are the ids of what holds it."""
    holders = (*above, id(value))
    match value:
        case _ if id(value) in above or len(above) > _DEEPEST:
            pass
        case str():
            return well_formed_text(value)
        case bytes():
            return value.decode("utf-8", "replace")
        case Mapping():
            return {_mended(key, holders): _mended(item, holders) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_mended(item, holders) for item in value]
        case bool() | int() | float() | None:
            return value
    return _name(value)
