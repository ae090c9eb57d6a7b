"""Schemas that were written by hand, and checking arguments against them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from app.chat import ConfigurationError, ToolContext
from app.chat.json_schema import Schema, subschemas
from app.tooling.arguments import decode, fit, write_json
from app.tooling.problems import Problems, add_schema_errors, invalid
from app.tooling.schema_tree import SchemaView
from app.tooling.signature import MISSING, Function, read_signature, wrong


class SchemaCheck:
    """Holds arguments to a JSON Schema.

    Args:
        schema: an object schema (2020-12), whose references point into itself.
        source: where the schema was written, for messages.

    Raises:
        ConfigurationError: the schema is none.
    """

    def __init__(self, schema: Schema, source: str) -> None:
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - only schemas written by hand need it
        from referencing import Registry  # noqa: PLC0415 - as above

        self.schema = schema
        self._view = SchemaView(schema)
        _check_schema(schema, self._view, source)
        self._validator = Draft202012Validator(schema, registry=Registry())  # an empty one: nothing is fetched

    def checked(self, arguments: str, tool: str) -> dict[str, Any]:
        """The arguments of a call as decoded JSON.

        Args:
            arguments: JSON as the model wrote it.
            tool: the tool's name, for the error.

        Raises:
            ToolArgumentsInvalid: they do not fit.
        """
        problems = Problems()
        fitting = fit(decode(arguments, tool), self._view, self.schema, problems)
        clean: dict[str, Any] = json.loads(write_json(fitting))
        try:
            add_schema_errors(problems, self._validator.iter_errors(clean), self._view)
        except RecursionError:  # jsonschema takes several frames for every keyword on the way down
            raise invalid(tool, "are nested too deeply for their schema") from None
        if problems:
            raise problems.error(tool)
        return clean


class SchemaBinding:
    """Arguments as a JSON Schema says, given to a function as one mapping.

    Args:
        schema: see `SchemaCheck`.
        function: called with the arguments as a mapping of decoded JSON. A parameter annotated with `ToolContext`
            gets the context.
        source: see `SchemaCheck`.

    Raises:
        ConfigurationError: the schema is none, or the function does not take one mapping.
    """

    def __init__(self, schema: Schema, function: Function, source: str) -> None:
        self.schema = schema
        self._check = SchemaCheck(schema, source)
        self._function = function
        self._contexts = _contexts(function)

    def bind(self, arguments: str, context: ToolContext, tool: str) -> Callable[[], Any]:
        """See `Binding.bind`."""
        checked = self._check.checked(arguments, tool)
        return functools.partial(self._function, checked, **dict.fromkeys(self._contexts, context))


def _contexts(function: Function) -> tuple[str, ...]:
    parameters = read_signature(function).parameters
    others = [parameter for parameter in parameters if not parameter.is_context]
    if not others or others[0] is not parameters[0] or any(other.default is MISSING for other in others[1:]):
        raise wrong(
            function, "handles a tool with a schema of its own, so it must take the arguments as one mapping, first"
        )
    return tuple(parameter.name for parameter in parameters if parameter.is_context)


def _check_schema(schema: Schema, view: SchemaView, source: str) -> None:
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - as above

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ConfigurationError(f"{source}: the input schema is not valid: {error.message}") from error
    if schema.get("type") != "object":
        raise ConfigurationError(f'{source}: the input schema must have "type": "object"')
    for part in subschemas(schema):
        try:
            view.accepted_types(view.resolve(part))
        except (LookupError, TypeError, RecursionError) as error:
            raise ConfigurationError(f"{source}: the input schema refers to what is not in it: {error}") from error
