"""Arguments made of the values that were found for a tool's parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from app.providers.embedded.dates import zone_of
from app.providers.embedded.fitting import Fit
from app.providers.embedded.schemas import NOTHING, Schema, Schemas, listed
from app.providers.embedded.slots import Group, Path

Values: TypeAlias = dict[Path, Any]

_JOIN = re.compile(
    r"\s*(?:[%\w]{1,12}\s)?\s*(?:,(?:\s*(?:and|or)\b)?|\band\b|\bor\b|&|\bvs\b\.?|\bversus\b)"
    r"\s*(?:also\s+)?(?:(?:in|for|at|of|from|on|the)\s+)*",
    re.IGNORECASE,
)
_MOST_CALLS = 8


def given(schema: Schema, schemas: Schemas) -> Any:
    """The value that a schema itself settles: a constant, its default, or null where this is a value of its own."""
    if "const" in schema:
        return schema["const"]
    if len(listed(schema.get("enum"))) == 1:
        return listed(schema["enum"])[0]
    if "default" in schema and schemas.fits(schema["default"], schema):
        return schema["default"]
    return None if schemas.nullable(schema) else NOTHING


def build(schemas: Schemas, group: Group, values: Mapping[Path, Any]) -> Any:
    """Arguments that fit the schema: with all values, else with the required ones alone; NOTHING where neither fits."""
    required = {slot.path for slot in group.slots() if slot.required}
    for some in (values, {path: value for path, value in values.items() if path in required}):
        arguments = _object(schemas, group, some)
        if arguments is not NOTHING and schemas.fits(arguments, schemas.root):
            return arguments
    return NOTHING


def _object(schemas: Schemas, group: Group, values: Mapping[Path, Any]) -> Any:
    made: dict[str, Any] = {}
    for member in group.members:
        if isinstance(member, Group):
            value = _object(schemas, member, values) if member.needed or _spoken_of(member, values) else NOTHING
            if member.in_list and value is not NOTHING:
                value = [value] if value else []
            name = member.path[-2] if member.in_list else member.path[-1]
        else:
            value = values.get(member.path, NOTHING)
            if value is NOTHING and member.needed:
                value = given(member.schema, schemas)
            name = member.path[-1]
        if value is not NOTHING:
            made[str(name)] = value
        elif member.needed:
            return NOTHING
    return made


def _spoken_of(group: Group, values: Mapping[Path, Any]) -> bool:
    return any(slot.path in values for slot in group.slots())


def listed_further(text: str, fits: Sequence[Fit], accepted: Sequence[Fit]) -> list[dict[Path, Any]]:
    """Further values that a text lists for one parameter, as `Oslo` in `Paris and Oslo`: each makes one more call.

    Args:
        text: the text in which the values were found.
        fits: all values and parameters that suit each other.
        accepted: those that were chosen.
    """
    for chosen in sorted(accepted, key=lambda fit: fit.find.start):
        others = [fit for fit in accepted if fit is not chosen]
        if any(_JOIN.fullmatch(text, other.find.end, chosen.find.start) for other in others):
            continue  # a list of which each element has a parameter of its own
        further: list[Fit] = []
        end = chosen.find.end
        for fit in sorted(fits, key=lambda fit: (fit.find.start, -fit.score)):
            is_next = fit.slot is chosen.slot and fit.find.start >= end and _JOIN.fullmatch(text, end, fit.find.start)
            if is_next and not any(fit.find.overlaps(other.find) for other in others):
                further.append(fit)
                end = fit.find.end
        if further and not _is_qualified(text, chosen, further):
            values = [chosen.value]
            for fit in further:
                values += [] if fit.value in values else [fit.value]
            return [{chosen.slot.path: value} for value in values[1:_MOST_CALLS]]
    return []


def _is_qualified(text: str, chosen: Fit, further: list[Fit]) -> bool:
    """Whether the second of two names says where the first is, as in `Paris, Texas`."""
    gap = text[chosen.find.end : further[0].find.start].strip()
    is_name = further[0].find.kind in {"name", "code"} and zone_of(str(further[0].find.value)) is None
    return len(further) == 1 and gap == "," and is_name and chosen.slot.sense in {"place", "zone"}
