"""From the text that a model wrote as arguments to a JSON object that has the form its schema wants.

What is put right is what can have one meaning only:

- nothing, `null` and white space are no arguments, `{}`; what is required is then missing;
- arguments that are an object written as a JSON text are read once more (fault T14);
- a JSON text where the schema wants an object or an array, and takes no text, is read (faults T12, T13);
- null for a property that need not be given and takes no null is the same as not given.

The rest is left for validation to judge, except where that would guess: it takes `true` for 1, a number or digits
where a date is wanted for seconds since 1970, and "inf" for a number that JSON does not have. Names that the schema
does not know are problems at every depth, also where the type by itself would pass over them: the model meant
something by them.

Differs from Spring AI: arguments without any text are `{}` only where nothing is required (parity 84, 85).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pydantic_core import to_json

from app.chat.json_schema import Schema
from app.chat.text import well_formed_text
from app.tooling.generator import NONE_WHEN_MISSING
from app.tooling.problems import Path, Problems, allowed_names, invalid, wanted, with_article
from app.tooling.schema_tree import SchemaView, json_type

MAX_DEPTH = 90
"""How deep arguments may be nested, and texts within them that are read; pydantic reads up to 200."""

_TEMPORAL = frozenset({"date", "date-time", "duration", "time"})
_PLAIN: Mapping[str, type] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "object": dict, "array": list,
}  # fmt: skip
_MORE_THAN_A_TYPE = frozenset({"anyOf", "oneOf", "format"})
_TOO_DEEP = f"it is nested more than {MAX_DEPTH} deep"


def decode(text: str, tool: str) -> dict[str, Any]:
    """Read the arguments of a call.

    Args:
        text: JSON as the model wrote it.
        tool: the tool's name, for the error.

    Raises:
        ToolArgumentsInvalid: they are not one JSON object.
    """
    if text.strip() in {"", "null"}:
        return {}
    try:
        value = read_json(text)
        if isinstance(value, str):
            value = read_json(value)
    except ValueError as error:
        raise invalid(tool, f"must be a JSON object, and {error}") from None
    if not isinstance(value, dict):
        raise invalid(tool, f"must be a JSON object, not {with_article(json_type(value))}")
    return value


def read_json(text: str) -> Any:
    """Read JSON to the letter.

    Raises:
        ValueError: it is none, has NaN or infinities, a number too large, or a name twice in one object, or is nested
            too deeply. The message goes on after "and".
    """
    try:
        value = _decode(text)
    except ValueError as error:
        raise ValueError(f"this is not JSON: {error}") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") >= MAX_DEPTH and _depth(value) > MAX_DEPTH:  # most are not looked through
        raise ValueError(_TOO_DEEP)
    return value


def write_json(value: dict[str, Any]) -> bytes:
    """The JSON of decoded arguments. Lone surrogates, which JSON can write but UTF-8 cannot, are replaced."""
    try:
        return to_json(value)
    except ValueError:  # it knows no lone surrogates
        return well_formed_text(_encode(value)).encode()


def fit(arguments: dict[str, Any], view: SchemaView, schema: Schema, problems: Problems) -> Any:
    """Put arguments into the form that a schema wants, as the module's docstring tells.

    Args:
        arguments: decoded, and not changed.
        view: of the schema in which references are looked up.
        schema: of the arguments.
        problems: takes what is missing, unknown or nested too deeply.

    Returns:
        The arguments as they should have been written, without what is unknown.
    """
    return _Fitting(view, problems).value(arguments, schema, ())


class _Fitting:
    def __init__(self, view: SchemaView, problems: Problems) -> None:
        self._view = view
        self._problems = problems

    def value(self, value: Any, schema: Any, path: Path) -> Any:
        if len(path) > MAX_DEPTH:
            self._problems.add(path[:1], f"is nested more than {MAX_DEPTH} deep")
            return value
        schema = self._view.resolve(schema)
        if _is_plainly(value, schema):
            return self._within(value, schema, path)
        if isinstance(value, str):
            value = self._read(value, schema)
        if (wrong := self._misread(value, schema)) is not None:
            self._problems.add(path, f"must be {wanted(self._view, schema)}, {wrong}")
            return value
        branch = self._branch(value, schema)
        return value if branch is None else self._within(value, branch, path)

    def _within(self, value: Any, schema: Schema, path: Path) -> Any:
        """A value that is of the schema's type, with what is in it put into form."""
        if isinstance(value, dict):
            return self._object(value, schema, path)
        if isinstance(value, list):
            return [self.value(item, _item_schema(schema, place), (*path, place)) for place, item in enumerate(value)]
        return value

    def _read(self, text: str, schema: Schema) -> Any:
        """A text, or what it says in JSON where that is what the schema wants and a text is not."""
        accepted = self._view.accepted_types(schema)
        if accepted is None or "string" in accepted or not accepted & {"array", "object"}:
            return text
        try:
            value = read_json(text)
        except ValueError:
            return text  # validation says what was wanted in its place
        return value if json_type(value) in accepted & {"array", "object"} else text

    def _misread(self, value: Any, schema: Schema) -> str | None:
        """What is wrong with a plain value that validation would take for another one than was written."""
        kind = json_type(value)
        branches = self._view.branches(schema)
        fitting = [branch for branch in branches if self._view.accepts(branch, kind)]
        takes_numbers = any(self._view.accepts(branch, "integer") for branch in branches)
        if kind == "string":
            number = _number(value)
            if number is None or any(branch.get("format") not in _TEMPORAL for branch in fitting):
                return None
            if fitting:
                return "not a number as text"
            return None if math.isfinite(number) or not takes_numbers else "and JSON has no such number"
        if fitting or kind not in {"boolean", "integer", "number"}:
            return None
        takes_times = any(branch.get("format") in _TEMPORAL for branch in branches)
        return f"not {with_article(kind)}" if takes_times or (takes_numbers and kind == "boolean") else None

    def _branch(self, value: Any, schema: Schema) -> Schema | None:
        """The alternative of a schema that a value is meant for; None where that is not certain."""
        kind = json_type(value)
        branches = [branch for branch in self._view.branches(schema) if self._view.accepts(branch, kind)]
        if isinstance(value, Mapping) and len(branches) > 1:
            branches = [branch for branch in branches if self._is_tagged(value, branch)]
            whole = [branch for branch in branches if all(name in value for name in branch.get("required", ()))]
            known = [
                branch for branch in whole if not _is_closed(branch) or value.keys() <= branch["properties"].keys()
            ]
            branches = known or whole or branches
        return branches[0] if len(branches) == 1 else None

    def _is_tagged(self, value: Mapping[str, Any], schema: Schema) -> bool:
        """Whether a value has nothing that contradicts a constant or an enumeration of a schema."""
        properties = {name: self._view.resolve(part) for name, part in schema.get("properties", {}).items()}
        return all(
            item == properties[name].get("const", item) and item in properties[name].get("enum", [item])
            for name, item in value.items()
            if name in properties
        )

    def _object(self, value: Mapping[str, Any], schema: Schema, path: Path) -> dict[str, Any]:
        properties: Mapping[str, Any] = schema.get("properties", {})
        required: Sequence[str] = schema.get("required", ())
        others = {} if "patternProperties" in schema else schema.get("additionalProperties", {})
        result: dict[str, Any] = {}
        for name, item in value.items():
            if name in properties:
                if item is not None or name in required or self._takes_null(properties[name]):
                    result[name] = self.value(item, properties[name], (*path, name))
            elif _is_closed(schema):
                self._problems.add((*path, name), f"is unknown; {allowed_names(schema)}")
            else:
                result[name] = self.value(item, others, (*path, name))
        for name in required:
            if name not in value:
                described = wanted(self._view, properties.get(name, {}))
                self._problems.add((*path, name), f"is missing; it must be {described}")
        for name in schema.get(NONE_WHEN_MISSING, ()):
            result.setdefault(name, None)
        return result

    def _takes_null(self, schema: Any) -> bool:
        return self._view.accepts(self._view.resolve(schema), "null")


def _is_plainly(value: Any, schema: Schema) -> bool:
    """Whether a schema wants values of one type, as most do, and this is one. There is nothing to choose or to read."""
    kind = schema.get("type")
    return isinstance(kind, str) and type(value) is _PLAIN.get(kind) and _MORE_THAN_A_TYPE.isdisjoint(schema)


def _is_closed(schema: Schema) -> bool:
    return schema.get("additionalProperties") is False and "patternProperties" not in schema


def _item_schema(schema: Schema, place: int) -> Any:
    prefix = schema.get("prefixItems", [])
    return prefix[place] if place < len(prefix) else schema.get("items", {})


def _depth(value: Any) -> int:
    deepest = 0
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        item, level = waiting.pop()
        deepest = max(deepest, level)
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        waiting.extend((part, level + 1) for part in inner)
    return deepest


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{json.dumps(repeated, ensure_ascii=False)} is given more than once")
    return result


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python's own limit, and a message for its users
        raise ValueError("a number has too many digits") from None


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
).decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
