"""The demo model: answers without a server, a key or the network, the same every time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from app.chat import (
    AssistantMessage,
    ChatEvents,
    ChatOptions,
    ChatResponse,
    FinishReason,
    Message,
    Prompt,
    ToolCall,
    ToolDefinition,
    ToolMessage,
    Usage,
    UserMessage,
    current_turn,
)
from app.chat.text import well_formed_text
from app.providers.embedded.dates import zone_of
from app.providers.embedded.planning import Plan, Planned, plan
from app.providers.embedded.recalling import recalled
from app.providers.embedded.structured import as_json, wanted_schema
from app.providers.embedded.telling import of_itself, of_lacking, of_results
from app.providers.pieces import in_pieces, words


class DemoModel:
    """A model without intelligence that works with any tool, from what a model is told of it.

    It matches the words of the user's message with the names and descriptions of the tools it is offered, reads
    their arguments from the message by their schemas, asks for the calls, and answers from the results. It reads
    English, knows no clock, and answers the same prompt the same way always. A call is asked for once in a turn,
    whatever came of it. Of earlier messages it knows what completes the last one (`And in Oslo?`), and what the user
    said of themselves (`My name is Ada.`, `What is my name?`).

    Of the options it heeds `tools`, `tool_choice`, `parallel_tool_calls`, `response_format`, `max_tokens` and `stop`.
    A forced call is made whatever the message says: what it lacks is the first value that the schema allows.
    A token of this model is a word; usage is counted in them.

    Args:
        default_options: see `ChatModel.default_options`.
        pace: seconds between the pieces of a stream, for those who want to watch it.
    """

    name = "demo"

    def __init__(self, *, default_options: ChatOptions | None = None, pace: float = 0.0) -> None:
        self.default_options = default_options or ChatOptions()
        self._pace = pace
        zone_of("UTC")  # reads the list of time zones from disk now, and not while a request waits

    async def call(self, prompt: Prompt) -> ChatResponse:
        """The answer, whole."""
        return self._answer(prompt)

    async def stream(self, prompt: Prompt) -> ChatEvents:
        """The answer, a word or a few characters of arguments at a time."""
        for event in in_pieces(self._answer(prompt)):
            await asyncio.sleep(self._pace)  # also without a pace: whoever waits beside this stream gets a turn
            yield event

    async def aclose(self) -> None:
        """Nothing is open."""

    def _answer(self, prompt: Prompt) -> ChatResponse:
        options = prompt.options.over(self.default_options)
        tools = [tool.definition for tool in options.tools or ()]
        turn = current_turn(prompt.messages)
        forbidden = options.tool_choice == "none"
        planned = Plan() if forbidden else plan(prompt.messages, tools, options.tool_choice)
        calls = _not_yet_asked(planned.calls, turn)
        if options.parallel_tool_calls is False:
            calls = calls[:1]
        if calls:
            message = AssistantMessage("", _with_ids(calls, prompt.messages))
        else:
            text = _said(prompt.messages, tools, planned, forbidden=forbidden)
            message = AssistantMessage(_shaped(well_formed_text(text), options, turn))
        message, reason = _within(message, options)
        return ChatResponse.of_call(message, reason, _usage(prompt.messages, tools, message), model=self.name)


def _not_yet_asked(calls: Sequence[Planned], turn: Sequence[Message]) -> list[Planned]:
    """The calls of the plan, without as many of each tool as this turn has asked for already.

    Counted and not compared, so that a caller who drives the loop may change arguments before running a call.
    """
    asked = [call.name for message in turn if isinstance(message, AssistantMessage) for call in message.tool_calls]
    left: list[Planned] = []
    for call in calls:
        if call.name in asked:
            asked.remove(call.name)
        else:
            left.append(call)
    return left


def _with_ids(calls: Sequence[Planned], history: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls with ids that the conversation has not seen."""
    used = [call.id for message in history if isinstance(message, AssistantMessage) for call in message.tool_calls]
    free = (f"call_{number}" for number in count(len(used) + 1))
    unused = (each for each in free if each not in used)
    return tuple(ToolCall(next(unused), call.name, _json(call.arguments)) for call in calls)


def _json(arguments: dict[str, object]) -> str:
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text if well_formed_text(text) == text else json.dumps(arguments, separators=(",", ":"))


def _said(messages: Sequence[Message], tools: Sequence[ToolDefinition], planned: Plan, *, forbidden: bool) -> str:
    turn = current_turn(messages)
    parts: list[str] = []
    if any(isinstance(message, ToolMessage) and message.results for message in turn):
        parts.append(of_results(turn))
    if planned.lacking:
        parts.append(of_lacking(planned.lacking))
    return "\n".join(parts) or recalled(messages) or of_itself(_asked(turn), tools, forbidden=forbidden)


def _asked(turn: Sequence[Message]) -> str:
    return next((message.content for message in turn if isinstance(message, UserMessage)), "")


def _shaped(text: str, options: ChatOptions, turn: Sequence[Message]) -> str:
    schema = wanted_schema(options.response_format)
    if schema is None:
        return text
    results = [result.content for message in turn if isinstance(message, ToolMessage) for result in message.results]
    return well_formed_text(as_json(schema, text, _asked(turn), results))


def _within(message: AssistantMessage, options: ChatOptions) -> tuple[AssistantMessage, FinishReason]:
    """The message up to the first stop text and within the number of tokens it may have; calls are kept whole."""
    ends = [place for each in options.stop or () if each and (place := message.content.find(each)) >= 0]
    message = replace(message, content=message.content[: min(ends)]) if ends else message
    most = options.max_tokens
    if most is not None and _tokens(message) > most:
        calls = message.tool_calls
        while calls and sum(map(_call_tokens, calls)) > most:
            calls = calls[:-1]
        return AssistantMessage("".join(words(message.content)[:most]), calls), FinishReason.LENGTH
    return message, FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP


def _usage(history: Sequence[Message], tools: Sequence[ToolDefinition], answer: AssistantMessage) -> Usage:
    told = sum(
        len(words(tool.name)) + len(words(tool.description)) + len(words(str(tool.input_schema))) for tool in tools
    )
    read = told + sum(map(_tokens, history))
    written = _tokens(answer)
    return Usage(read, written, read + written)


def _tokens(message: Message) -> int:
    if isinstance(message, ToolMessage):
        return sum(len(words(result.content)) for result in message.results)
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    return len(words(message.content)) + sum(map(_call_tokens, calls))


def _call_tokens(call: ToolCall) -> int:
    return 1 + len(words(call.arguments))
