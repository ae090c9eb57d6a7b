"""A model that says what it was told to: the double that tests plug in where a model server would be."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.chat import (
    AssistantMessage,
    ChatEvents,
    ChatOptions,
    ChatResponse,
    Completed,
    FinishReason,
    ModelError,
    Prompt,
    ToolCall,
    Usage,
)
from app.providers.pieces import in_pieces


@dataclass(frozen=True, slots=True)
class Cut:
    """A reply that breaks off: `text` is streamed, then `error` is raised. A blocking call only raises."""

    text: str
    error: ModelError


Reply: TypeAlias = str | AssistantMessage | ChatResponse | Cut | Exception
"""What one model call gives: a text, a message, a whole answer, one that breaks off, or an error to raise."""

ReplyTo: TypeAlias = Callable[[Prompt], "Reply | Awaitable[Reply]"]
"""Works a reply out from the prompt; may be a coroutine function, and may wait."""


def tool_calls(*calls: tuple[str, Mapping[str, Any] | str], content: str = "") -> AssistantMessage:
    """A message that asks for calls. Each is a name and its arguments (a mapping, or JSON text as it is).

    Ids are `call_1`, `call_2`, … within the message.
    """
    return AssistantMessage(
        content,
        tuple(
            ToolCall(f"call_{number}", name, given if isinstance(given, str) else json.dumps(given))
            for number, (name, given) in enumerate(calls, 1)
        ),
    )


class ScriptedModel:
    """Gives the replies of a script in order, one a model call, and keeps the prompts it was given.

    Args:
        *script: replies, or callables that work one out from the prompt.
        forever: a last reply for every call after the script's end; without it such a call is an error.
        name: what answers are labelled with.
        usage: tokens that each reply reports which does not say itself; None = unknown.
        default_options: see `ChatModel.default_options`.
    """

    def __init__(
        self,
        *script: Reply | ReplyTo,
        forever: Reply | ReplyTo | None = None,
        name: str = "scripted",
        usage: Usage | None = None,
        default_options: ChatOptions | None = None,
    ) -> None:
        self._script: Iterator[Reply | ReplyTo] = iter(script)
        self._forever = forever
        self._usage = usage
        self.name = name
        self.default_options = default_options or ChatOptions()
        self.prompts: list[Prompt] = []
        self.closed = False

    async def call(self, prompt: Prompt) -> ChatResponse:
        """The next reply; an error or a cut one is raised."""
        reply = await self._next(prompt)
        if isinstance(reply, Cut):
            raise reply.error
        return reply

    async def stream(self, prompt: Prompt) -> ChatEvents:
        """The next reply, a word or a few characters of arguments at a time."""
        reply = await self._next(prompt)
        if isinstance(reply, Cut):
            for event in in_pieces(ChatResponse.of_call(AssistantMessage(reply.text))):
                if not isinstance(event, Completed):
                    yield event
            raise reply.error
        for event in in_pieces(reply):
            yield event

    async def aclose(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    async def _next(self, prompt: Prompt) -> ChatResponse | Cut:
        self.prompts.append(prompt)
        reply = next(self._script, self._forever)
        if callable(reply):
            worked_out = reply(prompt)
            reply = await worked_out if inspect.isawaitable(worked_out) else worked_out
        if reply is None:
            raise LookupError(f"the script has no reply for model call {len(self.prompts)}")
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Cut) else self._whole(reply)

    def _whole(self, reply: str | AssistantMessage | ChatResponse) -> ChatResponse:
        if isinstance(reply, ChatResponse):
            return reply
        message = AssistantMessage(reply) if isinstance(reply, str) else reply
        reason = FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP
        return ChatResponse.of_call(message, reason, self._usage, model=self.name)
