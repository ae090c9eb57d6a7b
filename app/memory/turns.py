"""A conversation as it is kept: system messages, a summary of what fell out, and whole turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from app.chat import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage

Messages: TypeAlias = tuple[Message, ...]

_TOKENS_OF_A_MESSAGE = 4
_ASCII_PER_TOKEN = 4.0
_OTHERS_PER_TOKEN = 1.5

_SUMMARY = "What was said before, in short: "


class Summary(SystemMessage):
    """What was said in turns that are no longer kept. It stands beside the system messages, and none replaces it."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large messages are.

    Attributes:
        messages: how many they are.
        tokens: about how many a model takes them for.
    """

    messages: int = 0
    tokens: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.messages + other.messages, self.tokens + other.tokens)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn.

    Attributes:
        number: from 1; numbers stay when older turns fall out.
        created_at: when it was stored, in UTC.
        messages: from the user's message to the answer.
        known_size: how large they are, where somebody has measured them.
    """

    number: int
    created_at: datetime
    messages: Messages
    known_size: Size | None = field(default=None, compare=False, repr=False)

    @property
    def size(self) -> Size:
        """How large the messages are."""
        return self.known_size or size_of(self.messages)


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A conversation in a list.

    Attributes:
        id: its own.
        created_at: when its first turn was stored, in UTC.
        updated_at: when its last one was.
        turns: how many are kept.
    """

    id: str
    created_at: datetime
    updated_at: datetime
    turns: int


@dataclass(frozen=True, slots=True)
class KeptConversation:
    """All that is kept of a conversation.

    Attributes:
        id: its own.
        created_at: when its first turn was stored, in UTC.
        updated_at: when its last one was.
        system: its system messages.
        turns: those that are kept, the oldest first.
        summary: what was said in those that are not, None where nobody has summed it up.
        last_turn: the number of the newest turn there ever was, kept or not; 0 = there was none.
    """

    id: str
    created_at: datetime
    updated_at: datetime
    system: tuple[SystemMessage, ...] = ()
    turns: tuple[Turn, ...] = ()
    summary: str | None = None
    last_turn: int = 0

    @property
    def messages(self) -> Messages:
        """What is remembered, as `ChatMemory.get` gives it."""
        summary = () if self.summary is None else (Summary(_SUMMARY + self.summary),)
        return (*self.system, *summary, *(message for turn in self.turns for message in turn.messages))


def split_into_turns(messages: Iterable[Message]) -> list[list[Message]]:
    """Messages other than system messages, turn by turn. What stands before the first user message is one, too."""
    turns: list[list[Message]] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            continue
        if not turns or isinstance(message, UserMessage):
            turns.append([])
        turns[-1].append(message)
    return turns


def size_of(messages: Sequence[Message]) -> Size:
    """How large messages are. Tokens are estimated from the length of the texts, on the large side."""
    return Size(len(messages), sum(map(_tokens, messages)))


def _tokens(message: Message) -> int:
    letters = "".join(_texts(message))
    ascii_only = len(letters.encode("ascii", "ignore"))
    return _TOKENS_OF_A_MESSAGE + round(ascii_only / _ASCII_PER_TOKEN + (len(letters) - ascii_only) / _OTHERS_PER_TOKEN)


def _texts(message: Message) -> Iterable[str]:
    match message:
        case AssistantMessage():
            yield from (message.content, message.reasoning or "", message.refusal or "")
            for call in message.tool_calls:
                yield from (call.name, call.arguments)
        case ToolMessage():
            yield from (result.content for result in message.results)
        case _:
            yield message.content
