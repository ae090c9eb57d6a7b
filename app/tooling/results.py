"""From what a tool returns to the text that the model reads.

Text stays text. Everything else becomes strict JSON: NaN and infinities are null; dates, times and durations are ISO
8601; UUIDs, decimals and paths are text; bytes are base64; enums go by their values; dataclasses, `NamedTuple`s and
mappings are objects; sets are arrays, sorted; pydantic models are what they themselves say of their JSON form. An image
(anything with PIL's `save`) is an object of base64 `data` and its `mimeType`. Arrays and scalars of numpy, and whatever
else has `tolist`, become lists and numbers.

Differs from Spring AI: text results are not JSON-quoted, and NaN becomes null (parity 127). A function annotated with
`-> None` gives `Done`, without quotes (parity 125).
"""

from __future__ import annotations

import base64
import dataclasses
import decimal
import enum
import io
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence, Set, ValuesView
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from app.chat import ToolError
from app.chat.text import well_formed_text
from app.tooling.problems import Path, show_path

DONE = "Done"
"""The result of a tool that returns nothing."""
MAX_DEPTH = 100
"""How deep a result may be nested."""

_SCALARS = (bool, bytes, bytearray, decimal.Decimal, float, int, memoryview, str)
_PYDANTIC = "__pydantic_serializer__"


def to_text(value: object) -> str:
    """Write a result for the model.

    Args:
        value: what a tool returned.

    Returns:
        The text itself where it is text, else strict JSON.

    Raises:
        ToolError: a part of it has no JSON form. The message, which is for the model, says which.
    """
    if type(value) is str:
        return well_formed_text(value)
    plain = _Plain().of(value)
    if isinstance(value, str):
        return well_formed_text(plain)
    try:
        return well_formed_text(json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    except ValueError as error:
        raise _no_json_form((), "has an integer with too many digits") from error


class _Plain:
    """Turns a value into what the json module writes."""

    def __init__(self) -> None:
        self._path: list[str | int] = []
        self._open: set[int] = set()

    def of(self, value: Any) -> Any:
        if isinstance(value, enum.Enum):  # before text and numbers, which it may be, too
            return self.of(value.value)
        if value is None or isinstance(value, _SCALARS):
            return _scalar(value)
        return self._guarded(value)

    def _guarded(self, value: Any) -> Any:
        if id(value) in self._open:
            raise self._error("contains itself")
        if len(self._open) == MAX_DEPTH:
            raise self._error("is nested too deeply")
        self._open.add(id(value))
        try:
            return self._compound(value)
        finally:
            self._open.remove(id(value))

    def _compound(self, value: Any) -> Any:
        fields = _fields(value)
        if fields is not None:
            return self._object(fields)
        if isinstance(value, Sequence | ValuesView):
            return self._array(value)
        if isinstance(value, Set):
            return sorted(self._array(value), key=lambda item: json.dumps(item, sort_keys=True))
        if _is_image(value):
            return self._image(value)
        if callable(tolist := getattr(value, "tolist", None)) and not isinstance(value, type):
            return self.of(tolist())
        return self._by_pydantic(value)

    def _object(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in value.items():
            name = self._name(key)
            if name in result:
                raise self._error(f"has two keys that are both {name!r} in JSON")
            result[name] = self._at(name, item)
        return result

    def _array(self, value: Any) -> list[Any]:
        return [self._at(place, item) for place, item in enumerate(value)]

    def _at(self, step: str | int, value: Any) -> Any:
        self._path.append(step)
        plain = self.of(value)
        self._path.pop()
        return plain

    def _name(self, key: Any) -> str:
        plain = self.of(key)
        if isinstance(plain, str):
            return plain
        if plain is None or isinstance(plain, bool | int | float):
            return json.dumps(plain)
        raise self._error(f"has a key of type {type(key).__name__}")

    def _image(self, image: Any) -> dict[str, str]:
        file = io.BytesIO()
        try:
            image.save(file, format="PNG")
        except Exception as error:
            raise self._error("is an image that cannot be written as PNG") from error
        return {"mimeType": "image/png", "data": base64.b64encode(file.getvalue()).decode()}

    def _by_pydantic(self, value: Any) -> Any:
        """Pydantic's own models and dataclasses, and the many types of the standard library that it knows."""
        if isinstance(value, os.PathLike):
            return self.of(os.fspath(value))
        if isinstance(value, Iterator):
            raise self._error(f"is a {type(value).__name__}, which gives its items only once")
        try:
            plain = to_jsonable_python(value, by_alias=True)
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise self._error(f"is of type {type(value).__name__}") from error
        return self.of(plain)

    def _error(self, problem: str) -> ToolError:
        return _no_json_form(tuple(self._path), problem)


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return str(value) if value.is_finite() else None
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """What is an object in JSON as a mapping; None for all else, pydantic's models and dataclasses included."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        named: Mapping[str, Any] = value._asdict()
        return named
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not hasattr(value, _PYDANTIC):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def _no_json_form(path: Path, problem: str) -> ToolError:
    where = show_path(path) if path else "it"
    return ToolError(f"The tool ran, but its result has no JSON form: {where} {problem}.")


def _is_image(value: Any) -> bool:
    return (
        callable(getattr(value, "save", None))
        and isinstance(getattr(value, "mode", None), str)
        and isinstance(getattr(value, "size", None), tuple)
    )
