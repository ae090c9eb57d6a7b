"""`@tool`: says that a function is for the model. It marks; start-up, or whoever is given the function, registers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any, TypeAlias, TypeVar, overload

from app.chat import ConfigurationError

ResultConverter: TypeAlias = Callable[[Any], "str | Awaitable[str]"]
"""Writes what a tool returned as text for the model; may be a coroutine function."""

F = TypeVar("F", bound="Callable[..., Any] | staticmethod[Any, Any] | classmethod[Any, Any, Any]")

_MARK = "__tool__"


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What `@tool` was told; its arguments say what each means."""

    name: str | None = None
    description: str | None = None
    return_direct: bool = False
    result_converter: ResultConverter | None = None
    timeout: float | None = None
    sequential: bool = False
    idempotent: bool = False
    max_calls: int | None = None
    default: bool = True


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    return_direct: bool = False,
    result_converter: ResultConverter | None = None,
    timeout: float | None = None,
    sequential: bool = False,
    idempotent: bool = False,
    max_calls: int | None = None,
    default: bool = True,
) -> Callable[[F], F]: ...


def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    return_direct: bool = False,
    result_converter: ResultConverter | None = None,
    timeout: float | None = None,
    sequential: bool = False,
    idempotent: bool = False,
    max_calls: int | None = None,
    default: bool = True,
) -> Any:
    """Mark a function as a tool: `@tool`, or `@tool(...)` with options.

    The function stays what it is. It may be sync or async, a method, and stand above or below `@staticmethod` and
    `@classmethod`. Nothing is read of it yet, so its annotations may name what is defined further down.

    Args:
        function: what is decorated.
        name: how the model calls it; by default the function's name.
        description: when and how to use it; by default the docstring without its sections on parameters, and without
            a docstring the words of the name.
        return_direct: its result is the answer, and the model is not asked again.
        result_converter: takes what the function returned and gives, or awaits, the text for the model.
        timeout: seconds a call may take; None = the gateway's setting.
        sequential: it runs alone; calls asked for before it end first, later ones start after it.
        idempotent: running it twice does no more than running it once.
        max_calls: calls a turn may have; None = the gateway's setting.
        default: offered without being named by a request; False is for dangerous tools.

    Returns:
        The same function.

    Raises:
        ConfigurationError: it is nothing that can be called and marked.
    """
    options = ToolOptions(
        name, description, return_direct, result_converter, timeout, sequential, idempotent, max_calls, default
    )
    return partial(_mark, options) if function is None else _mark(options, function)


def options_of(function: Any) -> ToolOptions | None:
    """The options that a function, a method or a descriptor of one was marked with; None where it was not.

    Nothing of the object is run for it, not even what `isinstance` runs, so it may be asked of any object.
    """
    if issubclass(type(function), staticmethod | classmethod | MethodType):
        function = function.__func__
    options = None if issubclass(type(function), type) else inspect.getattr_static(function, _MARK, None)
    return options if type(options) is ToolOptions else None


def _mark(options: ToolOptions, function: Any) -> Any:
    target = function.__func__ if isinstance(function, staticmethod | classmethod | MethodType) else function
    if isinstance(target, type):
        raise ConfigurationError(f"@tool is for functions; mark the methods of {target.__qualname__}, not the class")
    if not callable(target):
        raise ConfigurationError(
            f"@tool is for functions, not for {target!r}; options are given by name: @tool(name=…)"
        )
    try:
        setattr(target, _MARK, options)
    except AttributeError as error:
        raise ConfigurationError(
            f"@tool cannot mark {target!r}, which takes no attributes: use ToolCallback.from_function"
        ) from error
    return function
