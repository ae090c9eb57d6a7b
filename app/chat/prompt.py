"""What is asked of a model: the messages, the options, and the request that travels down the chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from app.chat.messages import EMPTY, Message, UserMessage
from app.chat.tools import Tool


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How the model is to answer. None means "not said": the next lower default decides.

    Attributes:
        model: alias of the model.
        temperature: 0 to 2.
        top_p: 0 to 1.
        max_tokens: tokens the answer may have.
        stop: texts at which the model stops.
        seed: for repeatable answers where the server can.
        tool_choice: `auto`, `none`, `required`, or the name of a tool that must be called.
        parallel_tool_calls: whether several calls may be asked for at once.
        response_format: as in the chat completions API.
        timeout: seconds one call to the model may take.
        tools: what is offered to the model; an empty tuple offers nothing.
        tool_context: for tools only, never for the model.
        extra: further fields of the model server's request body.
    """

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    response_format: Mapping[str, Any] | None = None
    timeout: float | None = None
    tools: tuple[Tool, ...] | None = None
    tool_context: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None

    @property
    def forces_a_tool(self) -> bool:
        """Whether `tool_choice` leaves the model nothing but to call a tool."""
        return self.tool_choice not in {None, "auto", "none"}

    def within(self, seconds: float) -> ChatOptions:
        """The same options with so many seconds for a call to the model."""
        values = list(_values(self))
        values[_TIMEOUT] = seconds
        return ChatOptions(*values)  # each call of a model needs one; `replace` takes twice the time

    def over(self, defaults: ChatOptions) -> ChatOptions:
        """These options, with what they leave open taken from `defaults`.

        Tools replace, they are never joined. Tool context and extra fields are united, these options winning.
        """
        mine, others = _values(self), _values(defaults)
        if others == _NOTHING:
            return self
        if mine == _NOTHING:
            return defaults
        merged = [default if one is None else one for one, default in zip(mine, others, strict=True)]
        for place in _UNITED:
            if mine[place] is not None and others[place] is not None:
                merged[place] = {**others[place], **mine[place]}
        return ChatOptions(*merged)


_NAMES = tuple(option.name for option in fields(ChatOptions))
_TIMEOUT = _NAMES.index("timeout")
_UNITED = (_NAMES.index("tool_context"), _NAMES.index("extra"))
_values = attrgetter(*_NAMES)
_NOTHING = _values(ChatOptions())


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one model call gets. A text stands for a single user message."""

    messages: tuple[Message, ...]
    options: ChatOptions = ChatOptions()

    @classmethod
    def of(cls, text: str, **options: Any) -> Prompt:
        """A prompt of one user message; keyword arguments are those of `ChatOptions`."""
        return cls((UserMessage(text),), ChatOptions(**options))


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What travels down the chain of advisors. To change it is to pass on another one.

    Attributes:
        prompt: what the next model call gets.
        stream: whether the model is asked for a stream; read at the chain's end only.
        conversation_id: under which id the turn is remembered; None = it is not.
        principal: who asks; one owner for all until callers are told apart.
        round: number of the next model call of this run, from 1.
        turn: all messages of the turn so far, set by the tool loop, whatever the prompt was trimmed to.
        attributes: for advisors of an operator's own, by a name of their own.
    """

    prompt: Prompt
    stream: bool = False
    conversation_id: str | None = None
    principal: str | None = None
    round: int = 1
    turn: tuple[Message, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt's messages."""
        return self.prompt.messages

    @property
    def options(self) -> ChatOptions:
        """The prompt's options."""
        return self.prompt.options

    def changed(
        self,
        *,
        prompt: Prompt | None = None,
        round: int | None = None,  # noqa: A002 - the field's name
        turn: tuple[Message, ...] | None = None,
    ) -> ChatRequest:
        """The same request where it stands in its turn now; what is None stays."""
        # As `replace` would do it, for three times as much.
        return ChatRequest(
            self.prompt if prompt is None else prompt,
            self.stream,
            self.conversation_id,
            self.principal,
            self.round if round is None else round,
            self.turn if turn is None else turn,
            self.attributes,
        )

    def with_messages(self, messages: tuple[Message, ...]) -> ChatRequest:
        """The same request with other messages."""
        return self.changed(prompt=Prompt(messages, self.options))

    def with_options(self, **changes: Any) -> ChatRequest:
        """The same request with some options changed."""
        return self.changed(prompt=Prompt(self.messages, replace(self.options, **changes)))

    def without_forced_tool(self) -> ChatRequest:
        """The same request with the choice left to the model where a tool was forced: that call has been made."""
        return self.with_options(tool_choice="auto") if self.options.forces_a_tool else self
