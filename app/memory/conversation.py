"""How a request's messages join what is remembered: each message once. Pure: messages in, messages out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from app.chat import AssistantMessage, Message, SystemMessage, ToolMessage
from app.memory.turns import Messages, Summary


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is remembered of one.

    Attributes:
        remembered: its messages, as `ChatMemory.get` gave them.
    """

    remembered: Messages

    def before(self, messages: Messages, said: Messages | None = None) -> Messages:
        """A prompt in which what is remembered stands before a request's messages.

        Args:
            messages: all that the request has to say. Its system messages, where it has some, stand for the
                remembered ones, but not for a summary of what is no longer remembered.
            said: `messages` in the form in which they would be remembered, by which those are found that are
                remembered already; None = `messages` themselves.
        """
        past = other_messages(self.remembered)
        covered, _ = _overlap(past, other_messages(messages if said is None else said))
        return (
            *(system_messages(messages) or _instructions(self.remembered)),
            *(message for message in self.remembered if isinstance(message, Summary)),
            *past[: len(past) - covered],
            *other_messages(messages),
        )

    def new_of(self, said: Messages) -> Messages:
        """What of a request's messages is to be remembered and is not yet. System messages always count as new."""
        others = other_messages(said)
        _, known = _overlap(other_messages(self.remembered), others)
        return (*system_messages(said), *others[known:])


def system_messages(messages: Iterable[Message]) -> Messages:
    """The system messages among them."""
    return tuple(message for message in messages if isinstance(message, SystemMessage))


def _instructions(messages: Iterable[Message]) -> Messages:
    return tuple(message for message in system_messages(messages) if not isinstance(message, Summary))


def other_messages(messages: Iterable[Message]) -> Messages:
    """All but the system messages."""
    return tuple(message for message in messages if not isinstance(message, SystemMessage))


def _overlap(past: Messages, said: Messages) -> tuple[int, int]:
    """Where the end of the past stands in what is said: how much of the past, and up to which of what is said.

    `(0, 0)` where it does not. As a past ends with an answer, a user who asks the same again is not mistaken.
    """
    heard, told = list(map(_words_of, past)), list(map(_words_of, said))
    for end in range(len(told), 0, -1):
        length = min(end, len(heard))
        if length and heard[-length:] == told[end - length : end]:
            return length, end
    return 0, 0


def _words_of(message: Message) -> Hashable:
    """What two messages have in common when they say the same, one as the model gave it, one as a caller sent it."""
    match message:
        case AssistantMessage():
            calls = tuple((call.id, call.name, call.arguments) for call in message.tool_calls)
            return message.content, calls
        case ToolMessage():
            return tuple((result.id, result.content) for result in message.results)
        case _:
            return message
