"""A run's events as they go over the wire: the name and the data of each. One entry of a journal is one event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

from app.chat import (
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
from app.runs import Entry, EventsGone, Run, RunCompleted, RunFailed, RunGone, RunStarted
from app.runs.journal import RunEnd
from app.web.answers import Answer, milliseconds, round_document
from app.web.encoding import encode, encode_text
from app.web.errors import problem_of


def _text(event: TextDelta | ReasoningDelta) -> bytes:
    return b'"text":' + encode_text(event.text)  # nearly all there are, so without a dictionary for each


def _arguments(event: ToolCallArguments) -> bytes:
    return _fields({"call_id": event.call_id, "name": event.name, "text": event.text})


def _started(event: ToolCallStarted) -> bytes:
    return _fields({"call_id": event.call_id, "name": event.name})


def _ready(event: ToolCallReady) -> bytes:
    return _fields({"call_id": event.call.id, "name": event.call.name, "arguments": event.call.arguments})


def _progress(event: ToolCallProgress) -> bytes:
    return _fields(
        {
            "call_id": event.call_id,
            "name": event.name,
            "message": event.message,
            "current": event.current,
            "total": event.total,
            "data": event.data,
        }
    )


def _result(event: ToolCallSucceeded) -> bytes:
    return _fields({"call_id": event.call_id, "name": event.name, "result": event.result, "ms": milliseconds(event.ms)})


def _error(event: ToolCallErrored) -> bytes:
    return _fields({"call_id": event.call_id, "name": event.name, "error": event.error, "ms": milliseconds(event.ms)})


def _round(event: RoundCompleted) -> bytes:
    return _fields(round_document(event))


def _nothing(_: RunStarted | RoundStarted) -> bytes:
    return b""


def _fields(data: Mapping[str, Any]) -> bytes:
    """The data as the fields of a JSON object, without its braces."""
    return encode(data)[1:-1]


_WIRE: Mapping[type, tuple[bytes, Callable[[Any], bytes]]] = MappingProxyType(
    {
        RunStarted: (b"run.started", _nothing),
        RoundStarted: (b"round.started", _nothing),
        TextDelta: (b"text.delta", _text),
        ReasoningDelta: (b"reasoning.delta", _text),
        ToolCallStarted: (b"tool_call.started", _started),
        ToolCallArguments: (b"tool_call.arguments", _arguments),
        ToolCallReady: (b"tool_call.ready", _ready),
        ToolCallProgress: (b"tool_call.progress", _progress),
        ToolCallSucceeded: (b"tool_call.result", _result),
        ToolCallErrored: (b"tool_call.error", _error),
        RoundCompleted: (b"round.completed", _round),
    }
)


class Projection:
    """Turns entries of one run's journal into the names and the data of wire events, the data encoded.

    Each is the same whoever reads it, and whenever.

    Args:
        run: stands in the data of every event.
        answer: makes the answer document of the run's end.
    """

    def __init__(self, run: Run, answer: Answer) -> None:
        self.run_id = run.id
        self._request_id = run.request_id
        self._answer = answer
        self._round: int | None = None
        self._place = self._encoded_place()

    def __call__(self, entry: Entry) -> tuple[bytes, bytes]:
        """The name and the data of an entry's event. From the first round on the data says the round."""
        if entry.round != self._round:
            self._round = entry.round
            self._place = self._encoded_place()
        wire = _WIRE.get(type(entry.event))
        if wire is None:
            return self._end(cast("RunEnd", entry.event))  # all others have a name
        name, fields = wire
        own = fields(entry.event)
        return name, b"%b,%b}" % (self._place, own) if own else self._place + b"}"

    def _end(self, end: RunEnd) -> tuple[bytes, bytes]:
        if isinstance(end, RunFailed):
            return b"run.failed", encode(self._problem(end.error) | self._where())
        name = b"run.completed" if isinstance(end, RunCompleted) else b"run.cancelled"
        return name, encode(self._answer(end.response) | self._where())

    def cut_off(self, error: EventsGone | RunGone) -> tuple[bytes, bytes]:
        """The name and the data of the event that ends a stream before the run's end, and is none of the run's."""
        return b"stream.cut_off", encode(self._problem(error) | {"run_id": self.run_id})

    def _where(self) -> dict[str, Any]:
        place: dict[str, Any] = {"run_id": self.run_id}
        return place if self._round is None else {**place, "round": self._round}

    def _encoded_place(self) -> bytes:
        # The beginning of the object that is an event's data: the same in all events of a round.
        return encode(self._where())[:-1]

    def _problem(self, error: Exception) -> dict[str, Any]:
        return problem_of(error, self._request_id).document()
