"""From a prompt to the body of a chat completions request.

Every body is one that servers take: arguments of earlier calls are always a JSON object, one `tool` message holds one
result, and fields that say nothing are left out. So is a schema's `$schema`, which tells a model nothing and which
Gemini's servers refuse the whole request for.

Differs from Spring AI: 1. Arguments that do not parse are sent back wrapped, so that the model reads its own mistake
beside the error result, and the conversation goes on. 2. A forced tool choice without tools is dropped (174).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from app.chat import (
    AssistantMessage,
    ChatOptions,
    Message,
    ModelRejected,
    Prompt,
    SystemMessage,
    Tool,
    ToolCall,
    ToolMessage,
    current_turn,
)
from app.providers.openai.assembly import REASONING_FIELDS
from app.providers.openai.wire_json import encode
from app.providers.profiles import Profile

if TYPE_CHECKING:
    from openai.types.chat import (
        ChatCompletionAssistantMessageParam,
        ChatCompletionFunctionToolParam,
        ChatCompletionMessageFunctionToolCallParam,
        ChatCompletionMessageParam,
        ChatCompletionToolChoiceOptionParam,
    )

_logger = logging.getLogger(__name__)

INVALID_ARGUMENTS = "invalid_arguments"
"""Under this name the text of arguments that are no JSON object goes back to the model."""

_FREE_CHOICES = ("auto", "none", "required")


def request_body(prompt: Prompt, model: str | None, profile: Profile, *, stream: bool) -> bytes:
    """The body that asks for an answer to `prompt`.

    Args:
        prompt: messages and options, defaults already under them. Extra fields win over the options; one that is None
            leaves the field out.
        model: what the server calls the model, where the options do not say; None leaves it to the server.
        profile: the server's dialect.
        stream: whether the answer is wanted in pieces.

    Raises:
        ModelRejected: the options cannot be sent.
    """
    options = prompt.options
    body = {
        "model": options.model or model,
        "temperature": options.temperature,
        "top_p": options.top_p,
        profile.max_tokens_field: options.max_tokens,
        "stop": list(options.stop) if options.stop else None,
        "seed": options.seed,
        "response_format": options.response_format,
        **_tool_fields(options),
        **(options.extra or {}),
        "messages": list(messages(prompt.messages, profile)),
        **_mode(profile, stream=stream),
    }
    try:
        text = encode({name: value for name, value in body.items() if value is not None})
    except ValueError as error:
        raise ModelRejected(
            f"The request was not sent: its options cannot be written as JSON ({error}).", code="invalid_options"
        ) from None
    return text.encode("utf-8", "replace")


def messages(history: Sequence[Message], profile: Profile) -> Iterator[ChatCompletionMessageParam]:
    """The messages in the server's form, in order."""
    turn_begins = len(history) - len(current_turn(history))
    for place, message in enumerate(history):
        if isinstance(message, SystemMessage):
            yield {"role": "system", "content": message.content}
        elif isinstance(message, AssistantMessage):
            yield _assistant(message, profile, in_turn=place >= turn_begins)
        elif isinstance(message, ToolMessage):
            for result in message.results:
                yield {"role": "tool", "tool_call_id": result.id, "content": result.content}
        else:
            yield {"role": "user", "content": message.content}


def _mode(profile: Profile, *, stream: bool) -> dict[str, Any]:
    if not stream:
        return {"stream": False}
    return {"stream": True, "stream_options": {"include_usage": True} if profile.stream_usage else None}


def _assistant(message: AssistantMessage, profile: Profile, *, in_turn: bool) -> ChatCompletionAssistantMessageParam:
    body: dict[str, Any] = {"role": "assistant", **_sent_back(message, profile, in_turn=in_turn)}
    if message.content or not message.tool_calls or profile.empty_content == "empty":
        body["content"] = message.content
    elif profile.empty_content == "null":
        body["content"] = None
    if message.refusal:
        body["refusal"] = message.refusal
    if message.tool_calls:
        body["tool_calls"] = [_call(call) for call in message.tool_calls]
    return cast("ChatCompletionAssistantMessageParam", body)


def _sent_back(message: AssistantMessage, profile: Profile, *, in_turn: bool) -> dict[str, Any]:
    fields = {name: value for name, value in message.extra.items() if name not in REASONING_FIELDS}
    if profile.reasoning_back == "always" or (profile.reasoning_back == "turn" and in_turn):
        fields.update({name: message.extra[name] for name in REASONING_FIELDS if name in message.extra})
    return fields


def _call(call: ToolCall) -> ChatCompletionMessageFunctionToolCallParam:
    extra = {name: value for name, value in call.extra.items() if name != "function"}
    function = call.extra.get("function") or {}
    body = {
        **extra,
        "id": call.id,
        "type": "function",
        "function": {**function, "name": call.name, "arguments": _arguments(call)},
    }
    return cast("ChatCompletionMessageFunctionToolCallParam", body)


def _arguments(call: ToolCall) -> str:
    """The call's arguments as a JSON object, whatever the model wrote."""
    text = call.arguments
    if not text.strip():
        return "{}"
    for _ in range(2):  # some models write the object as a text within a text
        value = _strictly(text)
        if isinstance(value, dict):
            return text
        if not isinstance(value, str):
            break
        text = value
    _logger.info("the arguments of call %s to %s are no JSON object and are sent back wrapped", call.id, call.name)
    return encode({INVALID_ARGUMENTS: call.arguments})


def _strictly(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _tool_fields(options: ChatOptions) -> dict[str, Any]:
    if not options.tools:
        return {}
    return {
        "tools": [_tool(tool) for tool in options.tools],
        "tool_choice": _tool_choice(options.tool_choice),
        "parallel_tool_calls": options.parallel_tool_calls,
    }


def _tool(tool: Tool) -> ChatCompletionFunctionToolParam:
    definition = tool.definition
    return {
        "type": "function",
        "function": {
            "name": definition.name,
            "description": definition.description,
            "parameters": {name: value for name, value in definition.input_schema.items() if name != "$schema"},
        },
    }


def _tool_choice(choice: str | None) -> ChatCompletionToolChoiceOptionParam | None:
    if choice is None:
        return None
    if choice in _FREE_CHOICES:
        return cast("ChatCompletionToolChoiceOptionParam", choice)
    if not choice.lstrip().startswith("{"):
        return {"type": "function", "function": {"name": choice}}
    try:
        written: Mapping[str, Any] = json.loads(choice)
    except ValueError as error:
        raise ModelRejected(
            f"The request was not sent: tool_choice is neither a tool's name nor JSON ({error}).",
            code="invalid_tool_choice",
        ) from None
    return cast("ChatCompletionToolChoiceOptionParam", written)
