"""The documents that go out, as pydantic models. They are for the OpenAPI page and for tests.

What is sent is built in `app.web.answers`, `app.web.errors` and `app.web.events`: validating it once more for every
answer would cost more than making it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from app.chat import BreakerState, FinishReason
from app.runs import RunStatus
from app.web.schemas import CallExtra, MessageForm


class Document(BaseModel):
    """A JSON object of which every field is always there, unless it says otherwise."""

    model_config = ConfigDict(extra="forbid", defer_build=True)  # only the OpenAPI page needs them


class UsageDocument(Document):
    """Tokens; null is unknown, which is not 0."""

    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None


class ToolCallDocument(Document):
    """A call that the model asks for."""

    id: str
    name: str
    arguments: Annotated[str, Field(description="JSON text as the model wrote it; it need not parse.")]
    extra: CallExtra = {}


class ToolResultDocument(Document):
    """A call that gave a result."""

    round: int
    id: str
    name: str
    arguments: str
    result: str
    ms: float


class ToolErrorDocument(Document):
    """A call that gave an error."""

    round: int
    id: str
    name: str
    arguments: str
    error: str
    ms: float


TargetName: TypeAlias = Annotated[str, Field(description="The model server that served; absent where it has no name.")]


class RoundDocument(Document):
    """One model call."""

    finish_reason: FinishReason
    usage: UsageDocument
    target: TargetName = ""


class AnswerDocument(Document):
    """An answer. Reasoning and refusals never enter `content`."""

    id: str
    conversation_id: str | None
    model: str
    content: Annotated[str, Field(description="Text of the last round.")]
    reasoning: str | None
    refusal: str | None
    finish_reason: FinishReason
    tool_calls: Annotated[list[ToolCallDocument], Field(description="Calls that are left for the caller to run.")]
    tool_runs: list[ToolResultDocument | ToolErrorDocument]
    usage: UsageDocument
    rounds: list[RoundDocument]


class RunSummaryDocument(Document):
    """A run in a list."""

    id: str
    status: Annotated[RunStatus, Field(description="`queued`: it waits for an earlier run of its conversation.")]
    conversation_id: str | None
    created_at: str
    ended_at: Annotated[str | None, Field(description="null while it is going.")]


class RunsDocument(Document):
    """One page of the runs that are kept, the newest first."""

    runs: list[RunSummaryDocument]
    next: Annotated[str | None, Field(description="What to send as `before` for the next page; null on the last.")]


class FieldErrorDocument(Document):
    """One thing in a body that does not fit."""

    loc: Annotated[list[str | int], Field(description="Where; empty = the body itself.")]
    message: str


class ProblemDocument(Document):
    """What went wrong (RFC 9457). Fields with a default are there only where they say something."""

    type: Annotated[str, Field(description="A stable name of the kind of problem.")]
    title: str
    status: int
    detail: str
    request_id: str
    errors: Annotated[list[FieldErrorDocument], Field(description="422: all that does not fit.")] = []
    code: Annotated[str, Field(description="The model server's own error code.")] = ""
    upstream_status: Annotated[int, Field(description="The HTTP status of the model server.")] = 0
    first: Annotated[int, Field(description="`events-gone`: the number of the oldest event that is kept.")] = 1
    retry_after: Annotated[int, Field(description="Seconds, as in the header `Retry-After`.")] = 0


class RunDocument(RunSummaryDocument):
    """A run, with how it ended."""

    answer: Annotated[AnswerDocument | None, Field(description="Of a run that is completed or cancelled.")]
    problem: Annotated[ProblemDocument | None, Field(description="Of a run that has failed.")]


class ConversationSummaryDocument(Document):
    """A conversation in a list."""

    id: str
    created_at: str
    updated_at: str
    turns: Annotated[int, Field(description="How many are remembered.")]


class ConversationsDocument(Document):
    """One page of the conversations that are remembered, the one that was added to last first."""

    conversations: list[ConversationSummaryDocument]
    next: Annotated[str | None, Field(description="What to send as `before` for the next page; null on the last.")]


class TurnDocument(Document):
    """One turn, from what the user said to the answer."""

    number: Annotated[int, Field(description="Stays when older turns fall out.")]
    created_at: str
    messages: list[MessageForm]


class ConversationDocument(Document):
    """What is remembered of a conversation."""

    id: str
    created_at: str
    updated_at: str
    system: list[str]
    summary: Annotated[str | None, Field(description="Of turns that are no longer remembered.")]
    turns: list[TurnDocument]


class ToolDocument(Document):
    """A tool that requests can name."""

    name: str
    description: str
    input_schema: dict[str, Any]
    default: Annotated[bool, Field(description="Whether it is offered to requests that name no tools.")]
    return_direct: bool
    sequential: bool
    idempotent: bool
    timeout: Annotated[float | None, Field(description="Seconds; null = as the gateway is configured.")]
    max_calls: Annotated[int | None, Field(description="Per turn; null = as the gateway is configured.")]


class ToolsDocument(Document):
    """All tools."""

    tools: list[ToolDocument]


class ToolCallsDocument(Document):
    """The history that was given, grown by the results."""

    messages: Annotated[list[MessageForm], Field(description="As they were sent, then one tool message a call.")]
    return_direct: Annotated[bool, Field(description="Whether the results are the answer.")]


class AliveDocument(Document):
    """The process answers."""

    status: Literal["alive"]


class TargetDocument(Document):
    """A model server behind an alias."""

    alias: str
    target: TargetName = ""
    breaker: Annotated[BreakerState, Field(description="`open`: it failed and is left alone for a while.")]
    active: Annotated[int, Field(description="Calls that it is answering.")]
    waiting: Annotated[int, Field(description="Calls that wait until it has room.")]


class ReadyDocument(Document):
    """The gateway takes requests."""

    status: Literal["ready"]
    model: Annotated[str, Field(description="The alias of requests that name none.")]
    targets: Annotated[list[TargetDocument], Field(description="Absent where no model server is configured.")] = []
    demo: Annotated[bool, Field(description="Whether the built-in demo model answers, not a model server.")]
    shared: Annotated[
        Literal["available", "unavailable"] | None,
        Field(description="Whether what the replicas share can be asked. Absent where there is one process."),
    ] = None
    note: Annotated[str, Field(description="Demo only: how to configure a model.")] = ""
