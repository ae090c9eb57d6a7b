"""What `Database` asks of a kind of database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")

Work: TypeAlias = Callable[[Connection], T]
"""What is done with a connection. It runs beside the event loop, and waits for the database alone."""


class Backend(Protocol):
    """A kind of database. What fails in it is an error of SQLAlchemy, of the driver or of the system."""

    async def read(self, work: Work[T]) -> T:
        """Do work that only reads."""

    async def write(self, work: Work[T]) -> T:
        """Do work in a transaction, whole or not at all."""

    async def migrate(self, work: Work[T]) -> T:
        """The same for work that may take any time."""

    async def aclose(self) -> None:
        """Close the connections. It can be used again, in another event loop too."""
