"""Summaries of what fell out of a conversation, and the size of turns in tokens."""

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns, and measure the turns there are."""
    op.add_column("conversations", sa.Column("summary", sa.Text))
    op.add_column("turns", sa.Column("tokens", sa.Integer, nullable=False, server_default="0"))
    connection = op.get_bind()
    turns = sa.table("turns", *map(sa.column, ("conversation_id", "number", "messages", "tokens")))
    names = connection.execute(sa.select(turns.c.conversation_id).distinct()).scalars().all()
    for name in names:
        of_this = sa.select(turns.c.number, turns.c.messages).where(turns.c.conversation_id == name)
        for number, messages in connection.execute(of_this).all():
            measured = turns.update().where(turns.c.conversation_id == name, turns.c.number == number)
            connection.execute(measured.values(tokens=_tokens(json.loads(messages))))


def _tokens(messages: list[dict[str, Any]]) -> int:
    """As this version estimates them; what later ones make of that, and of a message's form, does not matter here."""
    return sum(_tokens_of(message) for message in messages)


def _tokens_of(message: dict[str, Any]) -> int:
    letters = "".join(_texts(message))
    ascii_only = sum(map(str.isascii, letters))
    return 4 + round(ascii_only / 4.0 + (len(letters) - ascii_only) / 1.5)


def _texts(message: dict[str, Any]) -> Iterator[str]:
    yield from (message.get(name) or "" for name in ("content", "reasoning", "refusal"))
    for call in message.get("tool_calls", ()):
        yield from (call["name"], call.get("arguments", "{}"))
    for result in message.get("results", ()):
        yield result["content"]
