"""Conversations in a database. See `ConversationStore`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select
from sqlalchemy.exc import IntegrityError

from app.chat import Message, SystemMessage
from app.chat.storing import from_stored, to_stored
from app.memory.chat_memory import can_be_id, checked_id, checked_messages
from app.memory.errors import ConversationExists, ConversationNotFound
from app.memory.growth import forked, grown
from app.memory.sql import statements
from app.memory.sql.engine import Database
from app.memory.sql.schema import check_schema, migrate
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
        await self._database.read(lambda connection: connection.execute(statements.PING).all())

    async def get(self, conversation_id: str) -> tuple[Message, ...]:
        """See `ChatMemory.get`."""
        name = checked_id(conversation_id)
        kept = await self._database.read(lambda connection: _kept(connection, name))
        return kept.messages if kept else ()

    async def append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        """See `ChatMemory.append`."""
        name, added = checked_id(conversation_id), checked_messages(messages)

        def work(connection: Connection) -> None:
            now = datetime.now(UTC)
            begun = KeptConversation(name, now, now)
            if not self._database.is_sqlite:  # where nobody else writes before this is done
                connection.execute(statements.HELD_OR_BEGUN, _row(begun))
            known = _kept(connection, name, statements.KEPT_WITH_LAST_MESSAGES)
            if known is None:
                connection.execute(statements.BEGUN, _row(begun))
                known = begun
            now = max(now, known.updated_at)  # the clock of another replica may be before ours
            _change(connection, known, grown(known, added, self._window, now))

        await self._database.write(work)

    async def clear(self, conversation_id: str) -> None:
        """See `ChatMemory.clear`."""
        name = checked_id(conversation_id)
        await self._database.write(lambda connection: connection.execute(statements.CLEARED, {"name": name}))

    async def read(self, conversation_id: str) -> KeptConversation:
        """See `ConversationStore.read`."""
        return await self._database.read(lambda connection: _found(connection, conversation_id))

    async def page(self, limit: int, *, before: tuple[datetime, str] | None = None) -> list[ConversationInfo]:
        """See `ConversationStore.page`."""
        given: dict[str, Any] = {"limit": limit}
        if before is not None:
            given |= {"time": _micros(before[0]), "name": before[1]}
        page = statements.PAGE if before is None else statements.PAGE_BEFORE
        rows = await self._database.read(lambda connection: connection.execute(page, given).all())
        return [ConversationInfo(name, _time(created), _time(updated), count) for name, created, updated, count in rows]

    async def fork(self, conversation_id: str, new_id: str, turn: int | None = None) -> KeptConversation:
        """See `ConversationStore.fork`."""
        name = checked_id(new_id)

        def work(connection: Connection) -> KeptConversation:
            copy = forked(_found(connection, conversation_id), name, turn, datetime.now(UTC))
            try:
                connection.execute(statements.BEGUN, _row(copy))
            except IntegrityError:
                raise ConversationExists(f"there is a conversation {name!r} already") from None
            _change(connection, replace(copy, turns=()), copy)
            return copy

        return await self._database.write(work)

    async def replace(self, old: KeptConversation, new: KeptConversation) -> bool:
        """See `ConversationStore.replace`."""

        def work(connection: Connection) -> bool:
            connection.execute(statements.HELD, {"name": old.id})
            if _kept(connection, old.id) != old:
                return False
            _change(connection, old, new)
            return True

        return await self._database.write(work)

    async def prune(self, before: datetime) -> int:
        """See `ConversationStore.prune`. In parts, so that nobody who writes waits for long."""
        given = {"before": _micros(before), "limit": _AT_ONCE}
        pruned = 0
        while count := await self._database.write(
            lambda connection: connection.execute(statements.PRUNED, given).rowcount
        ):
            pruned += count
        return pruned


def _kept(
    connection: Connection, conversation_id: str, statement: Select[Any] = statements.KEPT
) -> KeptConversation | None:
    """What is kept of a conversation, None where there is none."""
    rows = connection.execute(statement, {"name": conversation_id}).all()
    if not rows:
        return None
    first = rows[0]
    return KeptConversation(
        id=conversation_id,
        created_at=_time(first.created_at),
        updated_at=_time(first.updated_at),
        system=_messages(tuple[SystemMessage, ...], first.system),
        turns=tuple(_turn(*row[:5]) for row in rows if row[0] is not None),
        summary=None if first.summary is None else json.loads(first.summary),
        last_turn=first.last_turn,
    )


def _found(connection: Connection, conversation_id: str) -> KeptConversation:
    kept = _kept(connection, conversation_id) if can_be_id(conversation_id) else None
    if kept is None:
        raise ConversationNotFound(f"there is no conversation {conversation_id!r}")
    return kept


def _change(connection: Connection, old: KeptConversation, new: KeptConversation) -> None:
    """Write what has changed."""
    before = {turn.number: turn for turn in old.turns}
    # Most are the very same, and need not be compared word by word.
    same = {turn.number for turn in new.turns if turn is (was := before.get(turn.number)) or turn == was}
    stale = [number for number in before if number not in same]
    fresh = [_turn_row(new.id, turn) for turn in new.turns if turn.number not in same]
    if stale:
        connection.execute(statements.TURNS_GONE, {"name": new.id, "numbers": stale})
    if fresh:
        connection.execute(statements.TURNS_ADDED, fresh)
    connection.execute(statements.CHANGED, {"name": new.id, **_row(new)})


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


def _turn(number: int, stored_at: int, messages: str | None, message_count: int, tokens: int) -> Turn:
    said = () if messages is None else _messages(tuple[Message, ...], messages)
    return Turn(number, _time(stored_at), said, Size(message_count, tokens))


def _text(messages: Sequence[Message]) -> str:
    return json.dumps(to_stored(messages), separators=(",", ":"))


def _messages(hint: Any, text: str) -> Any:
    return from_stored(hint, json.loads(text))


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _time(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
