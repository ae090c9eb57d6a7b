"""The file of a SQLite database, looked at without anything that takes long to load."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from app.chat import ConfigurationError

LATEST = "0002"
"""The revision of the tables that this version needs: the last one in `app/memory/sql/migrations`."""


def connected(path: Path, timeout: float) -> sqlite3.Connection:
    """A connection to the file, which is made where there is none, with its folder.

    It is for one thread at a time, whichever, and transactions are begun by whoever uses it.

    Args:
        path: the file.
        timeout: seconds to wait for others who write.

    Raises:
        ConfigurationError: the folder cannot be made.
        sqlite3.Error: the file cannot be used.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # what users said is not for everyone here
    except OSError as error:
        raise ConfigurationError(
            f"the folder {path.parent} for the memory cannot be made: {error.strerror} (see GATEWAY_MEMORY__URL)"
        ) from None
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def is_ready(path: Path, timeout: float) -> bool:
    """Whether the file can be used as it is: its tables are those of this version, or it is new and has none yet.

    Where it is not, whoever opens it for good finds out what is wrong.

    Args:
        path: the file, which is made where there is none.
        timeout: seconds to wait for others who write.

    Raises:
        ConfigurationError: its folder cannot be made.
    """
    try:
        with closing(connected(path, timeout)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables:
                return True
            found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    except sqlite3.Error:
        return False
    return found == [(LATEST,)]
