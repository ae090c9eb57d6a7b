"""How much of this process's memory an entry of a journal takes, about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from app.chat import (
    ReasoningDelta,
    RoundCompleted,
    TextDelta,
    ToolCallArguments,
    ToolCallReady,
    ToolCallSucceeded,
)
from app.chat.text import bytes_of
from app.runs.journal import RunCancelled, RunCompleted, RunEvent, RunFailed

_ENTRY = 200
"""Bytes that an entry takes beside its texts."""

_ITEM = 64
"""Bytes that an item of a list or a mapping takes beside its texts."""

_NUMBERS = frozenset({"bool", "float", "int", "None"})


def size_of(event: RunEvent) -> int:
    """Bytes of an entry with this event: 200, its texts in UTF-8, and 64 for each item of lists and mappings."""
    return _ENTRY + _TEXTS.get(type(event), _texts)(event)


def _of_text(event: TextDelta | ReasoningDelta | ToolCallArguments) -> int:
    return bytes_of(event.text)


def _of_call(event: ToolCallReady) -> int:
    call = event.call
    size = bytes_of(call.id) + bytes_of(call.name) + bytes_of(call.arguments)
    return size + _texts(call.extra) if call.extra else size


def _of_result(event: ToolCallSucceeded) -> int:
    return bytes_of(event.call_id) + bytes_of(event.name) + bytes_of(event.result)


def _of_end(end: RunCompleted | RunCancelled) -> int:
    response, message = end.response, end.response.message
    size = bytes_of(message.content)
    for part in (
        *(message.reasoning, message.refusal, message.tool_calls, message.extra),
        *(response.tool_runs, response.extra),
    ):
        if part:
            size += _texts(part)
    return size


def _of_failure(end: RunFailed) -> int:
    # Asked for its text, an error that is not ours may fail itself.
    return _texts([part for part in end.error.args if isinstance(part, str)])


def _of_round(event: RoundCompleted) -> int:
    return bytes_of(event.target) if event.target else 0


_TEXTS: Mapping[type, Callable[[Any], int]] = {
    TextDelta: _of_text,
    ReasoningDelta: _of_text,
    ToolCallArguments: _of_text,
    ToolCallReady: _of_call,
    ToolCallSucceeded: _of_result,
    RoundCompleted: _of_round,
    RunCompleted: _of_end,
    RunCancelled: _of_end,
    RunFailed: _of_failure,
}
"""Bytes of the texts in an event, where there is less to count than `_texts` would."""


_FIELDS: dict[type, tuple[str, ...] | None] = {}
"""What `_fields_with_texts` says of the kinds of values that there are."""


def _texts(value: object) -> int:
    """Bytes of all texts in a value, however deep."""
    if isinstance(value, str):
        return bytes_of(value)
    if value is None or isinstance(value, int | float):
        return 0
    kind = type(value)
    names = _FIELDS[kind] if kind in _FIELDS else _FIELDS.setdefault(kind, _fields_with_texts(kind))
    if names is not None:
        return sum([_texts(getattr(value, name)) for name in names])
    if isinstance(value, list | tuple):
        return sum([_ITEM + _texts(item) for item in value])
    if isinstance(value, Mapping):
        return sum([_ITEM + _texts(key) + _texts(item) for key, item in value.items()])
    return 0


def _fields_with_texts(kind: type) -> tuple[str, ...] | None:
    """Names of the fields in which texts can be; None where it is no dataclass."""
    if not is_dataclass(kind):
        return None
    return tuple(field.name for field in fields(kind) if not _NUMBERS.issuperset(str(field.type).split(" | ")))
