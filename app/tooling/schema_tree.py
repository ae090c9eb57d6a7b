"""JSON Schema as a tree: following its references, asking what it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from app.chat.json_schema import Schema, subschemas

DEFINITIONS = "#/$defs/"

_JSON_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),  # before int, which it is in Python
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (Mapping, "object"),
    (list, "array"),
)

_DECODED = {**{kind: name for kind, name in _JSON_TYPES if kind is not Mapping}, dict: "object", type(None): "null"}
"""What a decoder of JSON makes."""


def json_type(value: object) -> str:
    """The JSON Schema type of a decoded JSON value."""
    exactly = _DECODED.get(type(value))
    return exactly or next((name for kind, name in _JSON_TYPES if isinstance(value, kind)), "null")


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
        if isinstance(schema, dict) and "$ref" not in schema:
            return schema
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
