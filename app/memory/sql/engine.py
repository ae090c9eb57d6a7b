"""A database by its address, and what its failures are to callers."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.memory.address import postgresql_address, sqlite_path
from app.memory.errors import MemoryUnavailable
from app.memory.sql.backend import Backend, T, Work
from app.memory.sql.sqlite import SqliteFile

logger = logging.getLogger(__name__)

_TIMEOUT = 10.0


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
        self._backend: Backend = _server(address, timeout) if self.path is None else SqliteFile(self.path, timeout)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of this machine."""
        return self.path is not None

    async def read(self, work: Work[T]) -> T:
        """Do work that only reads.

        Raises:
            MemoryUnavailable: the database does not answer, or the work failed in it.
        """
        return await _answered(self._backend.read(work))

    async def write(self, work: Work[T]) -> T:
        """Do work in a transaction, whole or not at all.

        Raises:
            MemoryUnavailable: the database does not answer, or the work failed in it; nothing of it was done, unless
                the answer to the commit was lost.
        """
        return await _answered(self._backend.write(work))

    async def migrate(self, work: Work[T]) -> T:
        """The same for work that may take any time.

        Raises:
            MemoryUnavailable: see `write`.
        """
        return await _answered(self._backend.migrate(work))

    async def aclose(self) -> None:
        """Close the connections. It can be used again, in another event loop too."""
        await self._backend.aclose()


def _server(address: str, timeout: float) -> Backend:
    from app.memory.sql.postgresql import PostgresqlServer  # noqa: PLC0415 - takes a while, and only servers need it

    return PostgresqlServer(postgresql_address(address), timeout)


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
    if type(cause) is ConnectionError:  # from `PostgresqlServer`, or as telling
        return said
    name = type(cause).__name__
    # asyncpg's errors that are a ValueError repeat what was to be written.
    return name if isinstance(cause, ValueError) or not said else f"{name}: {said}"
