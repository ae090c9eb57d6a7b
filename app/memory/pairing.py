"""Calls and their results belong together: model servers refuse a history that has one without the other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from app.chat import AssistantMessage, Message, ToolMessage


def paired(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages without calls that were not all answered, and without results that nobody asked for.

    Args:
        messages: a history. The results of one message's calls may be spread over several tool messages.

    Returns:
        The history, without each assistant message that has an open call, and without its other results.
    """
    kept: list[Message] = []
    asked: AssistantMessage | None = None
    for is_results, group in groupby(messages, key=lambda message: isinstance(message, ToolMessage)):
        if is_results:
            results = [message for message in group if isinstance(message, ToolMessage)]
            if asked is not None and _ids_asked(asked) == _ids_answered(results):
                kept += [asked, *results]
            asked = None
            continue
        for message in group:
            # Calls that no results follow at once stay open for good.
            asked = message if isinstance(message, AssistantMessage) and message.tool_calls else None
            if asked is None:
                kept.append(message)
    return tuple(kept)


def _ids_asked(message: AssistantMessage) -> list[str]:
    return sorted(call.id for call in message.tool_calls)


def _ids_answered(results: Iterable[ToolMessage]) -> list[str]:
    return sorted(result.id for message in results for result in message.results)
