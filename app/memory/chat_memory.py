"""What every store of conversations promises, and the checks that all of them make alike.

Differs from Spring AI: a store takes a turn whole and joins it to what it holds; there is no saving of a whole
conversation over another, with which the slower of two writers would erase the other's turn (195).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from app.chat import Message


class ChatMemory(Protocol):
    """Remembers conversations by their ids."""

    async def get(self, conversation_id: str) -> tuple[Message, ...]:
        """What is remembered: system messages first, then the turns, oldest first. Empty for an unknown id.

        Raises:
            TypeError: the id is not a text.
            ValueError: the id is blank.
        """

    async def append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        """Join a whole turn to the conversation, which begins with it where there was none. All of it or nothing.

        Two calls at the same moment both succeed, and their messages do not mix.

        Args:
            conversation_id: which conversation.
            messages: the turn, from the user's message to the answer. A system message among them that is not
                remembered yet replaces all that are.

        Raises:
            TypeError: the id is not a text, or what is to be remembered is not messages.
            ValueError: the id is blank, or there are no messages.
        """

    async def clear(self, conversation_id: str) -> None:
        """Forget the conversation; one that is not known is forgotten already.

        Raises:
            TypeError: the id is not a text.
            ValueError: the id is blank.
        """


def checked_id(conversation_id: str) -> str:
    """The id, if it can name a conversation.

    Raises:
        TypeError: it is not a text.
        ValueError: it is blank, which would be one conversation shared by all who give none.
    """
    given: object = conversation_id
    if not isinstance(given, str):
        raise TypeError(f"a conversation id is a text, got {type(given).__name__}")
    if not given.strip():
        raise ValueError("a conversation id must not be blank")
    return given


def checked_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages as a tuple, if they can be remembered.

    Raises:
        TypeError: they are not an iterable of messages.
        ValueError: there are none.
    """
    given: object = messages
    if not isinstance(given, Iterable):
        raise TypeError(f"messages to remember must be a sequence of messages, got {type(given).__name__}")
    checked: list[Message] = []
    for position, message in enumerate(given):
        if not isinstance(message, Message):
            raise TypeError(f"messages[{position}] is not a message but {type(message).__name__}")
        checked.append(message)
    if not checked:
        raise ValueError("there are no messages to remember")
    return tuple(checked)
