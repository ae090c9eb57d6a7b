"""From arguments as a model wrote them to a function that only has to be called.

Validation comes first and the call after it, so that a validation error which the tool itself raises is not taken for
wrong arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from app.chat import ToolContext
from app.chat.json_schema import Schema
from app.tooling.arguments import decode, fit, write_json
from app.tooling.compiling import compile_function
from app.tooling.handwritten import SchemaCheck
from app.tooling.problems import Problems, add_validation_errors
from app.tooling.schema_tree import SchemaView
from app.tooling.signature import Function, Signature


class Binding(Protocol):
    """What a tool's arguments must be, and what is called with them."""

    @property
    def schema(self) -> Schema:
        """What the model is told."""

    def bind(self, arguments: str, context: ToolContext, tool: str) -> Callable[[], Any]:
        """Check the arguments of a call.

        Args:
            arguments: JSON as the model wrote it.
            context: passed to whichever parameter wants it.
            tool: the tool's name, for the error.

        Returns:
            The function with its arguments, to be called once.

        Raises:
            ToolArgumentsInvalid: they do not fit.
        """


class FunctionBinding:
    """Arguments as the annotations of a function's parameters say.

    Arguments are validated in pydantic's lax mode for JSON: `"3"` does for an int and so does `3.0`, a number
    does not for a text. Parameters that are not given are not passed, so the function's own defaults hold.

    Args:
        function: what is called.
        signature: of the function.
        documented: descriptions of parameters from the docstring.

    Raises:
        ConfigurationError: a parameter's type has no JSON Schema.
    """

    def __init__(self, function: Function, signature: Signature, documented: Mapping[str, str]) -> None:
        self._function = function
        self._contexts = [parameter.name for parameter in signature.parameters if parameter.is_context]
        self._positional = [parameter for parameter in signature.parameters if parameter.positional]
        self._compiled = compile_function(function, signature, documented)
        self._view = SchemaView(self._compiled.schema)

    @property
    def schema(self) -> Schema:
        """See `Binding.schema`."""
        return self._compiled.public

    def bind(self, arguments: str, context: ToolContext, tool: str) -> Callable[[], Any]:
        """See `Binding.bind`."""
        return self.bind_decoded(decode(arguments, tool), context, tool)

    def bind_decoded(self, arguments: dict[str, Any], context: ToolContext, tool: str) -> Callable[[], Any]:
        """The same for arguments that are decoded already."""
        problems = Problems()
        fitting = fit(arguments, self._view, self._compiled.schema, problems)
        try:
            values = self._compiled.model.model_validate_json(write_json(fitting))
        except ValidationError as error:
            add_validation_errors(problems, error, fitting)
            raise problems.error(tool) from None
        if problems:
            raise problems.error(tool)
        return self._call(values, context)

    def _call(self, values: BaseModel, context: ToolContext) -> Callable[[], Any]:
        said = values.model_fields_set | self._compiled.from_model
        given = {
            parameter.name: getattr(values, field)
            for field, parameter in self._compiled.fields.items()
            if field in said
        }
        given.update(dict.fromkeys(self._contexts, context))
        positional = [given.pop(each.name, each.default) for each in self._positional]
        return functools.partial(self._function, *positional, **given)


class OverriddenBinding:
    """Arguments as a schema written by hand says, given to a function whose annotations have to take them as well.

    What the schema allows and the function does not know is not passed.

    Args:
        check: of the schema.
        called: the function.
    """

    def __init__(self, check: SchemaCheck, called: FunctionBinding) -> None:
        self.schema = check.schema
        self._check = check
        self._called = called

    def bind(self, arguments: str, context: ToolContext, tool: str) -> Callable[[], Any]:
        """See `Binding.bind`."""
        checked = self._check.checked(arguments, tool)
        known = {name: value for name, value in checked.items() if name in self._called.schema["properties"]}
        return self._called.bind_decoded(known, context, tool)
