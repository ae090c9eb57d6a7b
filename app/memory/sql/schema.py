"""Bringing a database up to date, by Alembic, which is loaded where there is something for it to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from app.chat import ConfigurationError
from app.memory.errors import MemoryUnavailable
from app.memory.sql.engine import Database
from app.memory.sqlite_file import LATEST

if TYPE_CHECKING:
    from alembic.config import Config

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
        ConfigurationError: the database cannot be used, or is of a later version; the message says why.
    """
    found = await _found(database)
    wanted = LATEST if revision == "head" else revision
    if found == wanted:
        return found

    def upgrade(connection: Connection) -> None:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        _upgrade(connection, revision)

    try:
        await database.migrate(upgrade)
    except MemoryUnavailable as error:
        raise _unusable(database, error) from None
    return wanted


async def check_schema(database: Database) -> None:
    """See to it that the tables are up to date.

    Raises:
        ConfigurationError: they are not, and the message says what to run; or the database cannot be used.
    """
    found, wanted = await _found(database), LATEST
    if found != wanted:
        there = f"the tables of {found}" if found else "no tables yet"
        raise ConfigurationError(
            f"the memory's database has {there}, and this version needs those of {wanted}: run python -m app migrate"
        )


async def _found(database: Database) -> str | None:
    """The revision that the tables have, None where there are none."""
    try:
        found = await database.read(_revision)
    except MemoryUnavailable as error:
        raise _unusable(database, error) from None
    if found not in {None, LATEST} and found not in _known_revisions():
        raise ConfigurationError(
            f"the memory's database has the tables of {found}, which a later version of the gateway has made: "
            "run that version"
        )
    return found


def _unusable(database: Database, error: MemoryUnavailable) -> ConfigurationError:
    what = "database" if database.path is None else f"file {database.path}"
    return ConfigurationError(f"the memory's {what} cannot be used: {error.reason} (see GATEWAY_MEMORY__URL)")


def _upgrade(connection: Connection, revision: str) -> None:
    from alembic import command  # noqa: PLC0415 - see the module's docstring

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _known_revisions() -> set[str]:
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see the module's docstring

    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def _config() -> Config:
    from alembic.config import Config  # noqa: PLC0415 - see the module's docstring

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config
