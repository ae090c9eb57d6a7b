"""What a function's signature says: its parameters with their types resolved, its result, and where it stands."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from app.chat import ConfigurationError, ToolContext
from app.tooling.docstrings import Documentation, read_docstring
from app.tooling.portable import without_json_form

Function: TypeAlias = Callable[..., Any]

MISSING: Any = inspect.Parameter.empty
"""Stands for no default and for no annotation."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    Attributes:
        name: as in the source.
        annotation: its type; `Any` where there is none.
        default: `MISSING` where there is none.
        positional: it cannot be given by name.
        is_context: it takes the `ToolContext`.
    """

    name: str
    annotation: Any
    default: Any
    positional: bool
    is_context: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters in order, and the type of its result (`MISSING` where it is not known)."""

    parameters: tuple[Parameter, ...]
    returns: Any


def place_of(function: object) -> str:
    """Where a function is defined, for messages: `tools/weather.py:12`, or its module where there is no source."""
    plain = plain_function(function)
    code = getattr(inspect.unwrap(plain), "__code__", None)
    if code is None:
        return f"module {getattr(plain, '__module__', None) or type(function).__module__}"
    return f"{shown_path(code.co_filename)}:{code.co_firstlineno}"


def shown_path(path: str) -> str:
    """A file for messages: relative where it is below the working directory."""
    return path.removeprefix(os.getcwd() + os.sep)  # noqa: PTH109 - the beginning of a text, not a path to follow


def name_of(function: object) -> str:
    """A function's name for messages."""
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def plain_function(function: Any) -> Any:
    """The function behind a bound method, a partial one or a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = getattr(type(function), "__call__", None)  # noqa: B004 - it is wanted itself, not whether it exists
    return getattr(function, "__func__", function)


def is_coroutine_function(function: Any) -> bool:
    """Whether calling it gives a coroutine, also where it is partial or an object with `async def __call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(plain_function(function))


def documentation_of(function: Any) -> Documentation:
    """What the docstring says, of a method the inherited one too.

    It is that of the function within a partial one, and that of `__call__` of an object, if it has one of its own.
    """
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and getattr(plain_function(function), "__doc__", None):
        function = function.__call__
    return read_docstring(inspect.getdoc(function))


def read_signature(function: Function) -> Signature:
    """Read a function's signature.

    Raises:
        ConfigurationError: it cannot be a tool's; the message names the function, its place, and the parameter.
    """
    _refuse_unbound(function)
    try:
        signature = inspect.signature(function)
    except (NameError, TypeError, ValueError) as error:
        raise wrong(function, f"has no signature that could be read ({error})") from error
    plain = plain_function(function)
    names = {**_class_names(function, plain), **getattr(inspect.unwrap(plain), "__globals__", {})}
    bound = _bound_by_partial(function)
    parameters = [
        _parameter(function, parameter, names)
        for parameter in signature.parameters.values()
        if parameter.name not in bound
    ]
    return Signature(tuple(parameters), _returns(signature.return_annotation, names))


def wrong(function: object, problem: str) -> ConfigurationError:
    """An error about a function."""
    return ConfigurationError(f"{place_of(function)}: {name_of(function)} {problem}")


def refuse_result(function: Function, returns: Any) -> None:
    """Stop at a result that no JSON can say.

    Raises:
        ConfigurationError: the function generates, or its annotation says that the result has no JSON form.
    """
    plain = plain_function(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise wrong(function, "is a generator; a tool returns its result whole: return a list")
    culprit = None if returns is MISSING else without_json_form(returns)
    if culprit is not None:
        raise wrong(function, f"returns {show_type(culprit)}, which has no JSON form")


def show_type(annotation: Any) -> str:
    """A type as its author would write it."""
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation).removeprefix("typing.")


def _parameter(function: Function, parameter: inspect.Parameter, names: Mapping[str, Any]) -> Parameter:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        raise wrong(function, f"takes *{parameter.name}, but models give arguments by name: {_ADVICE.format('list')}")
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        raise wrong(function, f"takes **{parameter.name}, which names no arguments: {_ADVICE.format('dict')}")
    try:
        annotation = Any if parameter.annotation is MISSING else _evaluated(parameter.annotation, names)
    except Exception as error:
        raise wrong(
            function,
            f"has a parameter {parameter.name!r} whose type {parameter.annotation!r} cannot be resolved ({error}): "
            "types of tools are needed at run time, at the top of a module or of the tool's class",
        ) from error
    is_context = _is_context(annotation)
    culprit = None if is_context else without_json_form(annotation)
    if culprit is not None:
        raise wrong(
            function, f"has a parameter {parameter.name!r} of type {show_type(culprit)}, which has no JSON Schema"
        )
    positional = parameter.kind is inspect.Parameter.POSITIONAL_ONLY
    return Parameter(parameter.name, annotation, parameter.default, positional, is_context)


_ADVICE = "use a {0} parameter (in a decorator's wrapper, use functools.wraps)"


def _evaluated(annotation: Any, names: Mapping[str, Any]) -> Any:
    carrier = types.SimpleNamespace(__annotations__={"it": annotation})
    return get_type_hints(carrier, globalns=dict(names), include_extras=True)["it"]


def _returns(annotation: Any, names: Mapping[str, Any]) -> Any:
    if annotation is MISSING:
        return MISSING
    try:
        return _evaluated(annotation, names)
    except Exception:  # noqa: BLE001 - it may be there for type checkers only; the value decides what it is worth
        return MISSING


def _is_context(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_context(get_args(annotation)[0])
    if origin in {Union, types.UnionType}:
        members = [member for member in get_args(annotation) if member is not types.NoneType]
        return all(_is_context(member) for member in members)
    return annotation is ToolContext


def _refuse_unbound(function: Function) -> None:
    if isinstance(function, classmethod):
        raise wrong(function.__func__, "is a class method that is not bound: take it from its class")
    if isinstance(function, type):
        raise wrong(function, "is a class; tools are functions, methods and objects that have @tool methods")
    if not callable(function):
        raise wrong(function, "cannot be called")
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not inspect.isfunction(function) or not owner or owner.endswith("<locals>"):
        return
    if next(iter(inspect.signature(function).parameters), None) in {"self", "cls"}:
        raise wrong(function, f"is a method that is not bound: take it from an instance of {owner}")


def _bound_by_partial(function: Any) -> set[str]:
    """Names that a partial function gives a value: they are not the model's to change, and may be secrets."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound |= function.keywords.keys()
        function = function.func
    return bound


def _class_names(function: Any, plain: Any) -> dict[str, Any]:
    """The names that a method's annotations can use because its class defines them."""
    owner = getattr(plain, "__qualname__", "").rpartition(".")[0]
    bound_to = getattr(function, "__self__", None)
    classes = (bound_to if isinstance(bound_to, type) else type(bound_to)).__mro__
    found: Any = next((cls for cls in classes if cls.__qualname__ == owner), None)
    if found is None:
        found = sys.modules.get(getattr(plain, "__module__", None) or "")
        for name in owner.split(".") if owner else ():
            found = getattr(found, name, None)
    return dict(vars(found)) if isinstance(found, type) else {}
