"""The bodies of requests, as pydantic models: what is not said here is refused.

Strict: a number in quotes is no number. What cannot be said in a schema (a tool result without its call, a tool
that does not exist) is checked in `app.web.requests`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, WithJsonSchema

from app.runs import OnDisconnect, WhenBusy

_CONVERSATION_ID = r"^[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"
MAX_SEED = 2**63 - 1


def _visible(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _context(values: dict[str, Any]) -> dict[str, Any]:
    for key, value in values.items():
        if not key.strip():
            raise ValueError("must not have a blank key")
        if value is None:
            raise ValueError(f"must not hold null, but {key!r} is; leave the key out")
    return values


def _conversation_id(text: str) -> str:
    if not re.fullmatch(_CONVERSATION_ID.removesuffix("$"), text):
        raise ValueError("must not begin with white space or hold control characters")
    return text


VisibleText: TypeAlias = Annotated[
    str, AfterValidator(_visible), WithJsonSchema({"type": "string", "minLength": 1, "pattern": r"\S"})
]
NotNull: Mapping[str, Any] = {"type": ["boolean", "number", "string", "array", "object"]}
ToolContextValues: TypeAlias = Annotated[
    dict[str, Any],
    AfterValidator(_context),
    WithJsonSchema({"type": "object", "propertyNames": {"pattern": r"\S"}, "additionalProperties": NotNull}),
]
ConversationId: TypeAlias = Annotated[
    str,
    Field(max_length=200),
    AfterValidator(_conversation_id),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200, "pattern": _CONVERSATION_ID}),
]
ToolNames: TypeAlias = Annotated[list[str], Field(description="Names of tools that replace the defaults; [] = none.")]


class Body(BaseModel):
    """A JSON object without unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


CallExtra: TypeAlias = Annotated[
    dict[str, Any],
    Field(
        description="What the model server added to the call and wants back with it, such as a signature; absent where"
        " it added nothing. To be sent back as it came."
    ),
]


class FlatToolCall(Body):
    """A call as it stands in an answer."""

    id: VisibleText
    name: VisibleText
    arguments: Annotated[str, Field(description="JSON text as the model wrote it.")] = "{}"
    extra: CallExtra = {}


class CalledFunction(Body):
    """The inner part of a call in OpenAI's form."""

    name: VisibleText
    arguments: str = "{}"


class NestedToolCall(Body):
    """A call in OpenAI's form."""

    id: VisibleText
    type: Literal["function"] = "function"
    function: CalledFunction
    extra: CallExtra = {}


def _form(value: Any) -> str:
    return (
        "nested" if isinstance(value, NestedToolCall) or (isinstance(value, dict) and "function" in value) else "flat"
    )


ToolCallForm: TypeAlias = Annotated[
    Annotated[FlatToolCall, Tag("flat")] | Annotated[NestedToolCall, Tag("nested")], Discriminator(_form)
]


class SystemMessageForm(Body):
    """Instructions to the model."""

    role: Literal["system"]
    content: str


class UserMessageForm(Body):
    """What the user said."""

    role: Literal["user"]
    content: VisibleText


class AssistantMessageForm(Body):
    """What the model said, with the calls it asked for."""

    role: Literal["assistant"]
    content: str | None = None
    tool_calls: list[ToolCallForm] | None = None
    reasoning: str | None = None
    refusal: str | None = None


class ToolMessageForm(Body):
    """The result of one call; it stands after the message that asked for the call."""

    role: Literal["tool"]
    tool_call_id: VisibleText
    content: str


MessageForm: TypeAlias = Annotated[
    SystemMessageForm | UserMessageForm | AssistantMessageForm | ToolMessageForm, Discriminator("role")
]


class TextFormat(Body):
    """Plain text."""

    type: Literal["text"]


class JsonObjectFormat(Body):
    """Any JSON object."""

    type: Literal["json_object"]


class JsonSchema(Body):
    """A schema and its name."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: bool | None = None


class JsonSchemaFormat(Body):
    """JSON that fits a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


class NamedFunction(Body):
    """A tool's name in OpenAI's form."""

    name: VisibleText


class NamedToolChoice(Body):
    """A tool that must be called, in OpenAI's form."""

    type: Literal["function"] = "function"
    function: NamedFunction


class Options(Body):
    """How the model is to answer. What is absent or null is left to the gateway and the model server."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    stop: str | Annotated[list[str], Field(min_length=1)] | None = None
    seed: Annotated[int, Field(ge=-MAX_SEED - 1, le=MAX_SEED)] | None = None
    tool_choice: Annotated[
        VisibleText | NamedToolChoice | None,
        Field(description="`auto`, `none`, `required`, or the name of an offered tool that must be called."),
    ] = None
    parallel_tool_calls: bool | None = None
    response_format: Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Discriminator("type")] | None = None


def _exactly_one(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [
        {"required": ["message"], "properties": {"message": {"type": "string"}, "messages": {"type": "null"}}},
        {"required": ["messages"], "properties": {"messages": {"type": "array"}, "message": {"type": "null"}}},
    ]


class ChatBody(Body):
    """What is asked: exactly one of `message` and `messages`, and how to answer it."""

    model_config = ConfigDict(json_schema_extra=_exactly_one)

    message: Annotated[VisibleText | None, Field(description="What the user says.")] = None
    messages: Annotated[
        Annotated[list[MessageForm], Field(min_length=1)] | None,
        Field(description="The conversation so far; the last message is the user's or a tool's."),
    ] = None
    system: Annotated[str | None, Field(description="Instructions to the model, before the messages.")] = None
    model: Annotated[VisibleText | None, Field(description="Alias of the model.")] = None
    options: Options | None = None
    conversation_id: Annotated[
        ConversationId | None, Field(description="Remember under this id; without it nothing is remembered.")
    ] = None
    tools: ToolNames | None = None
    tool_context: Annotated[
        ToolContextValues | None, Field(description="For tools only, never for the model; over the configured one.")
    ] = None
    tool_calling: Annotated[
        bool | None, Field(description="false = the caller runs the calls; null = as the gateway is configured.")
    ] = None
    when_busy: Annotated[
        WhenBusy | None,
        Field(description="What to do while the conversation has a run that is still going; null = `reject`."),
    ] = None
    on_disconnect: Annotated[
        OnDisconnect | None,
        Field(description="What becomes of the run when nobody reads it any more; null = `cancel`."),
    ] = None
    background: Annotated[
        bool | None, Field(description="`/chat` only: answer at once, and let the run go on without a reader.")
    ] = None


class ToolCallsBody(Body):
    """The body of `POST /tool-calls`: a conversation whose last message is the assistant's, with calls to run."""

    messages: Annotated[list[MessageForm], Field(min_length=1)]
    tools: ToolNames | None = None
    tool_context: ToolContextValues | None = None


class ForkBody(Body):
    """The body of `POST /conversations/{id}/fork`."""

    id: Annotated[ConversationId | None, Field(description="Of the new conversation; null = one that is made.")] = None
    turn: Annotated[
        Annotated[int, Field(ge=1)] | None, Field(description="The last turn that is copied; null = all are.")
    ] = None
