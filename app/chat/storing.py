"""The words as JSON values and back, for stores that outlive the process.

A value becomes an object with its class's name as `kind` and the fields that are not at their defaults. So a later
version can add fields, whose defaults then hold for what was stored before, and fields it no longer knows are passed
over. Renaming a class or a field takes a migration of what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

KIND = "kind"


class StoredValueInvalid(ValueError):
    """What was read from a store is not what was written there."""


def to_stored(value: Any) -> Any:
    """A value of this room, or a sequence of them, as a JSON value. What it does not know it leaves as it is."""
    match value:
        case Enum():
            return value.value
        case str():
            return value
        case Mapping():
            return {str(key): to_stored(item) for key, item in value.items()}
        case list() | tuple():
            return [to_stored(item) for item in value]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    given = {name: getattr(value, name) for name in _defaults(type(value))}
    told = {name: to_stored(item) for name, item in given.items() if item != _defaults(type(value))[name]}
    return {KIND: type(value).__name__, **told}


def from_stored(hint: Any, data: Any) -> Any:
    """The value that was stored.

    Args:
        hint: what it is: a class of this room, a union of such, a tuple of them.
        data: the JSON value.

    Raises:
        StoredValueInvalid: it is something else.
    """
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return _one_of(get_args(hint), data)
    if origin is tuple:
        if not isinstance(data, list):
            raise StoredValueInvalid(f"a list was expected, not {type(data).__name__}")
        return tuple(from_stored(get_args(hint)[0], item) for item in data)
    if not isinstance(hint, type):
        return data
    if issubclass(hint, Enum):
        return _member(hint, data)
    return _instance(hint, data) if is_dataclass(hint) else data


def _one_of(hints: Sequence[Any], data: Any) -> Any:
    classes = {hint.__name__: hint for hint in hints if isinstance(hint, type) and is_dataclass(hint)}
    if not classes or (data is None and NoneType in hints):
        return data
    kind = data.get(KIND) if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in classes:
        raise StoredValueInvalid(f"{kind!r} is none of {', '.join(classes)}")
    return _instance(classes[kind], data)


def _member(hint: type[Enum], data: Any) -> Enum:
    try:
        return hint(data)
    except ValueError as error:
        raise StoredValueInvalid(str(error)) from error


def _instance(cls: type[Any], data: Any) -> Any:
    if not isinstance(data, dict) or data.get(KIND) != cls.__name__:
        raise StoredValueInvalid(f"a {cls.__name__} was expected")
    hints = _hints(cls)  # type: ignore[arg-type] # mypy takes the hash of its instances for that of the class
    try:
        return cls(**{name: from_stored(hints[name], data[name]) for name in hints if name in data})
    except (TypeError, ValueError) as error:
        raise StoredValueInvalid(f"not a {cls.__name__}: {error}") from error


@cache
def _hints(cls: type[object]) -> dict[str, Any]:
    return get_type_hints(cls, localns={"JsonValue": Any})  # it is defined by itself, and needs no conversion


@cache
def _defaults(cls: type) -> dict[str, Any]:
    """The fields of a class with their defaults, `MISSING` where they have none."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(cls)
    }
