"""Bringing a database up to date: from nothing, from the version before, by several at once, and not at all."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from app.chat import ConfigurationError, SystemMessage
from app.memory import Window
from app.memory.sql import Database, SqlChatMemory, migrate
from app.memory.sql.tables import metadata
from app.memory.turns import size_of
from tests.memory.histories import plain_turn, tool_turn

HEAD = "0002"
BEFORE = "0001"

EARLIER: dict[str, list[tuple[object, ...]]] = {
    "conversations": [
        ("barley", '[{"kind":"SystemMessage","content":"Be brief."}]', 7, 1_700_000_000_000_000, 1_700_000_500_000_001),
        ("naïve\u2028", "[]", 1, 1_700_000_000_000_000, 1_700_000_100_000_000),
        ("of nobody", "[]", 0, 1_700_000_000_000_000, 1_700_000_000_000_000),
    ],
    "turns": [
        (
            "barley",
            6,
            1_700_000_400_000_000,
            """[{"kind":"UserMessage","content":"What grows on field 6?"},
                {"kind":"AssistantMessage","tool_calls":[{"kind":"ToolCall","id":"call_6_0","name":"look"}]},
                {"kind":"ToolMessage","results":
                    [{"kind":"ToolResult","id":"call_6_0","name":"look","content":"barley"}]},
                {"kind":"AssistantMessage","content":"Barley grows on field 6."}]""",
            4,
        ),
        (
            "barley",
            7,
            1_700_000_500_000_001,
            """[{"kind":"UserMessage","content":"What grows on field 7?"},
                {"kind":"AssistantMessage","content":"Barley grows on field 7."}]""",
            2,
        ),
        ("naïve\u2028", 1, 1_700_000_100_000_000, r'[{"kind":"UserMessage","content":"\u0000\ud800 日本 \u00e4"}]', 1),
    ],
}
"""Rows as version 0001 wrote them; they are not made by the code of today."""


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.server)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that does not exist yet, or has no tables."""
    if request.param == "PostgreSQL":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "data" / "gateway.db")


@pytest.fixture
async def database(address: str) -> AsyncIterator[Database]:
    opened = Database(address)
    yield opened
    await opened.aclose()


@pytest.fixture
async def earlier(database: Database) -> Database:
    """A database as the version before left it."""
    assert await migrate(database, BEFORE) == BEFORE
    await fill(database)
    return database


async def fill(database: Database) -> None:
    for table, rows in EARLIER.items():
        names = [f":c{number}" for number in range(len(rows[0]))]
        statement = text(f"INSERT INTO {table} VALUES ({', '.join(names)})")  # noqa: S608 - names of ours
        values = [{f"c{number}": value for number, value in enumerate(row)} for row in rows]
        await database.write(lambda connection, s=statement, v=values: connection.execute(s, v))  # type: ignore[misc] # mypy does not infer it


async def version(database: Database) -> str:
    """What a database says of itself."""
    asked = text("SELECT version_num FROM alembic_version")
    return str(await database.read(lambda connection: connection.execute(asked).scalar_one()))


async def columns(database: Database, table: str) -> set[str]:
    asked = text(f"SELECT * FROM {table}")  # noqa: S608 - a name of ours
    return set(await database.read(lambda connection: connection.execute(asked).keys()))


async def test_the_migrations_lead_to_the_tables_that_are_used(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))

    assert await migrate(database) == HEAD
    assert await database.read(differences) == []
    assert await version(database) == HEAD


async def test_a_database_of_the_version_before_is_brought_up_to_date_and_read(earlier: Database) -> None:
    assert await migrate(earlier) == HEAD
    store = SqlChatMemory(earlier)
    await store.start()
    kept = await store.read("barley")

    assert kept.messages == (SystemMessage("Be brief."), *tool_turn(6), *plain_turn(7))
    assert [turn.number for turn in kept.turns] == [6, 7]
    assert (kept.summary, kept.last_turn) == (None, 7)
    assert kept.created_at.isoformat() == "2023-11-14T22:13:20+00:00"
    assert kept.updated_at.isoformat() == "2023-11-14T22:21:40.000001+00:00"
    (halves,) = (await store.read("naïve\u2028")).messages
    assert halves.content == "\0\ud800 日本 ä"  # type: ignore[union-attr] # it is the user's
    assert [(one.id, one.turns) for one in await store.page(9)] == [("barley", 2), ("naïve\u2028", 1), ("of nobody", 0)]


async def test_turns_of_the_version_before_are_measured(earlier: Database) -> None:
    await migrate(earlier)
    measured = text("SELECT messages, message_count, tokens FROM turns ORDER BY conversation_id, number")
    rows = await earlier.read(lambda connection: connection.execute(measured).all())
    store = SqlChatMemory(earlier)
    turns = [turn for name in ("barley", "naïve\u2028") for turn in (await store.read(name)).turns]

    assert [(row.message_count, row.tokens) for row in rows] == [
        (size_of(turn.messages).messages, size_of(turn.messages).tokens) for turn in turns
    ]


async def test_a_conversation_of_the_version_before_goes_on(earlier: Database) -> None:
    await migrate(earlier)
    store = SqlChatMemory(earlier, Window(5))
    await store.append("barley", plain_turn(8))
    await store.append("of nobody", plain_turn(1))

    assert await store.get("barley") == (SystemMessage("Be brief."), *plain_turn(7), *plain_turn(8))
    assert [turn.number for turn in (await store.read("barley")).turns] == [7, 8]
    assert await store.get("of nobody") == plain_turn(1)


async def test_what_is_up_to_date_stays_as_it_is(database: Database) -> None:
    await migrate(database)
    store = SqlChatMemory(database)
    await store.append("barley", plain_turn(1))
    assert await migrate(database) == HEAD

    assert await store.get("barley") == plain_turn(1)


async def test_a_migration_that_fails_leaves_the_version_before(earlier: Database) -> None:
    spoil = text("UPDATE turns SET messages = 'no JSON' WHERE number = 7")
    await earlier.write(lambda connection: connection.execute(spoil))
    with pytest.raises(json.JSONDecodeError):
        await migrate(earlier)

    assert await version(earlier) == BEFORE
    assert "summary" not in await columns(earlier, "conversations")
    assert "tokens" not in await columns(earlier, "turns")
    mend = text("UPDATE turns SET messages = '[]' WHERE number = 7")
    await earlier.write(lambda connection: connection.execute(mend))
    assert await migrate(earlier) == HEAD


@pytest.mark.server
@pytest.mark.parametrize("revision", [None, BEFORE])
async def test_replicas_do_not_start_before_the_database_is_up_to_date_and_say_what_to_run(
    postgres_url: str, revision: str | None
) -> None:
    database = Database(postgres_url)
    if revision is not None:
        await migrate(database, revision)
    store = SqlChatMemory(database)
    there = "no tables yet" if revision is None else f"the tables of {revision}"
    rule = f"the memory's database has {there}, and this version needs those of {HEAD}: run python -m app migrate"
    with pytest.raises(ConfigurationError, match=rule):
        await store.start()
    await migrate(database)
    await store.start()

    await store.append("barley", plain_turn(1))
    await store.aclose()


async def test_a_file_is_brought_up_to_date_at_the_start(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "gateway.db"))
    await migrate(database, BEFORE)
    await fill(database)
    store = SqlChatMemory(database)
    await store.start()

    assert len((await store.read("barley")).turns) == 2
    await store.aclose()


async def test_tables_of_a_later_version_are_left_alone(database: Database) -> None:
    await migrate(database)
    store = SqlChatMemory(database)
    await store.append("barley", plain_turn(1))
    later = text("UPDATE alembic_version SET version_num = '9999'")
    await database.write(lambda connection: connection.execute(later))
    rule = (
        "the memory's database has the tables of 9999, which a later version of the gateway has made: run that version"
    )

    with pytest.raises(ConfigurationError, match=rule):
        await store.start()
    with pytest.raises(ConfigurationError, match=rule):
        await migrate(database)
    assert await version(database) == "9999"


@pytest.mark.server
async def test_many_may_bring_one_database_up_to_date_at_the_same_time(postgres_url: str) -> None:
    async def one() -> str:
        database = Database(postgres_url)
        try:
            return await migrate(database)
        finally:
            await database.aclose()

    await asyncio.gather(*(one() for _ in range(6)))
    database = Database(postgres_url)
    await SqlChatMemory(database).start()
    await database.aclose()


async def test_what_users_said_is_not_for_everyone_on_the_machine(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "data" / "gateway.db"))
    await SqlChatMemory(database).start()
    await database.aclose()

    assert _mode(tmp_path / "data") == 0o700


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_a_file_survives_the_loss_of_power_and_is_read_while_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "gateway.db"
    database = Database(str(file))
    await SqlChatMemory(database).start()
    settings = {}
    for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout"):
        asked = text(f"PRAGMA {name}")
        settings[name] = await database.read(lambda connection, a=asked: connection.execute(a).scalar_one())  # type: ignore[misc] # mypy does not infer it
    await database.aclose()

    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}
    assert sqlite3.connect(file).execute("PRAGMA integrity_check").fetchone() == ("ok",)
