"""From a prompt to the body of a chat completions request.

Every body is one that servers take: arguments of earlier calls are always a JSON object, one `tool` message holds one
result, and fields that say nothing are left out. What servers want differently is a flag of their profile; nowhere else
are they told apart. The history is expected to be whole, see `app.providers.openai.repair`.

Differs from Spring AI: 1. Arguments that do not parse are sent back wrapped, so that the model reads its own mistake
beside the error result, and the conversation goes on. 2. A forced tool choice without tools is dropped (174).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from app.chat import (
    AssistantMessage,
    ChatOptions,
    Message,
    ModelRejected,
    Prompt,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    current_turn,
)
from app.providers.openai.assembly import REASONING_FIELDS
from app.providers.openai.call_ids import written_id
from app.providers.openai.tool_offer import Offers, tool_fields
from app.providers.openai.wire_json import encode, encode_object, encode_plain
from app.providers.profile import OPTION_FIELDS, Profile

_Json: TypeAlias = dict[str, Any]
"""A message or a part of one, as `ChatCompletionMessageParam` of the openai SDK has it."""

_logger = logging.getLogger(__name__)

INVALID_ARGUMENTS = "invalid_arguments"
"""Under this name the text of arguments that are no JSON object goes back to the model."""

_LONG = 4096
"""Arguments with more characters are looked at anew each time."""


def request_body(
    prompt: Prompt, model: str | None, profile: Profile, *, stream: bool, offers: Offers | None = None
) -> bytes:
    """The body that asks for an answer to `prompt`.

    Args:
        prompt: messages and options, defaults already under them. Extra fields win over the options; one that is None
            leaves the field out.
        model: what the server calls the model, where the options do not say; None leaves it to the server.
        profile: the server's dialect.
        stream: whether the answer is wanted in pieces.
        offers: keeps the tools as they were written; None = they are written anew.

    Raises:
        ModelRejected: the options cannot be sent.
    """
    options = prompt.options
    name = options.model or model
    profile = profile.of_model(name)
    try:
        body = {
            "model": name,
            **_option_fields(options, profile),
            **tool_fields(options, profile, offers or Offers()),
            **(options.extra or {}),
            "messages": encode_plain(list(messages(prompt.messages, profile))),
            **_mode(profile, stream=stream),
        }
        return encode_object({name: value for name, value in body.items() if value is not None})
    except ValueError as error:
        raise ModelRejected(
            f"The request was not sent: its options cannot be written as JSON ({error}).", code="invalid_options"
        ) from None


def messages(history: Sequence[Message], profile: Profile) -> Iterator[_Json]:
    """The messages in the server's form, in order. Of one system message all texts are part, wherever they stood."""
    turn_begins = len(history) - len(current_turn(history))
    merged = profile.system_messages == "one"
    if merged and (texts := [message.content for message in history if isinstance(message, SystemMessage)]):
        yield _system("\n\n".join(texts), profile)
    for place, message in enumerate(history):
        if isinstance(message, SystemMessage):
            if not merged:
                yield _system(message.content, profile)
        elif isinstance(message, AssistantMessage):
            yield _assistant(message, profile, in_turn=place >= turn_begins)
        elif isinstance(message, ToolMessage):
            yield from (_result(result, profile) for result in message.results)
        else:
            yield {"role": "user", "content": message.content}


def _option_fields(options: ChatOptions, profile: Profile) -> dict[str, Any]:
    said: dict[str, Any] = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        "stop": list(options.stop) if options.stop else None,
        "seed": options.seed,
        "response_format": options.response_format,
    }
    unsent = sorted(name for name in profile.unsent_options & OPTION_FIELDS if said[name] is not None)
    if unsent:
        _logger.info("left out of the request, for the model does not take it: %s", ", ".join(unsent))
    sent = {name: value for name, value in said.items() if name not in unsent}
    if "seed" in sent:
        sent[profile.seed_field] = sent.pop("seed")
    return {**sent, profile.max_tokens_field: options.max_tokens}


def _mode(profile: Profile, *, stream: bool) -> dict[str, Any]:
    if not stream:
        return {"stream": False}
    return {"stream": True, "stream_options": {"include_usage": True} if profile.stream_usage else None}


def _system(text: str, profile: Profile) -> _Json:
    if profile.system_role == "developer":
        return {"role": "developer", "content": text}
    return {"role": "system", "content": text}


def _result(result: ToolResult, profile: Profile) -> _Json:
    content = result.content if profile.tool_results == "text" else [{"type": "text", "text": result.content}]
    body: _Json = {"role": "tool", "tool_call_id": written_id(result.id, profile), "content": content}
    if profile.tool_names and result.name:
        body["name"] = result.name
    return body


def _assistant(message: AssistantMessage, profile: Profile, *, in_turn: bool) -> _Json:
    body: dict[str, Any] = {"role": "assistant", **_sent_back(message, profile, in_turn=in_turn)}
    if message.content or not message.tool_calls or profile.empty_content == "empty":
        body["content"] = message.content
    elif profile.empty_content == "null":
        body["content"] = None
    if message.refusal and profile.extra_back:
        body["refusal"] = message.refusal
    elif message.refusal and not message.content:
        body["content"] = message.refusal  # where it cannot be told apart, the model still has to read what it said
    if message.tool_calls:
        body["tool_calls"] = [_call(call, profile) for call in message.tool_calls]
    return body


def _sent_back(message: AssistantMessage, profile: Profile, *, in_turn: bool) -> dict[str, Any]:
    if not message.extra and not message.reasoning:
        return {}
    fields: dict[str, Any] = {}
    if profile.extra_back:
        fields = {name: value for name, value in message.extra.items() if name not in REASONING_FIELDS}
    if profile.reasoning_back == "always" or (profile.reasoning_back == "turn" and in_turn):
        known = {name: message.extra[name] for name in REASONING_FIELDS if name in message.extra}
        if not known and message.reasoning and profile.reasoning_field and not profile.think_tags:
            known = {profile.reasoning_field: message.reasoning}
        fields.update(known)
    return fields


def _call(call: ToolCall, profile: Profile) -> _Json:
    function: dict[str, Any] = {"name": call.name, "arguments": _arguments(call)}
    body: dict[str, Any] = {"id": written_id(call.id, profile), "type": "function", "function": function}
    if call.extra and profile.extra_back:
        inner = call.extra.get("function")
        if isinstance(inner, Mapping):  # a caller may send anything
            body["function"] = {**inner, **function}
        body = {**{name: value for name, value in call.extra.items() if name != "function"}, **body}
    return body


def _arguments(call: ToolCall) -> str:
    """The call's arguments as a JSON object, whatever the model wrote."""
    text = call.arguments
    found = _object_in(text) if len(text) > _LONG else _object_in_and_kept(text)
    if found is not None:
        return found
    _logger.info("the arguments of call %s to %s are no JSON object and are sent back wrapped", call.id, call.name)
    return encode({INVALID_ARGUMENTS: text})


def _object_in(text: str) -> str | None:
    """The JSON object that a text is, or that the text in it is; None where there is none."""
    if not text.strip():
        return "{}"
    for _ in range(2):  # some models write the object as a text within a text
        value = _strictly(text)
        if isinstance(value, dict):
            return text
        if not isinstance(value, str):
            break
        text = value
    return None


_object_in_and_kept = lru_cache(maxsize=1024)(_object_in)
"""The calls of a turn are written anew with each of its rounds."""


def _strictly(text: str) -> Any:
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_no_number).decode
