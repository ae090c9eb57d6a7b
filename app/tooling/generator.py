"""From a pydantic core schema to JSON Schema, with what authors wrote beside the types."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from app.tooling.notes import Note, class_documentation, is_description_of, notes_of

NONE_WHEN_MISSING = "x-none-when-missing"
"""Our own keyword beside `properties`: names of those that are passed as None when they are not given.

It tells the reading of arguments what to do and is taken out of what the model gets to see.
"""

MEMBERS = "x-members"
"""Our own keyword beside `enum`: what the values are called. In what the model gets to see it ends the description."""


class ToolSchemaGenerator(GenerateJsonSchema):
    """Pydantic's generator, with notes on parameters and fields, and for types only that JSON values can stand for.

    Args:
        notes: on the fields of classes that are made at run time and so have no place for notes of their own.
    """

    def __init__(self, notes: Mapping[type, Mapping[str, Note]]) -> None:
        super().__init__()
        self._given_notes = notes

    def emit_warning(self, kind: str, detail: str) -> None:
        """A member of a union that has no schema is no less wrong than a type by itself; other warnings tell no one."""
        if kind == "skipped-choice":
            raise PydanticInvalidForJsonSchema(detail)

    def field_is_present(self, field: Any) -> bool:
        """Fields that a dataclass does not take in its `__init__` are not a model's to give."""
        return bool(field.get("init", True)) and super().field_is_present(field)

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No titles made from names: they tell a model nothing."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """A pydantic model."""
        return self._with_notes(schema["cls"], super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """A dataclass, of the standard library or of pydantic."""
        return self._with_notes(schema["cls"], super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        """A `TypedDict`."""
        json_schema = super().typed_dict_schema(schema)
        return self._with_notes(schema["cls"], json_schema) if "cls" in schema else json_schema

    def named_tuple_schema(self, schema: core_schema.NamedTupleSchema) -> JsonSchemaValue:
        """A `NamedTuple`: an object, for a model does better with names than with places."""
        places = super().named_tuple_schema(schema)
        names = [field["name"] for field in schema["fields"]]
        properties = dict(zip(names, places.get("prefixItems", []), strict=True))
        json_schema = {"type": "object", "properties": properties, "required": names[: places.get("minItems", 0)]}
        return self._with_notes(schema["cls"], json_schema)

    def generator_schema(self, schema: core_schema.GeneratorSchema) -> JsonSchemaValue:
        """Refused: its items would be checked while the tool runs, not before."""
        return self.handle_invalid_for_json_schema(schema, "an Iterable or Generator inside of another type; use list")

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        """Bytes are base64, in arguments as in results."""
        return {"type": "string", "contentEncoding": "base64"}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        """Enums go by their values; values that are no words are explained by their names."""
        cls: type[enum.Enum] = schema["cls"]
        if not all(isinstance(member.value, str | int | float) for member in cls):
            return self.handle_invalid_for_json_schema(schema, f"{cls.__name__}, whose values are not text or numbers")
        json_schema = super().enum_schema(schema)
        if not all(isinstance(member.value, str) for member in cls):
            json_schema[MEMBERS] = ", ".join(f"{member.value} = {member.name}" for member in cls)
        return json_schema

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        """Members of an enum in a `Literal` only where they are what JSON says: pydantic takes no value for them."""
        for member in schema["expected"]:
            if isinstance(member, enum.Enum) and not isinstance(member, str | int):
                name = type(member).__name__
                return self.handle_invalid_for_json_schema(
                    schema, f"Literal[{member}]: its value does not do for it unless {name} is a StrEnum or an IntEnum"
                )
        return super().literal_schema(schema)

    def _with_notes(self, cls: type, json_schema: JsonSchemaValue) -> JsonSchemaValue:
        if is_description_of(json_schema.get("description"), cls):
            del json_schema["description"]  # the whole docstring; what it says of fields goes to them
        if described := class_documentation(cls).description:
            json_schema.setdefault("description", described)
        if json_schema.get("properties"):
            notes = self._given_notes[cls] if cls in self._given_notes else notes_of(cls)
            _note_properties(json_schema, notes)
        return json_schema


def _note_properties(schema: JsonSchemaValue, notes: Mapping[str, Note]) -> None:
    """Add descriptions, and settle what must be given: not what may be None, unless its author says so."""
    without_default = schema.pop("required", [])
    required, none_when_missing = [], []
    for name, value in schema["properties"].items():
        note = notes.get(name, Note())
        needs_value = name in without_default
        wanted = note.required if note.required is not None else needs_value and not _takes_none(value)
        if wanted:
            required.append(name)
        elif needs_value:
            none_when_missing.append(name)
        none_says_nothing = needs_value or note.required is False or value.get("default", ...) is None
        plain = _without_none(value) if none_says_nothing and not wanted else value
        schema["properties"][name] = _described(plain, note)
    if required:
        schema["required"] = required
    if none_when_missing:
        schema[NONE_WHEN_MISSING] = none_when_missing


def _described(schema: JsonSchemaValue, note: Note) -> JsonSchemaValue:
    description = note.description or schema.get("description") or note.fallback
    return {**schema, "description": description} if description else schema


def _takes_none(schema: JsonSchemaValue) -> bool:
    return {"type": "null"} in schema.get("anyOf", [])


def _without_none(schema: JsonSchemaValue) -> JsonSchemaValue:
    """The same without None: to leave the property out says as much, and model servers like plain types better."""
    rest = {keyword: value for keyword, value in schema.items() if not (keyword == "default" and value is None)}
    if not _takes_none(rest):
        return rest
    branches = [branch for branch in rest.pop("anyOf") if branch != {"type": "null"}]
    return {**branches[0], **rest} if len(branches) == 1 else {"anyOf": branches, **rest}
