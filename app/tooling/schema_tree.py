"""JSON Schema as a tree: visiting it, following its references, asking what it accepts.

Only what stands in the position of a schema is taken for one. The names under `properties` and the values under
`default`, `enum`, `const` and `examples` are data, whatever they look like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = Mapping[str, Any]

DEFINITIONS = "#/$defs/"

_HOLDS_A_SCHEMA = frozenset({
    "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_HOLDS_A_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_HOLDS_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})

_JSON_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),  # before int, which it is in Python
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (Mapping, "object"),
    (list, "array"),
)


def json_type(value: object) -> str:
    """The JSON Schema type of a decoded JSON value."""
    return next((name for kind, name in _JSON_TYPES if isinstance(value, kind)), "null")


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


def references(schema: Schema) -> list[str]:
    """Names of the definitions that a schema points to, as often as it does."""
    found = (part.get("$ref") for part in subschemas(schema))
    return [name.removeprefix(DEFINITIONS) for name in found if isinstance(name, str)]


def recursive_definitions(definitions: Mapping[str, Schema]) -> set[str]:
    """Names of the definitions that contain themselves, directly or through others."""
    direct = {name: references(definition) for name, definition in definitions.items()}

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [*direct[start]]
        while waiting:
            name = waiting.pop()
            if name not in seen and name in direct:
                seen.add(name)
                waiting += direct[name]
        return seen

    return {name for name in definitions if name in reachable(name)}


class SchemaView:
    """Answers questions about the parts of one schema, references followed.

    Args:
        root: the whole schema, in which references are looked up.
    """

    def __init__(self, root: Schema) -> None:
        self._root = root

    def target(self, reference: str) -> Any:
        """What a reference within the schema points to.

        Raises:
            LookupError: nothing, or something outside of the schema.
        """
        if reference != "#" and not reference.startswith("#/"):
            raise LookupError(f"{reference} is not a path within the schema")
        found: Any = self._root
        for step in unquote(reference).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if isinstance(found, list) and name.isdecimal() else found[name]
        return found

    def resolve(self, schema: Any) -> Schema:
        """The schema itself, with its reference followed to the end if it has one. `True` is the empty schema.

        Raises:
            LookupError: as `target` does, or the reference leads back to itself.
        """
        seen: set[str] = set()
        while isinstance(schema, Mapping) and "$ref" in schema:
            reference = schema["$ref"]
            if reference in seen:
                raise LookupError(f"{reference} leads back to itself")
            seen.add(reference)
            target = self.target(reference)
            beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
            schema = {**target, **beside} if isinstance(target, Mapping) else target
        return schema if isinstance(schema, Mapping) else {}

    def branches(self, schema: Schema) -> list[Schema]:
        """The alternatives that a resolved schema offers, those within alternatives included; itself if it has none."""
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return [branch for option in schema[keyword] for branch in self.branches(self.resolve(option))]
        return [schema]

    def accepted_types(self, schema: Schema) -> set[str] | None:
        """JSON types that a resolved schema takes; None = all of them."""
        accepted: set[str] = set()
        for branch in self.branches(schema):
            types = _own_types(branch)
            if types is None:
                return None
            accepted |= types
        return accepted

    def accepts(self, schema: Schema, kind: str) -> bool:
        """Whether a resolved schema takes values of a JSON type."""
        types = self.accepted_types(schema)
        return types is None or kind in types or (kind == "integer" and "number" in types)


def _own_types(schema: Schema) -> set[str] | None:
    if "type" in schema:
        kinds = schema["type"]
        return {kinds} if isinstance(kinds, str) else set(kinds)
    if "const" in schema:
        return {json_type(schema["const"])}
    if "enum" in schema:
        return {json_type(value) for value in schema["enum"]}
    return None
