"""Messages as callers send them, and as the gateway means them.

On the wire each result of a tool call is a message of its own; here all results of a round are one. A history has
to be whole: the calls of an assistant message are answered by the tool messages right behind it, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.chat import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from app.web.answers import tool_call_document
from app.web.body import BodyInvalid, FieldError
from app.web.schemas import (
    AssistantMessageForm,
    FlatToolCall,
    MessageForm,
    NestedToolCall,
    SystemMessageForm,
    ToolMessageForm,
    UserMessageForm,
)


def history_of(forms: Sequence[MessageForm]) -> tuple[Message, ...]:
    """The messages to go on from; the last one is the user's or a tool's.

    Raises:
        BodyInvalid: a call without its result, a result without its call, or nothing to answer.
    """
    history = tuple(_messages(forms))
    if not isinstance(forms[-1], UserMessageForm | ToolMessageForm):
        raise _refusal(
            len(forms) - 1, "role", "the last message must be the user's or a tool's: what is to be answered?"
        )
    return history


def open_calls(forms: Sequence[MessageForm]) -> tuple[tuple[Message, ...], AssistantMessage]:
    """A history that ends with calls to run: the messages before, and the assistant message that asks for them.

    Raises:
        BodyInvalid: the last message asks for none, or before it is a call without its result or the reverse.
    """
    *before, last = forms
    if not isinstance(last, AssistantMessageForm) or not last.tool_calls:
        raise _refusal(len(before), "tool_calls", "the last message must be the assistant's, with the calls to run")
    return tuple(_messages(before)), _answer(last, len(before))


def wire_results(message: ToolMessage) -> list[dict[str, Any]]:
    """A tool message as callers get it: one message a result."""
    return [{"role": "tool", "tool_call_id": result.id, "content": result.content} for result in message.results]


def wire_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as callers get them, in the form in which they can send them."""
    return [form for message in messages for form in _wire(message)]


def _wire(message: Message) -> list[dict[str, Any]]:
    match message:
        case SystemMessage(content):
            return [{"role": "system", "content": content}]
        case UserMessage(content):
            return [{"role": "user", "content": content}]
        case ToolMessage():
            return wire_results(message)
        case _:
            told = {
                "tool_calls": [tool_call_document(call) for call in message.tool_calls],
                "reasoning": message.reasoning,
                "refusal": message.refusal,
            }
            given = {name: value for name, value in told.items() if value}
            return [{"role": "assistant", "content": message.content, **given}]


def _messages(forms: Sequence[MessageForm]) -> list[Message]:
    messages: list[Message] = []
    position = 0
    while position < len(forms):
        form = forms[position]
        match form:
            case SystemMessageForm():
                messages.append(SystemMessage(form.content))
            case UserMessageForm():
                messages.append(UserMessage(form.content))
            case ToolMessageForm():
                raise _refusal(
                    position, "tool_call_id", f"no call {form.tool_call_id!r} in the message before asks for it"
                )
            case _:
                answer = _answer(form, position)
                messages.append(answer)
                if answer.tool_calls:
                    results = _results(answer, forms, position)
                    messages.append(results)
                    position += len(results.results)
        position += 1
    return messages


def _answer(form: AssistantMessageForm, position: int) -> AssistantMessage:
    calls = tuple(map(_call, form.tool_calls or ()))
    if len({call.id for call in calls}) < len(calls):
        raise _refusal(position, "tool_calls", "two calls have the same id")
    return AssistantMessage(form.content or "", calls, form.reasoning, form.refusal)


def _call(form: FlatToolCall | NestedToolCall) -> ToolCall:
    called = form.function if isinstance(form, NestedToolCall) else form
    return ToolCall(form.id, called.name, called.arguments or "{}", form.extra)


def _results(answer: AssistantMessage, forms: Sequence[MessageForm], position: int) -> ToolMessage:
    """The tool messages behind the assistant message at `position`, in the order its calls were asked."""
    calls = {call.id: call for call in answer.tool_calls}
    results: dict[str, ToolResult] = {}
    for offset, form in enumerate(forms[position + 1 : position + 1 + len(calls)], position + 1):
        if not isinstance(form, ToolMessageForm):
            break
        call = calls.get(form.tool_call_id)
        if call is None or call.id in results:
            why = "is no call of" if call is None else "was answered already behind"
            raise _refusal(offset, "tool_call_id", f"{form.tool_call_id!r} {why} the assistant message before")
        results[call.id] = ToolResult(call.id, call.name, form.content)
    if missing := [call_id for call_id in calls if call_id not in results]:
        ids = ", ".join(map(repr, missing))
        raise _refusal(position, "tool_calls", f"no tool message behind it answers {ids}")
    return ToolMessage(tuple(results[call_id] for call_id in calls))


def _refusal(position: int, field: str, message: str) -> BodyInvalid:
    return BodyInvalid(FieldError(("messages", position, field), message))
