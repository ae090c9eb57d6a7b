"""The tables. Their changes are in `migrations`; a turn is one row, so that it cannot be half there."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, MetaData, Table, Text

metadata = MetaData()

conversations = Table(
    "conversations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("system", Text, nullable=False),
    Column("summary", Text),
    Column("last_turn", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("conversations_by_age", "updated_at", "id"),
)
"""Times are microseconds since 1970 in UTC, texts with several messages are JSON in ASCII."""

turns = Table(
    "turns",
    metadata,
    Column("conversation_id", Text, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("created_at", BigInteger, nullable=False),
    Column("messages", Text, nullable=False),
    Column("message_count", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
)
