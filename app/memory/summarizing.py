"""What falls out of a conversation is summed up before it does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

from app.chat import GatewayError, Message, SystemMessage, UserMessage
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
    made for half a window at once. Where that fails or takes too long, nothing falls out this time, and the next turn
    tries again: the store below has to have a larger window, beyond which turns leave without a summary.

    Args:
        store: keeps the conversations.
        window: how much of a conversation is kept word by word; the summary comes on top.
        summarize: makes the summaries.
        patience: seconds that one may take, which whoever waits for the answer waits too.
    """

    def __init__(
        self, store: ConversationStore, window: Window, summarize: Summarize, *, patience: float = 60.0
    ) -> None:
        self._store = store
        self._window = window
        self._summarize = summarize
        self._patience = patience

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
        summary = await self._summary(kept.summary, said)
        if summary is not None:
            # Where somebody else has changed it meanwhile, they have made room, or the next turn will.
            await self._store.replace(kept, replace(kept, turns=kept.turns[falling:], summary=summary))

    async def _summary(self, summary: str | None, said: Messages) -> str | None:
        """The new summary, None where there is none: an answer is not to be lost for the want of it."""
        try:
            async with asyncio.timeout(self._patience):
                made = await self._summarize(summary, said)
        except (GatewayError, TimeoutError) as error:
            _log.warning("what falls out of a conversation cannot be summed up, and stays: %s", type(error).__name__)
        except Exception:  # noqa: BLE001 - it is logged whole, and the turn is kept
            _log.exception("what falls out of a conversation cannot be summed up, and stays")
        else:
            if made.strip():
                return made
            _log.warning("what falls out of a conversation is summed up in no word, and stays")
        return None

    def _falling(self, kept: KeptConversation, added: Messages) -> int:
        """How many of the oldest turns have to leave, half a window's worth; 0 while all fit."""
        longer = joined(kept, added, datetime.now(UTC))
        sizes, system = [turn.size for turn in longer.turns], size_of(longer.system)
        if self._window.room_for(sizes, system) == len(sizes):
            return 0
        # A turn whose end is added now is not to leave without it.
        first = next((message for message in added if not isinstance(message, SystemMessage)), None)
        may_leave = len(kept.turns) if isinstance(first, UserMessage) else len(kept.turns) - 1
        return max(0, min(len(sizes) - self._window.times(0.5).room_for(sizes, system), may_leave))
