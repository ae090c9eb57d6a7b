"""Answers in JSON, for requests that ask for a response format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from app.providers.embedded.building import build
from app.providers.embedded.examples import made_up
from app.providers.embedded.filling import values_in
from app.providers.embedded.schemas import NOTHING, Schema, Schemas, mapping


def wanted_schema(response_format: Mapping[str, Any] | None) -> Schema | None:
    """The schema that the answer must fit; an empty one for any object, None where text is wanted."""
    match mapping(response_format).get("type"):
        case "json_schema":
            inner = mapping(mapping(response_format).get("json_schema"))
            return mapping(inner.get("schema"))
        case "json_object":
            return {}
        case _:
            return None


def as_json(schema: Schema, answer: str, message: str, results: Iterable[str]) -> str:
    """An answer as JSON.

    Where the schema allows, a field has the value of its name in a tool's result, else what the message says of it;
    any other text is the answer in words, and any other value the first that fits.

    Args:
        schema: what the JSON should fit; an empty one takes the answer under the key `answer`.
        answer: the answer in words.
        message: what the user said.
        results: the texts of the tools' results.
    """
    value = _made(Schemas(schema), answer, message, results) if schema else NOTHING
    return json.dumps({"answer": answer} if value is NOTHING else value, ensure_ascii=False)


def _made(schemas: Schemas, answer: str, message: str, results: Iterable[str]) -> Any:
    group, values = values_in(schemas, message)
    known = _fields(results)
    for slot in group.slots():
        name = slot.path[-1]
        if name in known and schemas.fits(known[name], slot.schema):
            values[slot.path] = known[name]
        elif slot.required and slot.path not in values:
            made = made_up(schemas, slot.schema, answer)
            values |= {} if made is NOTHING else {slot.path: made}
    built = build(schemas, group, values) if group.members else NOTHING
    return made_up(schemas, schemas.root, answer) if built is NOTHING else built


def _fields(results: Iterable[str]) -> dict[str, Any]:
    """The fields of all results that are JSON objects, the first of a name winning."""
    fields: dict[str, Any] = {}
    for text in results:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        for name, each in mapping(value).items():
            fields.setdefault(name, each)
    return fields
