"""Bringing a database up to date, by Alembic."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from app.chat import ConfigurationError
from app.memory.sql.engine import Database

_MIGRATIONS = Path(__file__).parent / "migrations"

_LOCK = 7_201_964_115
"""The PostgreSQL advisory lock that whoever migrates holds, so that several replicas may try at once."""


async def migrate(database: Database, revision: str = "head") -> str:
    """Bring the tables up to date.

    Args:
        database: which.
        revision: up to where; for tests.

    Returns:
        The revision that it has then.

    Raises:
        MemoryUnavailable: the database does not answer.
    """
    async with database.writing() as connection:
        if not database.is_sqlite:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        return await connection.run_sync(_upgrade, revision)


async def check_schema(database: Database) -> None:
    """See to it that the tables are up to date.

    Raises:
        ConfigurationError: they are not; the message says what to run.
        MemoryUnavailable: the database does not answer.
    """
    async with database.reading() as connection:
        found = await connection.run_sync(_revision)
    wanted = ScriptDirectory.from_config(_config()).get_current_head()
    if found != wanted:
        raise ConfigurationError(
            f"the memory's database has the schema {found or 'of nobody'}, and this version needs {wanted}: "
            "run python -m app migrate"
        )


def _upgrade(connection: Connection, revision: str) -> str:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    return _revision(connection) or ""


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config
