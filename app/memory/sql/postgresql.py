"""PostgreSQL, for replicas that share conversations."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any
from weakref import WeakSet

from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.chat import ConfigurationError
from app.memory.sql.backend import T, Work

_FAREWELL = 1.0
"""Seconds for a server to take leave of a connection."""

_FRESH = 240
"""Seconds after which a connection to a server is made anew: what is between may drop one that was idle, unsaid."""


class PostgresqlServer:
    """A `Backend` on a server.

    Args:
        address: in the form of libpq.
        timeout: seconds to connect, to wait for a connection, and for one statement.
    """

    def __init__(self, address: str, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._opened: AsyncEngine | None = None
        self._connections: WeakSet[Any] = WeakSet()

    async def read(self, work: Work[T]) -> T:
        """See `Backend.read`."""
        return await _done(self._engine.connect(), work)

    async def write(self, work: Work[T]) -> T:
        """See `Backend.write`."""
        return await _done(self._engine.begin(), work)

    async def migrate(self, work: Work[T]) -> T:
        """See `Backend.migrate`."""
        engine = self._made(None, poolclass=NullPool)
        try:
            return await _done(engine.begin(), work)
        finally:
            await engine.dispose()

    async def aclose(self) -> None:
        """See `Backend.aclose`."""
        engine, self._opened = self._opened, None
        # Before the engine does it, which waits long for a server that does not answer, and for one after the other.
        await asyncio.gather(*map(_close, tuple(self._connections)))
        if engine is not None:
            await engine.dispose()

    @property
    def _engine(self) -> AsyncEngine:
        if self._opened is None:
            self._opened = self._made(
                self._timeout, pool_timeout=self._timeout, pool_pre_ping=True, pool_recycle=_FRESH
            )
        return self._opened

    def _made(self, statement_timeout: float | None, **pool: Any) -> AsyncEngine:
        return create_async_engine(
            "postgresql+asyncpg://",
            async_creator=partial(self._connected, statement_timeout),
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


async def _done(opening: AbstractAsyncContextManager[AsyncConnection], work: Work[T]) -> T:
    async with opening as connection:
        return await connection.run_sync(work)


async def _close(connection: Any) -> None:
    try:
        await connection.close(timeout=_FAREWELL)
    except Exception:  # noqa: BLE001 - whatever it is, nobody needs the connection any more
        connection.terminate()
