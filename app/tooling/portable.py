"""Annotations as pydantic can work with them, and annotations that no JSON value can stand for."""

from __future__ import annotations

import asyncio
import collections.abc
import concurrent.futures
import sys
import types
import typing
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typing_extensions

WITHOUT_JSON_FORM: frozenset[Any] = frozenset(
    {
        asyncio.Future,
        asyncio.Task,
        collections.abc.AsyncGenerator,
        collections.abc.AsyncIterable,
        collections.abc.AsyncIterator,
        collections.abc.Awaitable,
        collections.abc.Callable,
        collections.abc.Coroutine,
        collections.abc.Generator,
        collections.abc.Iterator,
        concurrent.futures.Future,
        type,
        types.FunctionType,
        types.MethodType,
        types.ModuleType,
    }
)
"""Kinds of types that have neither a JSON Schema nor a JSON form."""


def without_json_form(annotation: Any) -> Any | None:
    """The first type within an annotation that no JSON value can stand for; None where all is well.

    It looks into generics and unions, not into the fields of classes.
    """
    origin = get_origin(annotation) or annotation
    if isinstance(origin, collections.abc.Hashable) and origin in WITHOUT_JSON_FORM:
        return annotation
    if origin is Literal:
        return None
    arguments = get_args(annotation)[:1] if origin is Annotated else get_args(annotation)
    found = (without_json_form(argument) for argument in arguments)
    return next((culprit for culprit in found if culprit is not None), None)


def portable(annotation: Any) -> Any:
    """The annotation with what pydantic does not take, or takes in a way that harms, put in other words.

    `Iterable` becomes `list`: pydantic would check the items only when the tool iterates, which is after the call.
    On Python 3.11 a `typing.TypedDict` becomes one of typing_extensions.
    """
    return _rewritten(annotation, {})


def _rewritten(annotation: Any, twins: dict[type, type]) -> Any:
    if _needs_twin(annotation):
        return twins.get(annotation) or _twin(annotation, twins)
    if annotation is typing.Iterable or annotation is collections.abc.Iterable:
        return list
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal:
        return annotation
    if origin is Annotated:
        inner, *metadata = arguments
        return Annotated[_rewritten(inner, twins), *metadata]
    rewritten = tuple(_rewritten(argument, twins) for argument in arguments)
    if rewritten == arguments and origin is not collections.abc.Iterable:
        return annotation
    return _generic(origin, rewritten)


def _generic(origin: Any, arguments: tuple[Any, ...]) -> Any:
    if origin is collections.abc.Iterable:
        return types.GenericAlias(list, arguments)
    if origin in {Union, types.UnionType}:
        return Union[arguments]  # noqa: UP007 - the members are known at run time only
    return origin[arguments if len(arguments) > 1 else arguments[0]]


def _needs_twin(annotation: Any) -> bool:
    return (
        sys.version_info < (3, 12)
        and isinstance(annotation, type)
        and typing.is_typeddict(annotation)
        and type(annotation).__module__ == "typing"
    )


def _twin(original: Any, twins: dict[type, type]) -> type:
    """The same `TypedDict` as one of typing_extensions, which pydantic demands before Python 3.12.

    It is empty at first and then filled, for it may contain itself.
    """
    twin: Any = typing_extensions.TypedDict(original.__name__, {})  # type: ignore[misc]  # the name is known at run time only
    twins[original] = twin
    hints = get_type_hints(original, include_extras=True)
    twin.__annotations__ = {name: _rewritten(hint, twins) for name, hint in hints.items()}
    twin.__required_keys__ = original.__required_keys__
    twin.__optional_keys__ = original.__optional_keys__
    twin.__total__ = original.__total__
    for attribute in ("__doc__", "__module__", "__qualname__"):
        setattr(twin, attribute, getattr(original, attribute))
    return typing.cast("type", twin)
