"""Conversations in a database: one SQLite file, or PostgreSQL for several replicas. Both by the same code."""

from app.memory.sql.engine import Database
from app.memory.sql.schema import migrate
from app.memory.sql.store import SqlChatMemory

__all__ = ["Database", "SqlChatMemory", "migrate"]
