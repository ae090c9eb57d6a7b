"""The data of a stream's events, as pydantic models. They are for the OpenAPI page and for tests."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, JsonValue

from app.chat import FinishReason
from app.web.documents import AnswerDocument, Document, ProblemDocument, TargetName, UsageDocument

RoundSoFar: TypeAlias = Annotated[int, Field(description="Absent where no round had begun.")]


class _Event(Document):
    run_id: str


class _RoundEvent(_Event):
    round: int


class _CallEvent(_RoundEvent):
    call_id: str
    name: str


class RunStartedData(_Event):
    """Data of `run.started`."""


class RoundStartedData(_RoundEvent):
    """Data of `round.started`: a model call begins."""


class TextData(_Event):
    """Data of `text.delta` and `reasoning.delta`."""

    round: RoundSoFar = 0
    text: str


class ToolCallStartedData(_CallEvent):
    """Data of `tool_call.started`: the model begins to write a call."""


class ToolCallArgumentsData(_CallEvent):
    """Data of `tool_call.arguments`: a piece of the JSON text."""

    text: str


class ToolCallReadyData(_CallEvent):
    """Data of `tool_call.ready`: the call is written to its end."""

    arguments: str


class ToolCallProgressData(_CallEvent):
    """Data of `tool_call.progress`: what a running tool reports."""

    message: str | None
    current: float | None
    total: float | None
    data: JsonValue


class ToolCallResultData(_CallEvent):
    """Data of `tool_call.result`."""

    result: str
    ms: float


class ToolCallErrorData(_CallEvent):
    """Data of `tool_call.error`."""

    error: str
    ms: float


class RoundCompletedData(_RoundEvent):
    """Data of `round.completed`: a model call and its tools have ended."""

    finish_reason: FinishReason
    usage: UsageDocument
    target: TargetName = ""


class RunAnswerData(AnswerDocument):
    """Data of `run.completed` and `run.cancelled`: the answer."""

    run_id: str
    round: RoundSoFar = 0


class RunFailedData(ProblemDocument):
    """Data of `run.failed`: the problem document."""

    run_id: str
    round: RoundSoFar = 0


class StreamCutOffData(ProblemDocument):
    """Data of `stream.cut_off`: this reader was too slow, and events that it lacks are gone. The run has not ended."""

    run_id: str


EventData: TypeAlias = type[_Event] | type[RunAnswerData] | type[RunFailedData] | type[StreamCutOffData]

EVENTS: dict[str, EventData] = {
    "run.started": RunStartedData,
    "round.started": RoundStartedData,
    "text.delta": TextData,
    "reasoning.delta": TextData,
    "tool_call.started": ToolCallStartedData,
    "tool_call.arguments": ToolCallArgumentsData,
    "tool_call.ready": ToolCallReadyData,
    "tool_call.progress": ToolCallProgressData,
    "tool_call.result": ToolCallResultData,
    "tool_call.error": ToolCallErrorData,
    "round.completed": RoundCompletedData,
    "run.completed": RunAnswerData,
    "run.cancelled": RunAnswerData,
    "run.failed": RunFailedData,
    "stream.cut_off": StreamCutOffData,
}
"""The data of every event of a stream."""

UNNUMBERED = frozenset({"stream.cut_off"})
"""Events that are none of the run's: they have no `id`, and a reader's place stays where it is."""
