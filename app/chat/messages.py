"""The messages of a chat. Immutable values: a history is a tuple that grows by building a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""What JSON can say."""

EMPTY: Mapping[str, Any] = MappingProxyType({})
"""The empty read-only mapping, the default of every mapping field (by a factory: before Python 3.12 it has no hash)."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for.

    Attributes:
        id: ties the result to the call; unique within a conversation.
        name: the tool's name as the model wrote it, which need not be one it was given.
        arguments: JSON text as the model wrote it, which need not parse; `"{}"` where none came.
        extra: fields the model server sent beside these (such as a thought signature), sent back unchanged.
    """

    id: str
    name: str
    arguments: str = "{}"
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one call gave.

    Attributes:
        id: the id of the call.
        name: the name of the tool called.
        content: the result, or the error, as text for the model.
        is_error: whether `content` tells of a failure.
    """

    id: str
    name: str
    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Instructions to the model."""

    content: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user said. It opens a turn."""

    content: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model said in one round.

    Attributes:
        content: the answer's text, empty where there is none.
        tool_calls: calls it asks for, in the order asked.
        reasoning: its thinking, kept apart from the answer.
        refusal: its words of refusal, kept apart from the answer.
        extra: further fields of the message that the server needs back unchanged.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    refusal: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The results of all calls of one round, in the order they were asked for."""

    results: tuple[ToolResult, ...] = ()


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def current_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages from the last user message on; all of them where there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], UserMessage):
            return messages[index:]
    return messages
