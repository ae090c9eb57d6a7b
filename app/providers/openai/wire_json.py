"""JSON as model servers write it, and as they take it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec.json import Decoder
from pydantic_core import from_json, to_json


class Json(bytes):
    """A JSON text: what stands in another one as it is."""

    __slots__ = ()


def decode(data: bytes) -> Any:
    """The value of a JSON text.

    Lone surrogates are kept, for they may be halves of a pair that was cut over two deltas; bytes that are not UTF-8
    become U+FFFD, and raw control characters in strings are let by.

    Raises:
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return _decode(data)
    except (ValueError, RecursionError):  # of lone surrogates, among others; the standard library is slower by far
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_cut(data: bytes) -> bool:
    """Whether what is no JSON would be the beginning of one."""
    try:
        from_json(data, allow_partial="trailing-strings")
    except ValueError:
        return False
    return True


def encode_object(fields: Mapping[str, Any]) -> bytes:
    """A JSON object as compact UTF-8, of fields some of which may be encoded already. What is None is left out.

    Raises:
        ValueError: see `encode`.
    """
    written = [
        _name(name) + (value if isinstance(value, Json) else encoded(value))
        for name, value in fields.items()
        if value is not None
    ]
    return b"{" + b",".join(written) + b"}"


def encoded(value: Any) -> Json:
    """A value as compact UTF-8. Lone surrogates become `?`.

    Raises:
        ValueError: see `encode`.
    """
    return Json(_utf8(encode(value)))


def encode_plain(value: Any) -> Json:
    """The same for values that hold nothing but texts, as messages do: three times as fast.

    Raises:
        ValueError: see `encode`.
    """
    try:
        return Json(to_json(value))
    except ValueError:  # it knows no lone surrogates, and no mappings but dictionaries
        return encoded(value)


@lru_cache(maxsize=256)
def _name(name: str) -> bytes:
    return _utf8(f"{encode(name)}:")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def encode(value: Any) -> str:
    """Compact JSON text; characters stay as they are.

    Raises:
        ValueError: nested too deeply, or what has no JSON form.
    """
    try:
        return _encode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"{type(value).__name__} has no JSON form")


_decode = Decoder().decode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
