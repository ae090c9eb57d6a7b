"""A whole answer told as a stream, for models that have it whole at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.chat import (
    ChatEvent,
    ChatResponse,
    Completed,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallReady,
    ToolCallStarted,
)

_WORDS = re.compile(r"\s*\S+\s*?|\s+")
_ARGUMENTS_PIECE = 24


def words(text: str) -> list[str]:
    """`text` in pieces of a word each, with the white space before it; joined they are `text` again."""
    return _WORDS.findall(text)


def in_pieces(response: ChatResponse) -> Iterator[ChatEvent]:
    """The deltas that a streaming server would have sent for `response`, then `Completed`."""
    message = response.message
    for piece in words(message.reasoning or ""):
        yield ReasoningDelta(piece)
    for piece in words(message.content):
        yield TextDelta(piece)
    for call in message.tool_calls:
        yield ToolCallStarted(call.id, call.name)
        for start in range(0, len(call.arguments), _ARGUMENTS_PIECE):
            yield ToolCallArguments(call.id, call.name, call.arguments[start : start + _ARGUMENTS_PIECE])
        yield ToolCallReady(call)
    yield Completed(response)
