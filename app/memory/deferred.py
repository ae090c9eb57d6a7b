"""Conversations in a store that is opened when somebody first wants one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from app.chat import ConfigurationError, Message
from app.memory.chat_memory import ConversationStore
from app.memory.errors import MemoryUnavailable
from app.memory.sqlite_file import is_ready
from app.memory.turns import ConversationInfo, KeptConversation

_TIMEOUT = 10.0


class DeferredMemory:
    """A `ConversationStore` in a SQLite file, of which the file is looked at when the gateway starts, and no more.

    What opens it for good takes half a second to load and as much memory as the rest of the gateway has, and many
    gateways never remember anything. A file that has to be brought up to date, or cannot be used, is opened at once.

    Args:
        path: the file.
        make: makes the store, in a thread; it is started here.
    """

    def __init__(self, path: str, make: Callable[[], ConversationStore]) -> None:
        self._path = Path(path)
        self._make = make
        self._store: ConversationStore | None = None
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        """See `ConversationStore.start`. A file is made where there is none."""
        if not await asyncio.to_thread(is_ready, self._path, _TIMEOUT):
            await self._open()

    async def aclose(self) -> None:
        """See `ConversationStore.aclose`."""
        store, self._store = self._store, None
        self._opening = asyncio.Lock()
        if store is not None:
            await store.aclose()

    async def ping(self) -> None:
        """See `ConversationStore.ping`."""
        await (await self._opened()).ping()

    async def get(self, conversation_id: str) -> tuple[Message, ...]:
        """See `ChatMemory.get`."""
        return await (await self._opened()).get(conversation_id)

    async def append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        """See `ChatMemory.append`."""
        await (await self._opened()).append(conversation_id, messages)

    async def clear(self, conversation_id: str) -> None:
        """See `ChatMemory.clear`."""
        await (await self._opened()).clear(conversation_id)

    async def read(self, conversation_id: str) -> KeptConversation:
        """See `ConversationStore.read`."""
        return await (await self._opened()).read(conversation_id)

    async def page(self, limit: int, *, before: tuple[datetime, str] | None = None) -> list[ConversationInfo]:
        """See `ConversationStore.page`."""
        return await (await self._opened()).page(limit, before=before)

    async def fork(self, conversation_id: str, new_id: str, turn: int | None = None) -> KeptConversation:
        """See `ConversationStore.fork`."""
        return await (await self._opened()).fork(conversation_id, new_id, turn)

    async def replace(self, old: KeptConversation, new: KeptConversation) -> bool:
        """See `ConversationStore.replace`."""
        return await (await self._opened()).replace(old, new)

    async def prune(self, before: datetime) -> int:
        """See `ConversationStore.prune`."""
        return await (await self._opened()).prune(before)

    async def _opened(self) -> ConversationStore:
        if self._store is not None:
            return self._store
        try:
            return await self._open()
        except ConfigurationError as error:  # it could be used when the gateway started
            raise MemoryUnavailable(str(error)) from None

    async def _open(self) -> ConversationStore:
        async with self._opening:
            if self._store is None:
                store = await asyncio.to_thread(self._make)
                try:
                    await store.start()
                except BaseException:
                    await store.aclose()
                    raise
                self._store = store
            return self._store
