"""Conversations in this process: gone with it, and unknown to other workers."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

from app.chat import Message, SystemMessage
from app.memory.chat_memory import checked_id, checked_messages
from app.memory.window import window

_log = logging.getLogger(__name__)


class InMemoryChatMemory:
    """A `ChatMemory` for one process, bounded both ways.

    No method waits for anything, so none can be interrupted half-way by another task of the event loop.

    Args:
        max_messages: messages that one conversation keeps, see `app.memory.window`.
        max_conversations: conversations kept; the one not used for the longest time leaves first.

    Raises:
        ValueError: a limit is not positive.
    """

    def __init__(self, max_messages: int = 200, max_conversations: int = 10_000) -> None:
        for name, limit in (("max_messages", max_messages), ("max_conversations", max_conversations)):
            if limit < 1:
                raise ValueError(f"{name} must be positive, got {limit}")
        self._max_messages = max_messages
        self._max_conversations = max_conversations
        self._conversations: OrderedDict[str, tuple[Message, ...]] = OrderedDict()

    async def get(self, conversation_id: str) -> tuple[Message, ...]:
        """See `ChatMemory.get`."""
        known = self._conversations.get(checked_id(conversation_id))
        if known is None:
            return ()
        self._conversations.move_to_end(conversation_id)
        return known

    async def append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        """See `ChatMemory.append`."""
        known = self._conversations.get(checked_id(conversation_id), ())
        added = checked_messages(messages)
        kept = window(known, added, self._max_messages)
        if _has_turns(added) and not _has_turns(kept):
            _log.warning(
                "a turn of %d messages does not fit a memory of %d, the conversation is forgotten: "
                "raise max_messages, or keep the memory outside of the tool loop",
                len(added),
                self._max_messages,
            )
        self._conversations[conversation_id] = kept
        self._conversations.move_to_end(conversation_id)
        if len(self._conversations) > self._max_conversations:
            self._conversations.popitem(last=False)

    async def clear(self, conversation_id: str) -> None:
        """See `ChatMemory.clear`."""
        self._conversations.pop(checked_id(conversation_id), None)

    async def conversation_ids(self) -> tuple[str, ...]:
        """The conversations there are, the one used last at the end."""
        return tuple(self._conversations)


def _has_turns(messages: Sequence[Message]) -> bool:
    return not all(isinstance(message, SystemMessage) for message in messages)
