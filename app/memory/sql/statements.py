"""The store's statements, made once: to put one together takes longer than to execute it.

The id of the conversation that one is about is its parameter `name`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, case, delete, func, insert, select, text, tuple_, update

from app.memory.sql.tables import conversations, turns

_IS_NAMED = conversations.c.id == bindparam("name")


def _kept(messages: ColumnElement[Any]) -> Select[Any]:
    """Reads a conversation by one statement, so that it is of one moment: a row for each turn, at least one.

    Five columns are of the turn, and empty where there is none; the others are of the conversation.
    """
    stored_at = turns.c.created_at.label("stored_at")
    return (
        select(turns.c.number, stored_at, messages, turns.c.message_count, turns.c.tokens, conversations)
        .select_from(conversations)
        .outerjoin(turns, turns.c.conversation_id == conversations.c.id)
        .where(_IS_NAMED)
        .order_by(turns.c.number)
    )


PING = select(1)

KEPT = _kept(turns.c.messages)
"""All of a conversation."""

KEPT_WITH_LAST_MESSAGES = _kept(case((turns.c.number == conversations.c.last_turn, turns.c.messages)).label("messages"))
"""The same with the messages of its last turn alone, which is all it takes to make it grow."""

HELD = select(conversations.c.id).where(_IS_NAMED).with_for_update()
"""Nobody else changes the conversation, if there is one, before the transaction ends. In SQLite nobody does anyway."""

HELD_OR_BEGUN = text(
    "INSERT INTO conversations (id, system, summary, last_turn, created_at, updated_at) "
    "VALUES (:id, :system, :summary, :last_turn, :created_at, :updated_at) "
    "ON CONFLICT (id) DO UPDATE SET last_turn = conversations.last_turn"
)
"""The same for one that has to be there afterwards. Its parameters are a row."""

BEGUN = insert(conversations)
"""Its parameters are a row."""

CHANGED = update(conversations).where(_IS_NAMED)
"""Its parameters are a row, too."""

CLEARED = delete(conversations).where(_IS_NAMED)

TURNS_ADDED = insert(turns)
"""Its parameters are rows."""

TURNS_GONE = delete(turns).where(
    turns.c.conversation_id == bindparam("name"), turns.c.number.in_(bindparam("numbers", expanding=True))
)

PAGE = (
    select(
        conversations.c.id,
        conversations.c.created_at,
        conversations.c.updated_at,
        select(func.count()).where(turns.c.conversation_id == conversations.c.id).scalar_subquery(),
    )
    .order_by(conversations.c.updated_at.desc(), conversations.c.id.desc())
    .limit(bindparam("limit"))
)

PAGE_BEFORE = PAGE.where(
    tuple_(conversations.c.updated_at, conversations.c.id) < tuple_(bindparam("time"), bindparam("name"))
)
"""The same for those that were added to before a time, or then, and whose ids are before one."""

_IS_OLD = conversations.c.updated_at < bindparam("before")

# The age is asked for again, as somebody may have added to one while this waited for it.
PRUNED = delete(conversations).where(
    conversations.c.id.in_(select(conversations.c.id).where(_IS_OLD).limit(bindparam("limit"))), _IS_OLD
)
