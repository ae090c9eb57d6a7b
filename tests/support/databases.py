"""Databases that many tests use one after the other: up to date, and empty at the beginning of each."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.memory.sql import Database, SqlChatMemory, migrate

DATABASES = ["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.server)]
"""The kinds, as parameters of a fixture."""

_MADE: dict[str, bytes] = {}
"""An empty database in SQLite, made once."""

_UP_TO_DATE: set[str] = set()
"""Addresses whose tables are there."""


async def emptied(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of a database of a kind, up to date and empty.

    Args:
        kind: `SQLite` or `PostgreSQL`.
        request: of the fixture that wants it.
        folder: of the test.
    """
    file = folder / "gateway.db"
    if kind == "PostgreSQL":
        address = str(request.getfixturevalue("tables"))
        await _empty(address)
        return address
    if not _MADE:
        await _empty(str(file))
        _MADE["empty"] = _bytes_of(file)
    _write(file, _MADE["empty"])
    return str(file)


async def _empty(address: str) -> None:
    database = Database(address)
    if address not in _UP_TO_DATE:
        await migrate(database)
        _UP_TO_DATE.add(address)
    await SqlChatMemory(database).prune(datetime.max.replace(tzinfo=UTC))
    await database.aclose()


def _bytes_of(file: Path) -> bytes:
    return file.read_bytes()


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
