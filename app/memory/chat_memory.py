"""What every store of conversations promises, and the checks that all of them make alike.

Differs from Spring AI: a store takes a turn whole and joins it to what it holds; there is no saving of a whole
conversation over another, with which the slower of two writers would erase the other's turn (195).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from app.chat import Message
from app.chat.text import well_formed_text
from app.memory.turns import ConversationInfo, KeptConversation


class ChatMemory(Protocol):
    """Remembers conversations by their ids."""

    async def get(self, conversation_id: str) -> tuple[Message, ...]:
        """What is remembered: system messages first, then the turns, oldest first. Empty for an unknown id.

        Raises:
            TypeError: the id is not a text.
            ValueError: the id is blank, or holds what no store can keep.
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
            ValueError: the id is blank or holds what no store can keep, or there are no messages.
        """

    async def clear(self, conversation_id: str) -> None:
        """Forget the conversation; one that is not known is forgotten already.

        Raises:
            TypeError: the id is not a text.
            ValueError: the id is blank, or holds what no store can keep.
        """


@runtime_checkable
class ConversationStore(ChatMemory, Protocol):
    """A `ChatMemory` whose conversations can be looked at, copied and aged. All of the gateway's own are.

    Every method, those of `ChatMemory` included, raises `MemoryUnavailable` where the store cannot be asked.
    """

    async def start(self) -> None:
        """Get ready to remember.

        Raises:
            ConfigurationError: it cannot; the message says why.
        """

    async def aclose(self) -> None:
        """Give back what the store holds."""

    async def ping(self) -> None:
        """See whether the store can be asked."""

    async def read(self, conversation_id: str) -> KeptConversation:
        """All that is kept of a conversation.

        Raises:
            ConversationNotFound: there is none.
        """

    async def page(self, limit: int, *, before: tuple[datetime, str] | None = None) -> list[ConversationInfo]:
        """Conversations, the one that was added to last first.

        Args:
            limit: how many at most.
            before: the `updated_at` and the id of the last one of the page before.
        """

    async def fork(self, conversation_id: str, new_id: str, turn: int | None = None) -> KeptConversation:
        """Begin another conversation with what was said in one.

        Args:
            conversation_id: what is copied.
            new_id: the new conversation's id.
            turn: the number of the last turn that is copied; None = all are.

        Raises:
            ConversationNotFound: there is none.
            ConversationExists: there is one of the new id.
            TurnNotFound: it has no turn of that number, or no longer.
        """

    async def replace(self, old: KeptConversation, new: KeptConversation) -> bool:
        """Write a conversation anew, unless it was changed since it was read.

        Args:
            old: as it was read.
            new: as it is to be.

        Returns:
            Whether it was written.
        """

    async def prune(self, before: datetime) -> int:
        """Forget conversations that were not added to since.

        Returns:
            How many there were.
        """


def can_be_id(text: str) -> bool:
    """Whether the text can name a conversation in every store: databases take neither NUL nor half a character."""
    return bool(text.strip()) and "\0" not in text and well_formed_text(text) == text


def checked_id(conversation_id: str) -> str:
    """The id, if it can name a conversation.

    Raises:
        TypeError: it is not a text.
        ValueError: it is blank, which would be one conversation shared by all who give none, or no store could keep it.
    """
    given: object = conversation_id
    if not isinstance(given, str):
        raise TypeError(f"a conversation id is a text, got {type(given).__name__}")
    if not given.strip():
        raise ValueError("a conversation id must not be blank")
    if not can_be_id(given):
        raise ValueError("a conversation id must not hold NUL or half a character")
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
