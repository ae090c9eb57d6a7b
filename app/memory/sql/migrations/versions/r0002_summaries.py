"""Summaries of what fell out of a conversation, and the size of turns in tokens."""

import json

import sqlalchemy as sa
from alembic import op

from app.chat import Message
from app.chat.storing import from_stored
from app.memory.turns import size_of

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns, and measure the turns there are."""
    op.add_column("conversations", sa.Column("summary", sa.Text))
    op.add_column("turns", sa.Column("tokens", sa.Integer, nullable=False, server_default="0"))
    connection = op.get_bind()
    names = ("conversation_id", "number", "messages", "tokens")
    turns = sa.table("turns", *map(sa.column, names))
    stored = sa.select(turns.c.conversation_id, turns.c.number, turns.c.messages)
    for conversation_id, number, messages in connection.execute(stored).all():
        size = size_of(from_stored(tuple[Message, ...], json.loads(messages)))
        this = (turns.c.conversation_id == conversation_id) & (turns.c.number == number)
        connection.execute(turns.update().where(this).values(tokens=size.tokens))
