"""A SQLite file. Work is done in one go in a thread: to change threads for each statement costs more than they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sqlalchemy import Connection, QueuePool, create_engine

from app.memory.sql.backend import T, Work
from app.memory.sqlite_file import connected

Opening: TypeAlias = Callable[[], AbstractContextManager[Connection]]

_READERS = 8
"""Who may read at the same moment, beside the one who may write."""

_MIGRATING = 60.0
"""Seconds to wait for another process that brings the same file up to date."""


class SqliteFile:
    """A `Backend` in a file of this machine.

    Args:
        path: the file. It is made where there is none, with its folder.
        timeout: seconds to wait for others who read or write.
    """

    def __init__(self, path: str, timeout: float) -> None:
        self._path = Path(path)
        self._timeout = timeout
        self._engine = create_engine(
            "sqlite://",
            creator=partial(connected, self._path, timeout),
            poolclass=QueuePool,
            pool_size=_READERS + 1,
            max_overflow=0,
            hide_parameters=True,
        )
        self._line_up()

    async def read(self, work: Work[T]) -> T:
        """See `Backend.read`."""
        async with self._turn(self._readers):
            return await self._to_its_end(self._engine.connect, work)

    async def write(self, work: Work[T]) -> T:
        """See `Backend.write`."""
        async with self._turn(self._writer):
            return await self._to_its_end(self._transaction, work)

    async def migrate(self, work: Work[T]) -> T:
        """See `Backend.migrate`."""
        patient = SqliteFile(str(self._path), _MIGRATING)
        try:
            return await patient.write(work)
        finally:
            await patient.aclose()

    async def aclose(self) -> None:
        """See `Backend.aclose`."""
        threads = self._threads
        self._line_up()
        await asyncio.to_thread(self._close, threads)

    def _line_up(self) -> None:
        self._threads = ThreadPoolExecutor(_READERS + 1, "memory")
        self._readers = asyncio.Semaphore(_READERS)
        self._writer = asyncio.Semaphore()  # SQLite has one at a time, and no line of its own

    def _close(self, threads: ThreadPoolExecutor) -> None:
        threads.shutdown()  # and with it what was begun, whose connection would be left open
        self._engine.dispose()

    @asynccontextmanager
    async def _turn(self, line: asyncio.Semaphore) -> AsyncIterator[None]:
        async with asyncio.timeout(self._timeout if line.locked() else None):
            await line.acquire()
        try:
            yield
        finally:
            line.release()

    async def _to_its_end(self, opening: Opening, work: Work[T]) -> T:
        """Do work that is not interrupted: who is cancelled meanwhile waits for its end, and it is taken back."""
        called_off = False

        def whole() -> T:
            with opening() as connection:
                result = work(connection)
                if called_off:
                    raise asyncio.CancelledError
                return result

        # Within the context of who asks, which the log tells of.
        done = asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, whole)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            called_off = True
            done.add_done_callback(lambda ended: ended.exception())  # nobody is there any more to be told
            await asyncio.wait([done])
            raise

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            # It takes its turn to write before it reads, and never has to give up what it has read. The driver's own
            # transactions begin with what is written first.
            connection.connection.cursor().execute("BEGIN IMMEDIATE")
            yield connection
