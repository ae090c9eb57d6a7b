"""Values made up for calls that must be made whatever the message says."""

from __future__ import annotations

import math
from typing import Any

from app.providers.embedded.schemas import (
    ANYTHING,
    NOTHING,
    Schema,
    Schemas,
    listed,
    mapping,
    number_of,
    step_of,
)

_DEEPEST = 4
_MOST = 16  # elements of an array, characters of a padding
_SAMPLES = {
    "date": "2000-01-01",
    "time": "12:00:00",
    "date-time": "2000-01-01T12:00:00Z",
    "duration": "PT1H",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.com",
}
"""Values of well-known formats, those that are reserved for examples where there is such a reserve."""


def made_up(schemas: Schemas, schema: object, text: str, depth: int = 0) -> Any:
    """The first value that a schema allows, or NOTHING.

    Args:
        schemas: the whole schema, for its definitions.
        schema: what the value must fit.
        text: what stands where any text will do.
        depth: how deep the value lies in another.
    """
    if depth > _DEEPEST:
        return NOTHING
    whole = schemas.resolve(schema)
    for value in (*_offered(whole), *_built(schemas, whole, text, depth)):
        if value is not NOTHING and schemas.fits(value, whole):
            return value
    return NOTHING


def _offered(whole: Schema) -> list[Any]:
    """Values that the schema itself names."""
    offered = [whole[keyword] for keyword in ("const", "default") if keyword in whole]
    return [*offered, *listed(whole.get("examples"))[:1], *listed(whole.get("enum"))]


def _built(schemas: Schemas, whole: Schema, text: str, depth: int) -> list[Any]:
    built: list[Any] = []
    for branch in schemas.branches(whole):
        match branch.get("type"):
            case "integer" | "number":
                built.append(_number(branch))
            case "boolean":
                built.append(False)
            case "array":
                built.append(_array(schemas, branch, text, depth))
            case "object":
                built.append(_object(schemas, branch, text, depth))
            case None if "properties" in branch:
                built.append(_object(schemas, branch, text, depth))
            case _:
                built.append(_text(branch, text))
    return [*built, None] if schemas.nullable(whole) else built


def _array(schemas: Schemas, branch: Schema, text: str, depth: int) -> object:
    first = listed(branch.get("prefixItems"))
    least = min(int(number_of(branch.get("minItems")) or 0), _MOST)
    places = [*first, *[branch.get("items", True)] * max(0, least - len(first))]
    values = [made_up(schemas, place, text, depth + 1) for place in places]
    return NOTHING if NOTHING in values else values


def _object(schemas: Schemas, branch: Schema, text: str, depth: int) -> object:
    properties = mapping(branch.get("properties"))
    names = [name for name in listed(branch.get("required")) if isinstance(name, str)]
    values = {name: made_up(schemas, properties.get(name, ANYTHING), text, depth + 1) for name in names}
    return NOTHING if NOTHING in values.values() else values


def _number(branch: Schema) -> float:
    least, above = number_of(branch.get("minimum")), number_of(branch.get("exclusiveMinimum"))
    most, below = number_of(branch.get("maximum")), number_of(branch.get("exclusiveMaximum"))
    if least is None and above is None:
        start = min(1, 1 if most is None else most, 1 if below is None else below - 1)
    else:
        start = least if least is not None else (above or 0) + 1
    step = step_of(branch)
    value = math.ceil(start / step) * step if step else start
    return math.ceil(value) if branch.get("type") == "integer" else value


def _text(branch: Schema, text: str) -> str:
    form = branch.get("format")
    if isinstance(form, str) and form in _SAMPLES:
        return _SAMPLES[form]
    most = number_of(branch.get("maxLength"))
    value = text.strip() or "example"
    value = value if most is None else value[: max(0, int(most))]
    least = min(int(number_of(branch.get("minLength")) or 0), len(value) + _MOST)
    return value.ljust(least, "x")
