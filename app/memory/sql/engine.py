"""The database: how it is reached, and what its failures are to callers."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, NullPool, event
from sqlalchemy.exc import SQLAlchemyError, StatementError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.chat import ConfigurationError
from app.memory.errors import MemoryUnavailable
from app.memory.sql.address import postgresql_address, sqlite_path

logger = logging.getLogger(__name__)

_TIMEOUT = 10.0
_MIGRATING = 60.0
"""Seconds to wait for another process that brings the same file up to date."""

_WRITES = {"begin": "IMMEDIATE"}
"""Of a transaction in SQLite: it takes its turn to write before it reads, and never has to give up what it has read."""


class Database:
    """A database by its address.

    Args:
        address: a path such as `data/gateway.db`, `sqlite:///data/gateway.db`, or
            `postgresql://user:password@host:5432/name` with the options of libpq.
        timeout: seconds to connect, to wait for a connection or for others who write, and for one statement.

    Raises:
        ConfigurationError: the address is none of these. The message does not repeat it, since it may hold a password.
    """

    def __init__(self, address: str, *, timeout: float = _TIMEOUT) -> None:
        self.path = sqlite_path(address)
        self._address = postgresql_address(address) if self.path is None else ""
        self._timeout = timeout
        self._engine: AsyncEngine | None = None
        self._line = asyncio.Lock()

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of this machine."""
        return self.path is not None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read with.

        Raises:
            MemoryUnavailable: the database does not answer, or what was done with it failed.
        """
        async with _answering(), self._opened().connect() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction, which is committed at the end.

        Raises:
            MemoryUnavailable: the database does not answer, or what was done with it failed; nothing of it was done,
                unless the answer to the commit was lost.
        """
        async with _answering(), self._turn(), self._opened().execution_options(**_WRITES).begin() as connection:
            yield connection

    @asynccontextmanager
    async def migrating(self) -> AsyncIterator[AsyncConnection]:
        """The same, for work that may take any time.

        Raises:
            MemoryUnavailable: see `writing`.
        """
        engine = self._sqlite(_MIGRATING) if self.is_sqlite else self._postgresql(None)
        try:
            async with _answering(), engine.execution_options(**_WRITES).begin() as connection:
                yield connection
        finally:
            await engine.dispose()

    async def aclose(self) -> None:
        """Close the connections. It can be used again, in another event loop too."""
        engine, self._engine = self._engine, None
        self._line = asyncio.Lock()
        if engine is not None:
            await engine.dispose()

    def _opened(self) -> AsyncEngine:
        if self._engine is None:
            self._engine = self._sqlite(self._timeout) if self.is_sqlite else self._postgresql(self._timeout)
        return self._engine

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A place in the line of those who write: SQLite has one writer at a time, and no line of its own."""
        if not self.is_sqlite:
            yield
            return
        async with asyncio.timeout(self._timeout):
            await self._line.acquire()
        try:
            yield
        finally:
            self._line.release()

    def _sqlite(self, timeout: float) -> AsyncEngine:
        path = Path(self.path or "")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"the folder {path.parent} cannot be made: {error.strerror}") from None
        engine = create_async_engine(
            URL.create("sqlite+aiosqlite", database=str(path)),
            connect_args={"timeout": timeout},
            pool_timeout=timeout,
            hide_parameters=True,
        )
        event.listen(engine.sync_engine, "connect", _prepare)
        event.listen(engine.sync_engine, "begin", _begin)
        return engine

    def _postgresql(self, timeout: float | None) -> AsyncEngine:
        pool: dict[str, Any] = {"poolclass": NullPool}
        if timeout is not None:
            pool = {"pool_timeout": timeout, "pool_pre_ping": True}
        return create_async_engine(
            "postgresql+asyncpg://",
            async_creator=partial(_connected, self._address, self._timeout, timeout),
            isolation_level="READ COMMITTED",
            hide_parameters=True,
            **pool,
        )


async def _connected(address: str, timeout: float, statement_timeout: float | None) -> Any:
    import asyncpg  # type: ignore[import-untyped] # noqa: PLC0415 - it has no types; and not everyone needs it

    try:
        connection = await asyncpg.connect(address, timeout=timeout, command_timeout=statement_timeout)
    except ValueError as error:  # its options, or a file that is named there; the message may hold a part of it
        raise ConfigurationError(f"the memory's address does not work: {type(error).__name__}") from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from None
    try:
        # Where this process is cut off within a transaction, others are not to wait for ever for what it holds.
        await connection.execute("SET idle_in_transaction_session_timeout = '30s'")
    except BaseException:
        connection.terminate()
        raise
    return connection


def _prepare(connection: Any, _: object) -> None:
    """Settings of a new SQLite connection; transactions are begun by `_begin` and not by Python's driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _begin(connection: Any) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('begin', '')}")


@asynccontextmanager
async def _answering() -> AsyncIterator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError, sqlite3.Error) as error:
        if isinstance(error, StatementError):
            error.params = None  # the error may be kept for a while, and these are a whole turn
        reason = _reason(error)
        logger.warning("the memory's database failed: %s", reason)
        raise MemoryUnavailable(reason) from error


def _reason(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    cause = cause.__cause__ or cause  # SQLAlchemy gives the errors of asyncpg other names
    name = type(cause).__name__
    said = str(cause).partition("\n")[0]
    # asyncpg's errors that are a ValueError repeat what was to be written.
    return name if isinstance(cause, ValueError) or not said else f"{name}: {said}"
