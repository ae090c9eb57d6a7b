"""What is wrong with the arguments of a call, in words for the model that wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.chat import ToolArgumentsInvalid
from app.chat.json_schema import Schema
from app.tooling.schema_tree import SchemaView, json_type

if TYPE_CHECKING:
    from jsonschema import ValidationError as SchemaViolation  # a tenth of a second that few need

MAX_PROBLEMS = 10
"""How many problems an error names."""
MAX_CHOICES = 20
"""How many values of an enumeration an error names."""
MAX_WORDS = 500
"""How many characters a problem may have."""

Path: TypeAlias = tuple[str | int, ...]


class Problems:
    """Words by the place they are about. None of them repeats a value: errors go where arguments must not."""

    def __init__(self) -> None:
        self._found: dict[Path, list[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __contains__(self, path: Path) -> bool:
        return path in self._found

    def add(self, path: Path, words: str) -> None:
        """Note a problem. Several about one place are alternatives, any of which would do."""
        words = words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]}…"
        known = self._found.setdefault(path, [])
        if words not in known:
            known.append(words)

    def error(self, tool: str) -> ToolArgumentsInvalid:
        """All problems, one a line."""
        lines = [f"- {show_path(path)}: {' or '.join(words)}" for path, words in self._found.items()]
        if len(lines) > MAX_PROBLEMS:
            lines[MAX_PROBLEMS:] = [f"- and {len(lines) - MAX_PROBLEMS} more"]
        return ToolArgumentsInvalid("\n".join([f"The arguments do not fit {tool}; it was not run.", *lines]))


def invalid(tool: str, words: str) -> ToolArgumentsInvalid:
    """The error for arguments that are wrong as a whole."""
    problems = Problems()
    problems.add((), words)
    return problems.error(tool)


def wanted(view: SchemaView, schema: Any) -> str:
    """What a schema takes: `a string`, `one of "c", "f"`, `an integer or null`."""
    branches = view.branches(view.resolve(schema))
    return " or ".join(dict.fromkeys(_wanted(branch) for branch in branches))


def with_article(kind: str) -> str:
    """`an object`, `a string`, `null`."""
    return kind if kind == "null" else f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"


def _wanted(schema: Schema) -> str:
    if "enum" in schema:
        values = [json.dumps(value, ensure_ascii=False) for value in schema["enum"]]
        more = [f"{len(values) - MAX_CHOICES} more"] if len(values) > MAX_CHOICES else []
        return f"one of {', '.join([*values[:MAX_CHOICES], *more])}"
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    kinds = schema.get("type", "value")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    shape = f" ({schema['format']})" if isinstance(schema.get("format"), str) else ""
    return " or ".join(with_article(kind) for kind in kinds) + shape


def show_path(path: Path) -> str:
    """`stops[1].pier`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".") or "arguments"


def allowed_names(schema: Mapping[str, Any]) -> str:
    """What an object may have, for the one who gave it something else."""
    names = ", ".join(schema.get("properties", {}))
    return f"allowed are: {names}" if names else "nothing is allowed here"


def add_validation_errors(problems: Problems, error: ValidationError, value: Any) -> None:
    """Add what pydantic found.

    Args:
        problems: takes the problems; a place that it knows is not told of twice.
        error: pydantic's.
        value: the arguments it is about.
    """
    found = [(_path(details["loc"], value), details) for details in error.errors(include_url=False)]
    for path, details in [(path, details) for path, details in found if path not in problems]:
        problems.add(path, _words(details))


def add_schema_errors(problems: Problems, errors: Iterable[SchemaViolation], view: SchemaView) -> None:
    """Add what jsonschema found.

    Args:
        problems: takes the problems.
        errors: jsonschema's.
        view: of the schema that it checked.
    """
    found: dict[Path, list[str]] = {}
    for error in errors:
        path = tuple(error.absolute_path)
        rule: Any = error.validator_value
        if error.validator == "required":
            instance: Any = error.instance
            for name in rule:
                if name not in instance and (*path, name) not in problems:
                    found[*path, name] = ["is missing"]
        else:
            found.setdefault(path, []).append(_rule(error, rule, view))
    for path, words in found.items():
        problems.add(path, " and ".join(words))


def _rule(error: SchemaViolation, rule: Any, view: SchemaView) -> str:
    kind: Any = error.validator
    if kind in {"type", "enum", "const", "anyOf", "oneOf"}:
        got = f", not {with_article(json_type(error.instance))}" if kind == "type" else ""
        return f"must be {wanted(view, error.schema)}{got}"
    if kind is None:
        return "has a part that is never allowed"  # its schema is `false`; jsonschema does not tell which part it is
    return f"breaks the rule {kind}: {json.dumps(rule, ensure_ascii=False)}"


_KINDS = {
    "array": {"frozen_set_type", "iterable_type", "list_type", "set_type", "tuple_type"},
    "object": {"dataclass_type", "dict_type", "mapping_type", "model_attributes_type", "model_type"},
}


def _words(details: ErrorDetails) -> str:
    kind, message = details["type"], details["msg"]
    if kind == "missing":
        return "is missing"
    for shape, kinds in _KINDS.items():
        if kind in kinds:
            message = f"Input should be {with_article(shape)}"
    got = f", not {with_article(json_type(details['input']))}" if kind.endswith("_type") else ""
    for beginning, better in (("Input should", "should"), ("Value error, ", ""), ("Assertion failed, ", "")):
        if message.startswith(beginning):
            message = better + message.removeprefix(beginning)
    return message + got


def _path(location: tuple[int | str, ...], value: Any) -> Path:
    """The place of an error, without what pydantic puts in of its own, such as which member of a union it tried."""
    path: list[int | str] = []
    for last, step in ((number == len(location) - 1, step) for number, step in enumerate(location)):
        if isinstance(step, int) and isinstance(value, list) and (step < len(value) or last):
            value = value[step] if step < len(value) else None
        elif isinstance(step, str) and isinstance(value, Mapping) and (step in value or last):
            value = value.get(step)
        else:
            continue
        path.append(step)
    return tuple(path)
