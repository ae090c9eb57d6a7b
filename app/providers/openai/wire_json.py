"""JSON as model servers write it, and as they take it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json


def decode(data: bytes) -> Any:
    """The value of a JSON text.

    Lone surrogates are kept, for they may be halves of a pair that was cut over two deltas; bytes that are not UTF-8
    become U+FFFD, and raw control characters in strings are let by.

    Raises:
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return from_json(data)
    except ValueError:  # it knows no lone surrogates, among others; the standard library is three times slower
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


def encode(value: Any) -> str:
    """Compact JSON text; characters stay as they are.

    Raises:
        ValueError: nested too deeply, or what has no JSON form.
    """
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"{type(value).__name__} has no JSON form")
