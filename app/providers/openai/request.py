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
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

from app.chat import (
    AssistantMessage,
    ChatOptions,
    Message,
    ModelRejected,
    Prompt,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    current_turn,
)
from app.providers.openai.assembly import REASONING_FIELDS
from app.providers.openai.call_ids import written_id
from app.providers.openai.tool_offer import Offers, tool_fields
from app.providers.openai.wire_json import Json, encode, encode_object, encode_plain, encoded
from app.providers.profile import OPTION_FIELDS, Profile

_Json: TypeAlias = dict[str, Any]
"""A message or a part of one, as `ChatCompletionMessageParam` of the openai SDK has it."""

_logger = logging.getLogger(__name__)

INVALID_ARGUMENTS = "invalid_arguments"
"""Under this name the text of arguments that are no JSON object goes back to the model."""

_MODELS = 64
"""So many names of models are kept in their written form: callers may name any."""

_LONG = 4096
"""Arguments and names of models with more characters are looked at anew each time."""


class RequestWriter:
    """Writes the bodies that ask a server for answers: what many of them have in common is written once.

    Args:
        model: what the server calls the model, where the options do not say; None leaves it to the server.
        profile: the server's dialect.
    """

    def __init__(self, model: str | None, profile: Profile) -> None:
        self._model = model
        self._profile = profile
        self._offers = Offers()
        self._known = lru_cache(maxsize=_MODELS)(self._dialect)

    def body(self, prompt: Prompt, *, stream: bool) -> bytes:
        """The body that asks for an answer to `prompt`.

        Args:
            prompt: messages and options, defaults already under them. Extra fields win over the options; one that is
                None leaves the field out.
            stream: whether the answer is wanted in pieces.

        Raises:
            ModelRejected: the options cannot be sent.
        """
        options = prompt.options
        try:
            name, profile = self._dialect_of(options.model or self._model)
            return encode_object(
                {
                    "model": name,
                    **_option_fields(options, profile),
                    **tool_fields(options, profile, self._offers),
                    **(options.extra or {}),
                    "messages": encode_plain(messages(prompt.messages, profile)),
                    **_mode(profile, stream=stream),
                }
            )
        except ValueError as error:
            raise ModelRejected(
                f"The request was not sent: its options cannot be written as JSON ({error}).", code="invalid_options"
            ) from None

    def _dialect_of(self, model: str | None) -> tuple[Json | None, Profile]:
        """A model's name as JSON, and the dialect in which it is asked."""
        return self._known(model) if model is None or len(model) <= _LONG else self._dialect(model)

    def _dialect(self, model: str | None) -> tuple[Json | None, Profile]:
        return None if model is None else encoded(model), self._profile.of_model(model)


def messages(history: Sequence[Message], profile: Profile) -> list[_Json]:
    """The messages in the server's form, in order. Of one system message all texts are part, wherever they stood."""
    turn_begins: int | None = None
    written: list[_Json] = []
    texts: list[str] = []
    for place, message in enumerate(history):
        if isinstance(message, UserMessage):
            written.append({"role": "user", "content": message.content})
        elif isinstance(message, AssistantMessage):
            back: _Json = {}
            if message.extra or message.reasoning:
                if turn_begins is None:
                    turn_begins = len(history) - len(current_turn(history))
                back = _sent_back(message, profile, in_turn=place >= turn_begins)
            written.append(_assistant(message, profile, back))
        elif isinstance(message, ToolMessage):
            written += [_result(result, profile) for result in message.results]
        elif profile.system_messages == "one":
            texts.append(message.content)
        else:
            written.append(_system(message.content, profile))
    return [_system("\n\n".join(texts), profile), *written] if texts else written


def _option_fields(options: ChatOptions, profile: Profile) -> dict[str, Any]:
    if _said(options) == _NOTHING_SAID:
        return {}
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


_said = attrgetter(*sorted(OPTION_FIELDS), "max_tokens")
_NOTHING_SAID = _said(ChatOptions())


def _mode(profile: Profile, *, stream: bool) -> Mapping[str, Json | None]:
    if not stream:
        return _WHOLE
    return _STREAM_WITH_USAGE if profile.stream_usage else _STREAM


_WHOLE = {"stream": encoded(False)}
_STREAM = {"stream": encoded(True), "stream_options": None}
_STREAM_WITH_USAGE = {**_STREAM, "stream_options": encoded({"include_usage": True})}


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


def _assistant(message: AssistantMessage, profile: Profile, back: _Json) -> _Json:
    body: _Json = {"role": "assistant", **back}
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
