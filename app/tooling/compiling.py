"""From a function's parameters to what validates them and to their JSON Schema."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Annotated, Any, get_args, get_origin
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo

from app.chat.json_schema import Schema, make_strict
from app.tooling.generator import ToolSchemaGenerator
from app.tooling.notes import Note, json_name, metadata_of, note_of
from app.tooling.portable import portable
from app.tooling.schema import allow_more, public, tidy, upper_case
from app.tooling.signature import (
    MISSING,
    Function,
    Parameter,
    Signature,
    documentation_of,
    plain_function,
    read_signature,
    show_type,
    wrong,
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What is made of a function's parameters.

    Attributes:
        fields: parameters by the model's field. Their names are our own, for parameters may be called `copy`, `_x` or
            `model_config`.
        model: validates arguments.
        schema: the same as JSON Schema, with our own keywords.
        public: without them.
        from_model: fields whose default the function does not know, for `Field` says it.
    """

    fields: Mapping[str, Parameter]
    model: type[BaseModel]
    schema: Schema
    public: Schema
    from_model: frozenset[str]


_compiled: WeakKeyDictionary[Any, dict[bool, Compiled]] = WeakKeyDictionary()
"""By function, and whether it is bound. Kept because providers of tools are asked for every request and a schema takes
milliseconds."""


def compile_function(function: Function, signature: Signature, documented: Mapping[str, str]) -> Compiled:
    """Make what validates a function's arguments.

    Args:
        function: what the parameters are of.
        signature: its signature.
        documented: descriptions of parameters from the docstring.

    Raises:
        ConfigurationError: a parameter's type has no JSON Schema.
    """
    if not isinstance(function, FunctionType | MethodType):
        return _compile(function, signature, documented)
    known = _compiled.setdefault(plain_function(function), {})
    is_bound = isinstance(function, MethodType)
    if is_bound not in known:
        known[is_bound] = _compile(function, signature, documented)
    return known[is_bound]


def input_schema(
    function: Function,
    *,
    additional_properties: bool = False,
    strict: bool = False,
    upper_case_types: bool = False,
) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a function's parameters, which the model is told when the function is a tool.

    Args:
        function: what `ToolCallback.from_function` takes.
        additional_properties: objects may have further properties, at every level.
        strict: every property is required, and what could be left out may be null in its place, as model servers demand
            that hold the model to the schema.
        upper_case_types: `STRING` for `string`, as the Gemini API writes it.

    Returns:
        A schema of the caller's own. Given to `ToolCallback.from_function`, it takes the place of the function's.

    Raises:
        ConfigurationError: a parameter's type has no JSON Schema.
    """
    compiled = compile_function(function, read_signature(function), documentation_of(function).parameters)
    schema = copy.deepcopy(dict(compiled.public))
    if strict:
        schema = make_strict(schema)
    if additional_properties:
        schema = allow_more(schema)
    return upper_case(schema) if upper_case_types else schema


def _compile(function: Function, signature: Signature, documented: Mapping[str, str]) -> Compiled:
    parameters = [parameter for parameter in signature.parameters if not parameter.is_context]
    fields = {f"p{number}": parameter for number, parameter in enumerate(parameters)}
    try:
        model = _arguments_model(fields)
        schema = _schema_of(model, fields, documented)
    except Exception as error:
        raise _culprit(function, parameters, error) from error
    if len(schema["properties"]) < len(fields):
        raise wrong(function, "has two parameters with the same alias")
    from_model = frozenset(
        field for field, info in model.model_fields.items() if _default_is_pydantics(fields[field], info)
    )
    return Compiled(fields, model, schema, public(schema), from_model)


def _arguments_model(fields: Mapping[str, Parameter]) -> type[BaseModel]:
    # Dataclasses and TypedDicts within have no configuration of their own and take this one.
    config = ConfigDict(extra="forbid", val_json_bytes="base64")
    definitions: dict[str, Any] = {
        field: annotation if parameter.default is MISSING else (annotation, parameter.default)
        for field, parameter in fields.items()
        for annotation in [_type_of(parameter)]
    }
    return create_model("Arguments", __config__=config, **definitions)


def _type_of(parameter: Parameter) -> Any:
    """The annotation under the parameter's name or its alias; where the default is None, None is taken."""
    annotation = portable(parameter.annotation)
    metadata: list[Any] = []
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
    if parameter.default is None:
        annotation = annotation | None
    return Annotated[annotation, Field(alias=parameter.name), *metadata]


def _schema_of(
    model: type[BaseModel], fields: Mapping[str, Parameter], documented: Mapping[str, str]
) -> dict[str, Any]:
    notes: dict[str, Note] = {
        json_name(field, model.model_fields[field]): note_of(
            metadata_of(parameter.annotation), documented.get(parameter.name)
        )
        for field, parameter in fields.items()
    }
    generator = ToolSchemaGenerator({model: notes})
    return tidy(generator.generate(TypeAdapter(model).core_schema, mode="validation"))


def _default_is_pydantics(parameter: Parameter, info: FieldInfo) -> bool:
    """Whether the default is said by `Field` and so is unknown to the function."""
    return isinstance(parameter.default, FieldInfo) or (parameter.default is MISSING and not info.is_required())


def _culprit(function: Function, parameters: Iterable[Parameter], error: Exception) -> Exception:
    """Find which parameter it is that has no schema; together they do not tell."""
    for parameter in parameters:
        try:
            alone = {"p0": parameter}
            _schema_of(_arguments_model(alone), alone, {})
        except Exception as reason:  # noqa: BLE001 - a type raises what it likes when asked for its schema
            kind = show_type(parameter.annotation)
            why = str(reason).strip().partition("\n")[0]
            return wrong(
                function, f"has a parameter {parameter.name!r} of type {kind}, which has no JSON Schema: {why}"
            )
    return wrong(function, f"has parameters for which no JSON Schema could be made: {error}")
