"""Tools that are only offered, never run: what a model sees of a tool, and nothing behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from app.chat import (
    ChatModel,
    ChatResponse,
    Completed,
    Message,
    Prompt,
    TextDelta,
    Tool,
    ToolCallReady,
    ToolContext,
    ToolDefinition,
    ToolMetadata,
    well_formed,
)

Asked = list[tuple[str, dict[str, Any]]]
"""Calls as names and parsed arguments."""


class OfferedTool:
    """A definition that fails the test if somebody runs it."""

    def __init__(self, definition: ToolDefinition) -> None:
        self.definition = definition
        self.metadata = ToolMetadata()

    async def call(self, arguments: str, context: ToolContext) -> str:
        """Never to be reached."""
        raise AssertionError("a model runs nothing")


def offered(
    name: str,
    description: str = "",
    properties: Mapping[str, Any] | None = None,
    *,
    required: Sequence[str] | None = None,
    definitions: Mapping[str, Any] | None = None,
) -> Tool:
    """A tool by its definition; all properties are required unless told otherwise."""
    properties = properties or {}
    must = list(properties) if required is None else list(required)
    whole: dict[str, Any] = {"type": "object", "properties": dict(properties), "required": must}
    if definitions is not None:
        whole["$defs"] = dict(definitions)
    return OfferedTool(ToolDefinition(name, description, whole))


def text(description: str = "", **schema: Any) -> dict[str, Any]:
    """Schema of a string."""
    return {"type": "string", **({"description": description} if description else {}), **schema}


def whole(description: str = "", **schema: Any) -> dict[str, Any]:
    """Schema of an integer."""
    return {**text(description, **schema), "type": "integer"}


def number(description: str = "", **schema: Any) -> dict[str, Any]:
    """Schema of a number."""
    return {**text(description, **schema), "type": "number"}


def several(items: Any, **schema: Any) -> dict[str, Any]:
    """Schema of a list."""
    return {"type": "array", "items": items, **schema}


async def answer(model: ChatModel, prompt: Prompt, *, stream: bool = False) -> ChatResponse:
    """A model's answer in either mode. The pieces of a stream must tell the same as its end."""
    if not stream:
        return await model.call(prompt)
    async with aclosing(model.stream(prompt)) as pieces:
        *deltas, last = [event async for event in well_formed(pieces)]
    assert isinstance(last, Completed)
    assert "".join(event.text for event in deltas if isinstance(event, TextDelta)) == last.response.content
    assert [event.call for event in deltas if isinstance(event, ToolCallReady)] == [*last.response.tool_calls]
    return last.response


def asked(response: ChatResponse) -> Asked:
    """The calls that an answer asks for."""
    return [(call.name, json.loads(call.arguments)) for call in response.tool_calls]


def talk(*messages: Message, **options: Any) -> Prompt:
    """A prompt of several messages; keyword arguments are those of `ChatOptions`."""
    return Prompt(messages, Prompt.of("", **options).options)
