"""JSON Schema as far as arguments need it: references, unions, and whether a value fits.

Schemas are the users' own and may be odd. What is not understood here is left for the tool to judge.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import Any, Final, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

ANYTHING: Final[Schema] = {}
IMPOSSIBLE: Final[Schema] = {"enum": []}
_HOPS = 16
_HUGE, _TINY = 1e200, 1e-9
_UNIONS = 4  # unions within each other
_DEPTH = 32  # of a value, and of unions that lead to themselves
_STEPS = 2000  # of one comparison; a schema that refers to itself in a union would take for ever
_BRANCHES = 12
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class Nothing(Enum):
    """The type of NOTHING: no value, which null is."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING


def mapping(value: object) -> Schema:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else ANYTHING


def listed(value: object) -> list[Any]:
    """The value as a list if it is an array, else an empty one."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else []


def kind(value: object) -> str:
    """The JSON type of a value, `integer` for whole numbers of either Python type."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    for name, types in _TYPES.items():
        if isinstance(value, types):
            return "number" if name == "integer" else name
    return "unknown"


def number_of(value: object) -> float | None:
    """The value if it is a number to reckon with, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < _HUGE else None  # comparing lets in no NaN, and dividing stays finite


def step_of(schema: Schema) -> float | None:
    """Of what a number must be a multiple, None where nothing is said that can be reckoned with."""
    step = number_of(schema.get("multipleOf"))
    return step if step is not None and step > _TINY else None


class Schemas:
    """The schema of one tool's arguments, with its definitions.

    Args:
        root: the whole schema; references are looked up in it.
    """

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._steps = 0

    def resolve(self, schema: object) -> Schema:
        """A schema with its reference followed and its `allOf` joined in."""
        if isinstance(schema, bool):
            return ANYTHING if schema else IMPOSSIBLE
        found: dict[str, Any] = dict(mapping(schema))
        for _ in range(_HOPS):
            joined: list[object] = []
            if isinstance(reference := found.pop("$ref", None), str):
                joined.append(self._referred(reference))
            joined += listed(found.pop("allOf", None))
            if not joined:
                return found
            for part in joined:
                found = _united(IMPOSSIBLE if part is False else mapping(part), found)
        return IMPOSSIBLE  # a reference that leads to itself

    def _referred(self, reference: str) -> object:
        place: object = self.root
        for step in reference.removeprefix("#").split("/")[1:]:
            place = mapping(place).get(step.replace("~1", "/").replace("~0", "~"), ANYTHING)
        return place

    def branches(self, schema: object, depth: int = 0) -> list[Schema]:
        """What a value may be, one schema each, without null."""
        whole = self.resolve(schema)
        for keyword in ("anyOf", "oneOf"):
            if options := listed(whole.get(keyword)):
                rest = {key: value for key, value in whole.items() if key != keyword}
                parts = [self.resolve(option) for option in options] if depth < _UNIONS else []
                found = (one for part in parts for one in self.branches(_united(part, rest), depth + 1))
                return list(islice(found, _BRANCHES))
        types = listed(whole.get("type"))
        kinds = [each for each in types if isinstance(each, str)] if types else [whole.get("type")]
        return [{**whole, "type": each} if types else whole for each in kinds if each != "null"]

    def nullable(self, schema: object) -> bool:
        """Whether null is a value of its own, not merely allowed because anything is."""
        whole = self.resolve(schema)
        options = listed(whole.get("anyOf")) + listed(whole.get("oneOf"))
        types = [whole.get("type"), *listed(whole.get("type"))]
        return "null" in types or any(self.resolve(option).get("type") == "null" for option in options)

    def fits(self, value: object, schema: object) -> bool:
        """Whether a JSON value is one that the schema allows, as far as this module knows the schema's words."""
        self._steps = 0
        return self._fits(value, schema, 0)

    def _fits(self, value: object, schema: object, depth: int) -> bool:
        self._steps += 1
        if (
            self._steps > _STEPS
            or depth > _DEPTH
            or kind(value) == "unknown"
            or (isinstance(value, float) and not math.isfinite(value))
        ):
            return False
        whole = self.resolve(schema)
        if "const" in whole and not _same(value, whole["const"]):
            return False
        if "enum" in whole and not any(_same(value, each) for each in listed(whole["enum"])):
            return False
        for keyword in ("anyOf", "oneOf"):
            options = listed(whole.get(keyword))
            if options and not any(self._fits(value, option, depth + 1) for option in options):
                return False
        return _type_fits(value, whole) and self._parts_fit(value, whole, depth + 1)

    def _parts_fit(self, value: object, whole: Schema, depth: int) -> bool:
        if isinstance(value, str):
            return _text_fits(value, whole)
        if (number := number_of(value)) is not None:
            return _number_fits(number, whole)
        if isinstance(value, list):
            return self._array_fits(value, whole, depth)
        if isinstance(value, dict):
            return self._object_fits(value, whole, depth)
        return True

    def _array_fits(self, value: list[Any], whole: Schema, depth: int) -> bool:
        least, most = number_of(whole.get("minItems")), number_of(whole.get("maxItems"))
        if not (least or 0) <= len(value) <= (math.inf if most is None else most):
            return False
        if whole.get("uniqueItems") is True and any(
            _same(one, other) for place, one in enumerate(value) for other in value[:place]
        ):
            return False
        first = listed(whole.get("prefixItems"))
        rest = whole.get("items", True)
        return all(
            self._fits(each, first[place] if place < len(first) else rest, depth) for place, each in enumerate(value)
        )

    def _object_fits(self, value: dict[str, Any], whole: Schema, depth: int) -> bool:
        properties = mapping(whole.get("properties"))
        if any(isinstance(name, str) and name not in value for name in listed(whole.get("required"))):
            return False
        others = whole.get("additionalProperties", True)
        return all(self._fits(each, properties.get(name, others), depth) for name, each in value.items())


def _united(base: Schema, over: Schema) -> dict[str, Any]:
    """Two schemas that both hold. Properties and required names are united, of the rest `over` wins."""
    united = {**base, **over}
    for keyword in ("properties", "$defs"):
        if keyword in base and keyword in over:
            united[keyword] = {**mapping(base[keyword]), **mapping(over[keyword])}
    if "required" in base and "required" in over:
        united["required"] = [*listed(base["required"]), *listed(over["required"])]
    return united


def _same(one: object, other: object) -> bool:
    """Equality of JSON, where true is not 1."""
    return kind(one) == kind(other) and one == other


def _type_fits(value: object, whole: Schema) -> bool:
    types = [each for each in (listed(whole.get("type")) or [whole.get("type")]) if each in _TYPES]
    actual = kind(value)
    return not types or actual in types or (actual == "integer" and "number" in types)


def _text_fits(value: str, whole: Schema) -> bool:
    least, most = number_of(whole.get("minLength")), number_of(whole.get("maxLength"))
    if not (least or 0) <= len(value) <= (math.inf if most is None else most):
        return False
    pattern = whole.get("pattern")
    if not isinstance(pattern, str):
        return True
    try:
        return re.search(pattern, value) is not None
    except (re.error, RecursionError, OverflowError):  # a pattern in another dialect: the tool decides
        return True


def _number_fits(value: float, whole: Schema) -> bool:
    step = step_of(whole)
    if step and abs(value / step - round(value / step)) > _TINY:
        return False
    return all(
        (limit := number_of(whole.get(keyword))) is None or holds(value, limit)
        for keyword, holds in (
            ("minimum", operator.ge),
            ("maximum", operator.le),
            ("exclusiveMinimum", operator.gt),
            ("exclusiveMaximum", operator.lt),
        )
    )
