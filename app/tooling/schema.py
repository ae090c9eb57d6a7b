"""JSON Schema (2020-12) of a tool's arguments, in the form that model servers take.

Differs from Spring AI:

1. Enums go by their values, which in Python are their JSON form; where these are numbers, the description gives the
   names (parity 148).
2. Integers have no `format`, for Python's have no width (parity 142).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import chain, count
from typing import Any

from app.chat.json_schema import Schema, map_subschemas, subschemas
from app.tooling.generator import MEMBERS, NONE_WHEN_MISSING
from app.tooling.schema_tree import DEFINITIONS, recursive_definitions, references

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_INLINED = 2_000
"""How many schemas a definition may grow to by inlining; types that share types that share types grow without bound."""

_FIRST = ("$schema", "type", "description", "$defs", "properties", "required", "additionalProperties")


def tidy(schema: Schema) -> dict[str, Any]:
    """Bring an object schema as pydantic makes it into the form that model servers take.

    References are inlined unless recursive. `$defs` stands before `properties`, for some servers read in order. Objects
    take no properties but theirs. Arrays have `items`. Titles, defaults that are no JSON, and OpenAPI's `discriminator`
    are gone.
    """
    definitions: Mapping[str, Schema] = schema.get("$defs", {})
    kept = _kept(definitions)

    @cache
    def inlined(name: str) -> dict[str, Any]:
        return visited(definitions[name])

    def visited(part: Schema) -> dict[str, Any]:
        if "$ref" not in part:
            return _tidied(map_subschemas(part, visited))
        name = part["$ref"].removeprefix(DEFINITIONS)
        target = {"$ref": DEFINITIONS + kept[name]} if name in kept else inlined(name)
        return {**target, **_tidied({keyword: value for keyword, value in part.items() if keyword != "$ref"})}

    result = {
        "$schema": DIALECT,
        **visited({keyword: value for keyword, value in schema.items() if keyword != "$defs"}),
    }
    if kept:
        result["$defs"] = {new: visited(definitions[old]) for old, new in kept.items()}
    return _ordered(result)


def public(schema: Schema) -> dict[str, Any]:
    """The schema without the keywords that are our own."""
    shown = map_subschemas(schema, public)
    shown.pop(NONE_WHEN_MISSING, None)
    if members := shown.pop(MEMBERS, None):
        shown["description"] = "\n".join(filter(None, [shown.get("description"), members]))
    return shown


def allow_more(schema: Schema) -> dict[str, Any]:
    """The schema with further properties allowed at every level."""
    changed = map_subschemas(schema, allow_more)
    if changed.get("additionalProperties") is False:
        del changed["additionalProperties"]
    return changed


def upper_case(schema: Schema) -> dict[str, Any]:
    """The schema with the types' names in upper case, as the Gemini API writes them."""
    changed = map_subschemas(schema, upper_case)
    if isinstance(kinds := changed.get("type"), str):
        changed["type"] = kinds.upper()
    elif isinstance(kinds, list):
        changed["type"] = [kind.upper() for kind in kinds]
    return changed


def _kept(definitions: Mapping[str, Schema]) -> dict[str, str]:
    """The definitions that stay, with the names they get: recursive ones, and such as would grow too large."""
    kept = recursive_definitions(definitions)
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        if name in kept:
            return 1
        if name not in sizes:
            inner = Counter(references(definitions[name]))
            sizes[name] = sum(1 for _ in subschemas(definitions[name])) + sum(
                size(other) * times for other, times in inner.items()
            )
            if sizes[name] > MAX_INLINED:
                kept.add(name)
                return 1
        return sizes[name]

    for name in definitions:
        size(name)
    return _named({name: definitions[name] for name in definitions if name in kept})


def _named(definitions: Mapping[str, Schema]) -> dict[str, str]:
    """A name for each definition: its class's own, and `Filter_2` for the second class called `Filter`.

    Pydantic's names hold whole module paths where simple names collide, which are nobody's business.
    """
    names: dict[str, str] = {}
    for name, definition in definitions.items():
        simple = re.sub(r"[^A-Za-z0-9]", "_", str(definition.get("title", name)))
        candidates = chain([simple], (f"{simple}_{number}" for number in count(2)))
        names[name] = next(candidate for candidate in candidates if candidate not in names.values())
    return names


def _tidied(schema: dict[str, Any]) -> dict[str, Any]:
    schema.pop("title", None)
    if schema.pop("discriminator", None) is not None and "oneOf" in schema:
        schema["anyOf"] = schema.pop("oneOf")  # the same where a tag tells them apart, and known to more servers
    if "default" in schema and not _is_json(schema["default"]):
        del schema["default"]
    if schema.get("type") == "array":
        _give_items(schema)
    if "properties" in schema and "patternProperties" not in schema:
        schema.setdefault("additionalProperties", False)
    return _ordered(schema)


def _ordered(schema: dict[str, Any]) -> dict[str, Any]:
    return {keyword: schema[keyword] for keyword in (*_FIRST, *schema) if keyword in schema}


def _give_items(schema: dict[str, Any]) -> None:
    """Give an array `items`, which strict servers demand, also where `prefixItems` says all there is to say."""
    prefix: list[dict[str, Any]] = schema.get("prefixItems", [])
    distinct = [item for place, item in enumerate(prefix) if item not in prefix[:place]]
    if "items" not in schema:
        schema["items"] = {"anyOf": distinct} if len(distinct) > 1 else distinct[0] if distinct else {}
    if len(distinct) == 1 and schema["items"] == distinct[0]:
        del schema["prefixItems"]


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
