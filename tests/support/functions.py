"""Turn functions into tools and call them, for tests that are about how functions become tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from app.chat import ToolArgumentsInvalid, ToolContext
from app.tooling import ToolCallback


async def result_of(function: Callable[..., Any], arguments: Mapping[str, Any] | str = "{}", **options: Any) -> str:
    """What the model gets to read when it calls a function."""
    context = options.pop("context", None) or ToolContext()
    return await ToolCallback.from_function(function, **options).call(_text(arguments), context)


async def returned_by(function: Callable[..., Any], arguments: Mapping[str, Any] | str = "{}", **options: Any) -> Any:
    """What a function returns when the model calls it, before it becomes text."""
    returned: list[Any] = []

    def keep(value: Any) -> str:
        returned.append(value)
        return ""

    await result_of(function, arguments, result_converter=keep, **options)
    return returned[0]


async def problems_of(function: Callable[..., Any], arguments: Mapping[str, Any] | str) -> dict[str, str]:
    """What is wrong with arguments, by place. The function must not run."""
    tool = ToolCallback.from_function(function, result_converter=_it_ran)
    with pytest.raises(ToolArgumentsInvalid) as refused:
        await tool.call(_text(arguments), ToolContext())
    heading, *lines = str(refused.value).splitlines()
    assert heading == f"The arguments do not fit {tool.definition.name}; it was not run."
    return dict(line.removeprefix("- ").split(": ", 1) for line in lines)


def _text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _it_ran(value: Any) -> str:
    raise AssertionError("the function ran")
