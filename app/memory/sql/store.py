"""Conversations in a database. See `ConversationStore`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, case, delete, func, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.chat import Message, SystemMessage
from app.chat.storing import from_stored, to_stored
from app.memory.chat_memory import can_be_id, checked_id, checked_messages
from app.memory.errors import ConversationExists, ConversationNotFound
from app.memory.growth import forked, grown
from app.memory.sql.engine import Database
from app.memory.sql.schema import check_schema, migrate
from app.memory.sql.tables import conversations, turns
from app.memory.turns import ConversationInfo, KeptConversation, Size, Turn
from app.memory.window import Window

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_AT_ONCE = 200
"""Conversations that are forgotten in one transaction."""


class SqlChatMemory:
    """A `ConversationStore` in a database.

    Args:
        database: SQLite or PostgreSQL.
        window: how much of a conversation is kept.
    """

    def __init__(self, database: Database, window: Window | None = None) -> None:
        self._database = database
        self._window = window or Window()

    async def start(self) -> None:
        """See `ConversationStore.start`. A SQLite file is made, and brought up to date."""
        if self._database.is_sqlite:
            await migrate(self._database)
        else:
            await check_schema(self._database)

    async def aclose(self) -> None:
        """See `ConversationStore.aclose`."""
        await self._database.aclose()

    async def ping(self) -> None:
        """See `ConversationStore.ping`."""
        await self._database.read(lambda connection: connection.execute(select(1)))

    async def get(self, conversation_id: str) -> tuple[Message, ...]:
        """See `ChatMemory.get`."""
        name = checked_id(conversation_id)
        kept = await self._database.read(lambda connection: _kept(connection, name))
        return kept.messages if kept else ()

    async def append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        """See `ChatMemory.append`."""
        name, added = checked_id(conversation_id), checked_messages(messages)

        async def work(connection: AsyncConnection) -> None:
            await self._hold(connection, name)
            known = await _found(connection, name, whole=False)
            now = max(datetime.now(UTC), known.updated_at)  # the clock of another replica may be before ours
            await _change(connection, known, grown(known, added, self._window, now))

        await self._database.write(work)

    async def clear(self, conversation_id: str) -> None:
        """See `ChatMemory.clear`."""
        gone = delete(conversations).where(conversations.c.id == checked_id(conversation_id))
        await self._database.write(lambda connection: connection.execute(gone))

    async def read(self, conversation_id: str) -> KeptConversation:
        """See `ConversationStore.read`."""
        return await self._database.read(lambda connection: _found(connection, conversation_id))

    async def page(self, limit: int, *, before: tuple[datetime, str] | None = None) -> list[ConversationInfo]:
        """See `ConversationStore.page`."""
        columns = conversations.c
        count = select(func.count()).where(turns.c.conversation_id == columns.id).scalar_subquery()
        newest = (
            select(columns.id, columns.created_at, columns.updated_at, count)
            .order_by(columns.updated_at.desc(), columns.id.desc())
            .limit(limit)
        )
        if before is not None:
            newest = newest.where(tuple_(columns.updated_at, columns.id) < (_micros(before[0]), before[1]))
        rows = (await self._database.read(lambda connection: connection.execute(newest))).all()
        return [ConversationInfo(name, _time(created), _time(updated), count) for name, created, updated, count in rows]

    async def fork(self, conversation_id: str, new_id: str, turn: int | None = None) -> KeptConversation:
        """See `ConversationStore.fork`."""
        name = checked_id(new_id)

        async def work(connection: AsyncConnection) -> KeptConversation:
            copy = forked(await _found(connection, conversation_id), name, turn, datetime.now(UTC))
            try:
                await connection.execute(insert(conversations).values(**_row(copy)))
            except IntegrityError:
                raise ConversationExists(f"there is a conversation {name!r} already") from None
            await _change(connection, replace(copy, turns=()), copy)
            return copy

        return await self._database.write(work)

    async def replace(self, old: KeptConversation, new: KeptConversation) -> bool:
        """See `ConversationStore.replace`."""
        held = select(conversations.c.id).where(conversations.c.id == old.id).with_for_update()

        async def work(connection: AsyncConnection) -> bool:
            await connection.execute(held)
            if await _kept(connection, old.id) != old:
                return False
            await _change(connection, old, new)
            return True

        return await self._database.write(work)

    async def prune(self, before: datetime) -> int:
        """See `ConversationStore.prune`. In parts, so that nobody who writes waits for long."""
        is_old = conversations.c.updated_at < _micros(before)
        some = select(conversations.c.id).where(is_old).limit(_AT_ONCE)
        # The age is asked for again, as somebody may have added to one while this waited for it.
        gone = delete(conversations).where(conversations.c.id.in_(some), is_old)
        pruned = 0
        while count := (await self._database.write(lambda connection: connection.execute(gone))).rowcount:
            pruned += count
        return pruned

    async def _hold(self, connection: AsyncConnection, conversation_id: str) -> None:
        """See to it that the conversation has a row, and that nobody else changes it before we are done."""
        dialect = sqlite if self._database.is_sqlite else postgresql
        now = datetime.now(UTC)
        row = dialect.insert(conversations).values(**_row(KeptConversation(conversation_id, now, now)))
        same = {"last_turn": conversations.c.last_turn}
        await connection.execute(row.on_conflict_do_update(index_elements=["id"], set_=same))


async def _kept(connection: AsyncConnection, conversation_id: str, *, whole: bool = True) -> KeptConversation | None:
    """What is kept of a conversation, by one statement, so that it is of one moment.

    Args:
        connection: to the database.
        conversation_id: which.
        whole: with all messages; else with those of the last turn alone, which is all it takes to make it grow.
    """
    is_last = turns.c.number == conversations.c.last_turn
    messages = turns.c.messages if whole else case((is_last, turns.c.messages)).label("messages")
    stored_at = turns.c.created_at.label("stored_at")
    chosen = (
        select(conversations, turns.c.number, stored_at, turns.c.message_count, turns.c.tokens, messages)
        .outerjoin(turns, turns.c.conversation_id == conversations.c.id)
        .where(conversations.c.id == conversation_id)
        .order_by(turns.c.number)
    )
    rows = (await connection.execute(chosen)).all()
    if not rows:
        return None
    first = rows[0]
    return KeptConversation(
        id=conversation_id,
        created_at=_time(first.created_at),
        updated_at=_time(first.updated_at),
        system=_messages(tuple[SystemMessage, ...], first.system),
        turns=tuple(_turn(row) for row in rows if row.number is not None),
        summary=None if first.summary is None else json.loads(first.summary),
        last_turn=first.last_turn,
    )


async def _found(connection: AsyncConnection, conversation_id: str, *, whole: bool = True) -> KeptConversation:
    kept = await _kept(connection, conversation_id, whole=whole) if can_be_id(conversation_id) else None
    if kept is None:
        raise ConversationNotFound(f"there is no conversation {conversation_id!r}")
    return kept


async def _change(connection: AsyncConnection, old: KeptConversation, new: KeptConversation) -> None:
    """Write what has changed."""
    before = {turn.number: turn for turn in old.turns}
    after = {turn.number: turn for turn in new.turns}
    stale = [number for number, turn in before.items() if after.get(number) != turn]
    fresh = [_turn_row(new.id, turn) for number, turn in after.items() if before.get(number) != turn]
    if stale:
        gone = delete(turns).where(turns.c.conversation_id == new.id, turns.c.number.in_(stale))
        await connection.execute(gone)
    if fresh:
        await connection.execute(insert(turns), fresh)
    await connection.execute(update(conversations).where(conversations.c.id == new.id).values(**_row(new)))


def _row(kept: KeptConversation) -> dict[str, Any]:
    return {
        "id": kept.id,
        "system": _text(kept.system),
        "summary": None if kept.summary is None else json.dumps(kept.summary),
        "last_turn": kept.last_turn,
        "created_at": _micros(kept.created_at),
        "updated_at": _micros(kept.updated_at),
    }


def _turn_row(conversation_id: str, turn: Turn) -> dict[str, Any]:
    return {
        "conversation_id": conversation_id,
        "number": turn.number,
        "created_at": _micros(turn.created_at),
        "messages": _text(turn.messages),
        "message_count": turn.size.messages,
        "tokens": turn.size.tokens,
    }


def _turn(row: Row[Any]) -> Turn:
    said = () if row.messages is None else _messages(tuple[Message, ...], row.messages)
    return Turn(row.number, _time(row.stored_at), said, Size(row.message_count, row.tokens))


def _text(messages: Sequence[Message]) -> str:
    return json.dumps(to_stored(messages), separators=(",", ":"))


def _messages(hint: Any, text: str) -> Any:
    return from_stored(hint, json.loads(text))


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _time(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
