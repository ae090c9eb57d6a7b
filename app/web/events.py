"""A run's events as they go over the wire: the name and the data of each. One entry of a journal is one event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from app.chat import (
    ChatResponse,
    ReasoningDelta,
    RoundCompleted,
    RoundStarted,
    TextDelta,
    ToolCallArguments,
    ToolCallErrored,
    ToolCallProgress,
    ToolCallReady,
    ToolCallStarted,
    ToolCallSucceeded,
)
from app.runs import Entry, RunCancelled, RunCompleted, RunFailed, RunStarted
from app.web.answers import milliseconds, round_document
from app.web.errors import problem_of

Answer: TypeAlias = Callable[[ChatResponse], dict[str, Any]]
"""Makes the answer document of the run."""


def _text(event: TextDelta | ReasoningDelta) -> dict[str, Any]:
    return {"text": event.text}


def _arguments(event: ToolCallArguments) -> dict[str, Any]:
    return {"call_id": event.call_id, "name": event.name, "text": event.text}


def _started(event: ToolCallStarted) -> dict[str, Any]:
    return {"call_id": event.call_id, "name": event.name}


def _ready(event: ToolCallReady) -> dict[str, Any]:
    return {"call_id": event.call.id, "name": event.call.name, "arguments": event.call.arguments}


def _progress(event: ToolCallProgress) -> dict[str, Any]:
    return {
        "call_id": event.call_id,
        "name": event.name,
        "message": event.message,
        "current": event.current,
        "total": event.total,
        "data": event.data,
    }


def _result(event: ToolCallSucceeded) -> dict[str, Any]:
    return {"call_id": event.call_id, "name": event.name, "result": event.result, "ms": milliseconds(event.ms)}


def _error(event: ToolCallErrored) -> dict[str, Any]:
    return {"call_id": event.call_id, "name": event.name, "error": event.error, "ms": milliseconds(event.ms)}


def _nothing(_: RunStarted | RoundStarted) -> dict[str, Any]:
    return {}


_WIRE: Mapping[type, tuple[str, Callable[[Any], dict[str, Any]]]] = MappingProxyType(
    {
        RunStarted: ("run.started", _nothing),
        RoundStarted: ("round.started", _nothing),
        TextDelta: ("text.delta", _text),
        ReasoningDelta: ("reasoning.delta", _text),
        ToolCallStarted: ("tool_call.started", _started),
        ToolCallArguments: ("tool_call.arguments", _arguments),
        ToolCallReady: ("tool_call.ready", _ready),
        ToolCallProgress: ("tool_call.progress", _progress),
        ToolCallSucceeded: ("tool_call.result", _result),
        ToolCallErrored: ("tool_call.error", _error),
        RoundCompleted: ("round.completed", round_document),
    }
)


class Projection:
    """Turns entries of one run's journal, read in order, into wire events.

    Args:
        run_id: stands in the data of every event.
        answer: makes the answer document of the run's end.
    """

    def __init__(self, run_id: str, answer: Answer) -> None:
        self._run_id = run_id
        self._answer = answer
        self._round: int | None = None

    def __call__(self, entry: Entry) -> tuple[str, dict[str, Any]]:
        """The name and the data of an entry's event. From the first round on the data says the round."""
        self._round = entry.round or self._round
        place: dict[str, Any] = {"run_id": self._run_id}
        if self._round is not None:
            place["round"] = self._round
        match entry.event:
            case RunCompleted(response):
                return "run.completed", self._answer(response) | place
            case RunCancelled(response):
                return "run.cancelled", self._answer(response) | place
            case RunFailed(error):
                return "run.failed", problem_of(error).document() | place
            case event:
                name, data = _WIRE[type(event)]
                return name, place | data(event)
