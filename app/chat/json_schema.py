"""JSON Schema as a tree, and the form of it that servers take which hold a model to the schema.

Only what stands in the position of a schema is taken for one. The names under `properties` and the values under
`default`, `enum`, `const` and `examples` are data, whatever they look like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

_HOLDS_A_SCHEMA = frozenset({
    "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_HOLDS_A_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_HOLDS_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})


def map_subschemas(schema: Schema, change: Callable[[Schema], Any]) -> dict[str, Any]:
    """A copy of a schema in which `change` was applied to every schema directly within it."""

    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, Mapping) else value  # true and false are schemas, too

    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _HOLDS_A_SCHEMA:
            result[keyword] = changed(value)
        elif keyword in _HOLDS_A_LIST and isinstance(value, list):
            result[keyword] = [changed(item) for item in value]
        elif keyword in _HOLDS_NAMED and isinstance(value, Mapping):
            result[keyword] = {name: changed(item) for name, item in value.items()}
        else:
            result[keyword] = value
    return result


def subschemas(schema: Schema) -> Iterator[Schema]:
    """A schema and all schemas within it."""
    direct: list[Schema] = []

    def collect(found: Schema) -> Schema:
        direct.append(found)
        return found

    map_subschemas(schema, collect)
    yield schema
    for found in direct:
        yield from subschemas(found)


def make_strict(schema: Schema) -> dict[str, Any]:
    """The schema for servers that hold the model to it: every property is required, and null stands for "not given"."""
    changed = map_subschemas(schema, make_strict)
    if properties := changed.get("properties"):
        wanted = changed.get("required", [])
        changed["properties"] = {
            name: value if name in wanted else _or_null(value) for name, value in properties.items()
        }
        changed["required"] = list(properties)
    return changed


def _or_null(schema: Schema) -> dict[str, Any]:
    beside = {keyword: schema[keyword] for keyword in ("description",) if keyword in schema}
    value = {keyword: item for keyword, item in schema.items() if keyword not in {"description", "default"}}
    branches = value["anyOf"] if set(value) == {"anyOf"} else [value]
    return {"anyOf": [*(branch for branch in branches if branch != {"type": "null"}), {"type": "null"}], **beside}
