"""The database: how it is reached, and what its failures are to callers."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet

from sqlalchemy import URL, NullPool, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.chat import ConfigurationError
from app.memory.address import postgresql_address, sqlite_path
from app.memory.errors import MemoryUnavailable
from app.memory.sqlite_file import open_once

logger = logging.getLogger(__name__)

T = TypeVar("T")

Opening: TypeAlias = AbstractAsyncContextManager[AsyncConnection]
Work: TypeAlias = Callable[[AsyncConnection], Awaitable[T]]
"""What is done with a connection. It is not to wait for anything else."""

_TIMEOUT = 10.0
_MIGRATING = 60.0
"""Seconds to wait for another process that brings the same file up to date."""

_FAREWELL = 1.0
"""Seconds for a server to take leave of a connection."""

_FRESH = 240
"""Seconds after which a connection to a server is made anew: what is between may drop one that was idle, unsaid."""

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
        self._connections: WeakSet[Any] = WeakSet()

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of this machine."""
        return self.path is not None

    async def read(self, work: Work[T]) -> T:
        """Do work that only reads.

        Raises:
            MemoryUnavailable: the database does not answer, or the work failed in it.
        """
        return await _answered(self._read(work))

    async def write(self, work: Work[T]) -> T:
        """Do work in a transaction, whole or not at all.

        Raises:
            MemoryUnavailable: the database does not answer, or the work failed in it; nothing of it was done, unless
                the answer to the commit was lost.
        """
        return await _answered(self._write(work))

    async def migrate(self, work: Work[T]) -> T:
        """The same for work that may take any time.

        Raises:
            MemoryUnavailable: see `write`.
        """
        engine = self._sqlite(_MIGRATING) if self.is_sqlite else self._postgresql(None)
        try:
            return await _answered(self._do(engine.execution_options(**_WRITES).begin(), work))
        finally:
            await engine.dispose()

    async def aclose(self) -> None:
        """Close the connections. It can be used again, in another event loop too."""
        engine, self._engine = self._engine, None
        self._line = asyncio.Lock()
        # Before the engine does it, which waits long for a server that does not answer, and for one after the other.
        await asyncio.gather(*map(_close, tuple(self._connections)))
        if engine is not None:
            await engine.dispose()

    async def _opened(self) -> AsyncEngine:
        if self._engine is None and self.path is not None:
            # A file that cannot be used is found out here: a connection of aiosqlite that cannot be opened leaves a
            # thread behind, which fails when the event loop is closed.
            await asyncio.to_thread(open_once, Path(self.path), self._timeout)
        if self._engine is None:
            self._engine = self._sqlite(self._timeout) if self.is_sqlite else self._postgresql(self._timeout)
        return self._engine

    async def _read(self, work: Work[T]) -> T:
        engine = await self._opened()
        return await self._do(engine.connect(), work)

    async def _write(self, work: Work[T]) -> T:
        engine = await self._opened()
        async with self._turn():
            return await self._do(engine.execution_options(**_WRITES).begin(), work)

    async def _do(self, opening: Opening, work: Work[T]) -> T:
        if self.is_sqlite:
            return await _to_its_end(opening, work)
        async with opening as connection:
            return await work(connection)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A place in the line of those who write: SQLite has one writer at a time, and no line of its own."""
        if not self.is_sqlite:
            yield
            return
        line = self._line
        async with asyncio.timeout(self._timeout):
            await line.acquire()
        try:
            yield
        finally:
            line.release()

    def _sqlite(self, timeout: float) -> AsyncEngine:
        engine = create_async_engine(
            URL.create("sqlite+aiosqlite", database=self.path),
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
            pool = {"pool_timeout": timeout, "pool_pre_ping": True, "pool_recycle": _FRESH}
        return create_async_engine(
            "postgresql+asyncpg://",
            async_creator=partial(self._connected, timeout),
            isolation_level="READ COMMITTED",
            hide_parameters=True,
            **pool,
        )

    async def _connected(self, statement_timeout: float | None) -> Any:
        import asyncpg  # type: ignore[import-untyped] # noqa: PLC0415 - it has no types; and not everyone needs it

        try:
            connection = await asyncpg.connect(self._address, timeout=self._timeout, command_timeout=statement_timeout)
        except ValueError as error:  # its options, or a file that is named there; the message may hold a part of it
            raise ConfigurationError(f"the memory's address does not work: {type(error).__name__}") from None
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from None
        self._connections.add(connection)
        try:
            # Where this process is cut off within a transaction, others are not to wait for ever for what it holds.
            await connection.execute("SET idle_in_transaction_session_timeout = '30s'")
        except BaseException:
            connection.terminate()
            raise
        return connection


async def _to_its_end(opening: Opening, work: Work[T]) -> T:
    """Do work that is not interrupted: who is cancelled meanwhile waits for its end, and it is taken back.

    SQLite works in a thread, which does not notice. An engine that is cancelled in the moment in which a transaction
    begins there loses the connection, and with it the lock that nobody else gets any more.
    """
    called_off = False

    async def whole() -> T:
        async with opening as connection:
            result = await work(connection)
            if called_off:
                raise asyncio.CancelledError
            return result

    task = asyncio.create_task(whole())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        called_off = True
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody is there any more to be told
        raise


async def _close(connection: Any) -> None:
    try:
        await connection.close(timeout=_FAREWELL)
    except Exception:  # noqa: BLE001 - whatever it is, nobody needs the connection any more
        connection.terminate()


def _prepare(connection: Any, _: object) -> None:
    """Settings of a new SQLite connection; transactions are begun by `_begin` and not by Python's driver."""
    try:
        connection.isolation_level = None
        cursor = connection.cursor()
        for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {setting}")
        cursor.close()
    except BaseException:
        connection.close()  # the engine does not know it yet
        raise


def _begin(connection: Any) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('begin', '')}")


async def _answered(work: Awaitable[T]) -> T:
    try:
        return await work
    except (SQLAlchemyError, OSError, sqlite3.Error) as error:
        reason = _reason(error)
    logger.warning("the memory's database failed: %s", reason)
    raise MemoryUnavailable(reason)  # out here: the other error holds what was to be written, and this one may be kept


def _reason(error: Exception) -> str:
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        cause = error.orig.__cause__ or error.orig  # SQLAlchemy gives the errors of asyncpg other names
    said = str(cause).partition("\n")[0]
    if type(cause) is ConnectionError:  # from `_connected`, or as telling
        return said
    name = type(cause).__name__
    # asyncpg's errors that are a ValueError repeat what was to be written.
    return name if isinstance(cause, ValueError) or not said else f"{name}: {said}"
