"""The words as JSON values and back, for stores that outlive the process.

A value becomes an object with its class's name as `kind` and the fields that are not at their defaults. So a later
version can add fields, whose defaults then hold for what was stored before, and fields it no longer knows are passed
over. Renaming a class or a field takes a migration of what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

KIND = "kind"

_Reader: TypeAlias = Callable[[Any], Any]


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
    told: dict[str, Any] = {KIND: type(value).__name__}
    for name, default in _defaults(type(value)).items():
        item = getattr(value, name)
        if item != default:
            told[name] = to_stored(item)
    return told


def from_stored(hint: Any, data: Any) -> Any:
    """The value that was stored.

    Args:
        hint: what it is: a class of this room, a union of such, a tuple of them.
        data: the JSON value.

    Raises:
        StoredValueInvalid: it is something else.
    """
    return _reader(hint)(data)


@cache
def _reader(hint: Any) -> _Reader:
    """What makes a value of a JSON value. It is worked out once for each hint: a history has many of the same."""
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return _reader_of_one_of(get_args(hint))
    if origin is tuple:
        return partial(_tuple, _reader(get_args(hint)[0]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return partial(_member, hint)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint, localns={"JsonValue": Any})  # it is defined by itself, and needs no conversion
        return partial(_instance, hint, {name: _reader(hints[name]) for name in hints})
    return _as_it_is


def _reader_of_one_of(hints: Sequence[Any]) -> _Reader:
    readers = {hint.__name__: _reader(hint) for hint in hints if isinstance(hint, type) and is_dataclass(hint)}
    return partial(_one_of, readers, NoneType in hints) if readers else _as_it_is


def _as_it_is(data: Any) -> Any:
    return data


def _tuple(reader: _Reader, data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise StoredValueInvalid(f"a list was expected, not {type(data).__name__}")
    return tuple([reader(item) for item in data])


def _one_of(readers: Mapping[str, _Reader], may_be_none: bool, data: Any) -> Any:
    if data is None and may_be_none:
        return None
    kind = data.get(KIND) if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in readers:
        raise StoredValueInvalid(f"{kind!r} is none of {', '.join(readers)}")
    return readers[kind](data)


def _member(hint: type[Enum], data: Any) -> Enum:
    try:
        return hint(data)
    except ValueError as error:
        raise StoredValueInvalid(str(error)) from error


def _instance(cls: type[Any], readers: Mapping[str, _Reader], data: Any) -> Any:
    if not isinstance(data, dict) or data.get(KIND) != cls.__name__:
        raise StoredValueInvalid(f"a {cls.__name__} was expected")
    try:
        return cls(**{name: readers[name](item) for name, item in data.items() if name in readers})
    except (TypeError, ValueError) as error:
        raise StoredValueInvalid(f"not a {cls.__name__}: {error}") from error


@cache
def _defaults(cls: type) -> dict[str, Any]:
    """The fields of a class with their defaults, `MISSING` where they have none."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(cls)
    }
