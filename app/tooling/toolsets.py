"""From whatever holds tools to a flat tuple of them.

Differs from Spring AI:

1. A method that a subclass overrides stays a tool without being marked again; it is there once (parity 111).
2. A tool whose result is a function stops whoever registers it, instead of being skipped (parity 109).
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from app.chat import ConfigurationError, Tool
from app.tooling.decorator import ToolOptions, options_of
from app.tooling.function import ToolCallback
from app.tooling.signature import name_of, place_of
from app.tooling.threads import ToolThreads


def flatten_tools(*things: Any, threads: ToolThreads | None = None) -> tuple[Tool, ...]:
    """All tools of the things given, in order.

    Args:
        *things: tools; functions and methods marked with `@tool`; toolsets, which are objects whose class has such
            methods, or classes whose such methods are all static or class methods; providers, which are callables
            without arguments that return any of these and are asked now; and iterables of any of these.
        threads: where functions run that are no coroutine functions; None = threads that all such tools share.

    Returns:
        The tools. One that is given twice is there once.

    Raises:
        ConfigurationError: two different tools have one name, a thing holds no tools, or a function cannot be a tool.
    """
    tools = unique(tool for thing in things for tool in _tools_of(thing, threads, ask=True))
    if clashes := name_clashes(tools):
        raise ConfigurationError("\n".join(clashes))
    return tools


def settled_tools(*things: Any, threads: ToolThreads | None = None) -> tuple[Any, ...]:
    """The same things with every tool made that can be made now; providers stay, to be asked when a request comes.

    Args:
        *things: see `flatten_tools`.
        threads: see `flatten_tools`.

    Returns:
        Tools and providers, in order.

    Raises:
        ConfigurationError: see `flatten_tools`; of providers only what can be seen without asking them.
    """
    settled = tuple(one for thing in things for one in _tools_of(thing, threads, ask=False))
    flatten_tools(*filter(is_tool, settled))
    return settled


def is_tool(thing: Any) -> bool:
    """Whether a thing is a tool by itself. Nothing of it is run to find out, so it may be asked of any object."""
    if issubclass(type(thing), type):
        return False
    absent = object()
    return all(inspect.getattr_static(thing, name, absent) is not absent for name in ("definition", "metadata", "call"))


def callback_of(function: Any, options: ToolOptions, threads: ToolThreads | None) -> ToolCallback:
    """The tool that a marked function is."""
    given = {option.name: getattr(options, option.name) for option in fields(options)}
    return ToolCallback.from_function(function, **given, threads=threads)


def marked_methods(cls: type) -> dict[str, ToolOptions]:
    """What the methods of a class were marked with, by attribute, those of base classes first.

    A method that overrides a marked one is marked as that is. An attribute set to None takes the tool away.
    """
    found: dict[str, ToolOptions] = {}
    for base in reversed(cls.__mro__):
        for attribute, value in vars(base).items():
            if value is None:
                found.pop(attribute, None)
            elif options := options_of(value):
                found[attribute] = options
    return found


def needs_object(cls: type, attribute: str) -> bool:
    """Whether a method can be called on objects of the class only."""
    return not isinstance(inspect.getattr_static(cls, attribute), staticmethod | classmethod)


def unique(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools without those that are the same as an earlier one."""
    kept: dict[str, list[Tool]] = defaultdict(list)
    result: list[Tool] = []
    for tool in tools:
        same_name = kept[tool.definition.name]
        if not any(_same(tool, other) for other in same_name):
            same_name.append(tool)
            result.append(tool)
    return tuple(result)


def name_clashes(tools: Iterable[Tool]) -> list[str]:
    """For each name that several tools have, a sentence that says where they are."""
    places: dict[str, list[str]] = defaultdict(list)
    for tool in tools:
        places[tool.definition.name].append(_place(tool))
    return [
        f"{len(found)} tools are called {name!r}: {', '.join(found)}. Rename all but one: @tool(name=…)"
        for name, found in places.items()
        if len(found) > 1
    ]


def _tools_of(thing: Any, threads: ToolThreads | None, *, ask: bool) -> Iterator[Any]:
    """The tools of a thing; its providers are asked for theirs, or are themselves among what is found."""
    options = options_of(thing)
    if is_tool(thing):
        yield thing
    elif options is not None:
        yield callback_of(thing, options, threads)
    elif marked_methods(_class_of(thing)):
        yield from _methods_of(thing, threads)
    elif _is_collection(thing):
        for item in thing:
            yield from _tools_of(item, threads, ask=ask)
    elif callable(thing) and not isinstance(thing, type):
        _check_provider(thing)
        yield from _provided_by(thing, threads) if ask else (thing,)
    else:
        what = f"the class {thing.__qualname__}" if isinstance(thing, type) else f"{type(thing).__qualname__} object"
        raise ConfigurationError(f"{what} holds no tools: mark methods or functions with @tool")


def _is_collection(thing: Any) -> bool:
    return isinstance(thing, Iterable) and not isinstance(thing, type | str | bytes | Mapping)


def _class_of(thing: Any) -> type:
    return thing if isinstance(thing, type) else type(thing)


def _methods_of(toolset: Any, threads: ToolThreads | None) -> Iterator[ToolCallback]:
    for attribute, options in marked_methods(_class_of(toolset)).items():
        if isinstance(toolset, type) and needs_object(toolset, attribute):
            name = toolset.__qualname__
            raise ConfigurationError(
                f"{place_of(getattr(toolset, attribute))}: {name}.{attribute} needs an object: "
                f"give {name}(…) in place of the class"
            )
        yield callback_of(getattr(toolset, attribute), options, threads)


def _check_provider(provider: Any) -> None:
    try:
        inspect.signature(provider).bind()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{place_of(provider)}: {name_of(provider)} is neither marked with @tool nor a provider of tools, "
            "which would take no arguments"
        ) from error


def _provided_by(provider: Any, threads: ToolThreads | None) -> Iterator[Tool]:
    try:
        yield from _tools_of(provider(), threads, ask=True)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} (from the provider {name_of(provider)} at {place_of(provider)})") from error


def _same(tool: Tool, other: Tool) -> bool:
    if isinstance(tool, ToolCallback) and isinstance(other, ToolCallback):
        same_words = tool.definition == other.definition and tool.metadata == other.metadata
        return tool is other or (same_words and tool.function == other.function)
    return tool is other


def _place(tool: Tool) -> str:
    return tool.source if isinstance(tool, ToolCallback) else f"{type(tool).__qualname__} object"
