"""Conversations in this process: gone with it, and unknown to other workers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime

from app.chat import Message
from app.memory.chat_memory import checked_id, checked_messages
from app.memory.errors import ConversationExists, ConversationNotFound
from app.memory.growth import forked, grown
from app.memory.turns import ConversationInfo, KeptConversation
from app.memory.window import Window


class InMemoryChatMemory:
    """A `ConversationStore` for one process, bounded both ways.

    No method waits for anything, so none can be interrupted half-way by another task of the event loop.

    Args:
        max_messages: messages that one conversation keeps, see `app.memory.window`.
        max_conversations: conversations kept; the one not used for the longest time leaves first.
        max_tokens: tokens, by estimate, that one conversation keeps; None = any number.

    Raises:
        ValueError: a limit is not positive.
    """

    def __init__(self, max_messages: int = 200, max_conversations: int = 10_000, max_tokens: int | None = None) -> None:
        self._window = Window(max_messages, max_tokens)
        if max_conversations < 1:
            raise ValueError(f"max_conversations must be positive, got {max_conversations}")
        self._max_conversations = max_conversations
        self._conversations: OrderedDict[str, KeptConversation] = OrderedDict()

    async def start(self) -> None:
        """See `ConversationStore.start`."""

    async def aclose(self) -> None:
        """See `ConversationStore.aclose`."""

    async def ping(self) -> None:
        """See `ConversationStore.ping`."""

    async def get(self, conversation_id: str) -> tuple[Message, ...]:
        """See `ChatMemory.get`."""
        known = self._conversations.get(checked_id(conversation_id))
        if known is None:
            return ()
        self._conversations.move_to_end(conversation_id)
        return known.messages

    async def append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        """See `ChatMemory.append`."""
        now = datetime.now(UTC)
        known = self._conversations.get(checked_id(conversation_id)) or KeptConversation(conversation_id, now, now)
        self._keep(grown(known, checked_messages(messages), self._window, max(now, known.updated_at)))

    async def clear(self, conversation_id: str) -> None:
        """See `ChatMemory.clear`."""
        self._conversations.pop(checked_id(conversation_id), None)

    async def conversation_ids(self) -> tuple[str, ...]:
        """The conversations there are, the one used last at the end."""
        return tuple(self._conversations)

    async def read(self, conversation_id: str) -> KeptConversation:
        """See `ConversationStore.read`."""
        known = self._conversations.get(conversation_id)
        if known is None:
            raise ConversationNotFound(f"there is no conversation {conversation_id!r}")
        return known

    async def page(self, limit: int, *, before: tuple[datetime, str] | None = None) -> list[ConversationInfo]:
        """See `ConversationStore.page`."""
        order = sorted(((one.updated_at, one.id) for one in self._conversations.values()), reverse=True)
        names = [name for updated_at, name in order if before is None or (updated_at, name) < before]
        found = [self._conversations[name] for name in names[:limit]]
        return [ConversationInfo(one.id, one.created_at, one.updated_at, len(one.turns)) for one in found]

    async def fork(self, conversation_id: str, new_id: str, turn: int | None = None) -> KeptConversation:
        """See `ConversationStore.fork`."""
        copy = forked(await self.read(conversation_id), checked_id(new_id), turn, datetime.now(UTC))
        if new_id in self._conversations:
            raise ConversationExists(f"there is a conversation {new_id!r} already")
        self._keep(copy)
        return copy

    async def replace(self, old: KeptConversation, new: KeptConversation) -> bool:
        """See `ConversationStore.replace`."""
        if self._conversations.get(old.id) != old:
            return False
        self._conversations[old.id] = new
        return True

    async def prune(self, before: datetime) -> int:
        """See `ConversationStore.prune`."""
        old = [name for name, one in self._conversations.items() if one.updated_at < before]
        for name in old:
            del self._conversations[name]
        return len(old)

    def _keep(self, conversation: KeptConversation) -> None:
        self._conversations[conversation.id] = conversation
        self._conversations.move_to_end(conversation.id)
        if len(self._conversations) > self._max_conversations:
            self._conversations.popitem(last=False)
