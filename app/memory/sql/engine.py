"""The database: how it is reached, and what its failures are to callers."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.chat import ConfigurationError
from app.memory.errors import MemoryUnavailable

logger = logging.getLogger(__name__)

_TIMEOUT = 10.0
"""Seconds to connect, to wait for a connection, and for one statement."""

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}


class Database:
    """A database by its address.

    Args:
        address: a path such as `data/gateway.db`, `sqlite:///data/gateway.db`, or
            `postgresql://user:password@host:5432/name`.

    Raises:
        ConfigurationError: it is none of these. The message does not repeat it, since it may hold a password.
    """

    def __init__(self, address: str) -> None:
        self._url = _url(address)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self._writing = asyncio.Lock()
        self._engine: AsyncEngine | None = None

    @property
    def engine(self) -> AsyncEngine:
        """The engine, made when it is first asked for."""
        if self._engine is None:
            self._engine = self._sqlite() if self.is_sqlite else self._postgresql()
        return self._engine

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read with.

        Raises:
            MemoryUnavailable: the database does not answer, or what was done with it failed.
        """
        async with _answering(), self.engine.connect() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction, which is committed at the end. Its first statement must write.

        Raises:
            MemoryUnavailable: the database does not answer, or what was done with it failed; nothing of it was done,
                unless the answer to the commit was lost.
        """
        async with _answering():
            if not self.is_sqlite:
                async with self.engine.begin() as connection:
                    yield connection
                return
            async with self._writing, self.engine.begin() as connection:  # SQLite has one writer, and no fair queue
                yield connection

    async def aclose(self) -> None:
        """Close the connections."""
        if self._engine is not None:
            await self._engine.dispose()

    def _sqlite(self) -> AsyncEngine:
        path = Path(self._url.database or "")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"the folder {path.parent} for the memory cannot be made: {error.strerror}"
            ) from None
        engine = create_async_engine(self._url, connect_args={"timeout": _TIMEOUT})
        event.listen(engine.sync_engine, "connect", _prepare)
        event.listen(engine.sync_engine, "begin", _begin)
        return engine

    def _postgresql(self) -> AsyncEngine:
        return create_async_engine(
            self._url,
            pool_pre_ping=True,
            pool_timeout=_TIMEOUT,
            connect_args={"timeout": _TIMEOUT, "command_timeout": _TIMEOUT},
        )


def _url(address: str) -> URL:
    try:
        url = make_url(address if "://" in address else f"sqlite:///{address}")
    except ArgumentError:
        url = None
    driver = None if url is None else _DRIVERS.get(url.drivername)
    if url is None or driver is None or not url.database:
        raise ConfigurationError(
            "the memory's address must be a path, sqlite:///path, postgresql://user:password@host/name or memory://"
        )
    return url.set(drivername=driver)


def _prepare(connection: Any, _: object) -> None:
    """Settings of a new SQLite connection; transactions are begun by `_begin` and not by Python's driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _begin(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN")


@asynccontextmanager
async def _answering() -> AsyncIterator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError, sqlite3.Error) as error:
        logger.warning("the memory's database failed: %s", _name(error))
        raise MemoryUnavailable("the conversation's memory cannot be asked right now; try again in a moment") from error


def _name(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return type(cause).__name__
