"""What falls out of a conversation is summed up before it does."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

from app.chat import GatewayError, Message
from app.memory.chat_memory import ConversationStore, checked_id, checked_messages
from app.memory.errors import ConversationNotFound
from app.memory.growth import joined
from app.memory.turns import ConversationInfo, KeptConversation, Messages, size_of
from app.memory.window import Window

_log = logging.getLogger(__name__)

Summarize: TypeAlias = Callable[[str | None, Messages], Awaitable[str]]
"""Makes one text of the summary so far, None where there is none, and of what was said since."""


class SummarizingMemory:
    """A `ConversationStore` that sums up, in another one, the turns that no longer fit its window.

    They are summed up while an answer is stored, which takes a call to the model; so that it happens rarely, room is
    made for half a window at once. Where the model fails, nothing falls out this time: the store below has to have
    a larger window, beyond which turns leave without a summary.

    Args:
        store: keeps the conversations.
        window: how much of a conversation is kept word by word.
        summarize: makes the summaries.
    """

    def __init__(self, store: ConversationStore, window: Window, summarize: Summarize) -> None:
        self._store = store
        self._window = window
        self._summarize = summarize

    async def start(self) -> None:
        """See `ConversationStore.start`."""
        await self._store.start()

    async def aclose(self) -> None:
        """See `ConversationStore.aclose`."""
        await self._store.aclose()

    async def ping(self) -> None:
        """See `ConversationStore.ping`."""
        await self._store.ping()

    async def get(self, conversation_id: str) -> Messages:
        """See `ChatMemory.get`."""
        return await self._store.get(conversation_id)

    async def append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        """See `ChatMemory.append`."""
        added = checked_messages(messages)
        await self._make_room(checked_id(conversation_id), added)
        await self._store.append(conversation_id, added)

    async def clear(self, conversation_id: str) -> None:
        """See `ChatMemory.clear`."""
        await self._store.clear(conversation_id)

    async def read(self, conversation_id: str) -> KeptConversation:
        """See `ConversationStore.read`."""
        return await self._store.read(conversation_id)

    async def page(self, limit: int, *, before: tuple[datetime, str] | None = None) -> list[ConversationInfo]:
        """See `ConversationStore.page`."""
        return await self._store.page(limit, before=before)

    async def fork(self, conversation_id: str, new_id: str, turn: int | None = None) -> KeptConversation:
        """See `ConversationStore.fork`."""
        return await self._store.fork(conversation_id, new_id, turn)

    async def replace(self, old: KeptConversation, new: KeptConversation) -> bool:
        """See `ConversationStore.replace`."""
        return await self._store.replace(old, new)

    async def prune(self, before: datetime) -> int:
        """See `ConversationStore.prune`."""
        return await self._store.prune(before)

    async def _make_room(self, conversation_id: str, added: Messages) -> None:
        try:
            kept = await self._store.read(conversation_id)
        except ConversationNotFound:
            return
        falling = self._falling(kept, added)
        if not falling:
            return
        said = tuple(message for turn in kept.turns[:falling] for message in turn.messages)
        try:
            summary = await self._summarize(kept.summary, said)
        except GatewayError as error:
            _log.warning("what falls out of a conversation cannot be summed up, and stays: %s", type(error).__name__)
            return
        # Where somebody else has changed it meanwhile, they have made room, or the next turn will.
        await self._store.replace(kept, replace(kept, turns=kept.turns[falling:], summary=summary))

    def _falling(self, kept: KeptConversation, added: Messages) -> int:
        """How many of the oldest turns have to leave, half a window's worth; 0 while all fit."""
        longer = joined(kept, added, datetime.now(UTC))
        sizes, system = [size_of(turn.messages) for turn in longer.turns], size_of(longer.system)
        if self._window.room_for(sizes, system) == len(sizes):
            return 0
        return min(len(sizes) - self._window.times(0.5).room_for(sizes, system), len(kept.turns))
