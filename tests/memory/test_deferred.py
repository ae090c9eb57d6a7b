"""A file that is looked at when the gateway starts and opened for good when somebody wants a conversation."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

import app.memory.sql
from app.chat import AssistantMessage, ConfigurationError, UserMessage
from app.memory import ConversationStore, MemoryUnavailable
from app.memory.deferred import DeferredMemory
from app.memory.sql import Database, SqlChatMemory, migrate
from app.memory.sqlite_file import LATEST, is_ready

TURN = (UserMessage("Hello"), AssistantMessage("Hi"))


class Made:
    """Makes stores in a file, and counts them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def __call__(self) -> ConversationStore:
        self.count += 1
        return SqlChatMemory(Database(str(self.path)))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "data" / "gateway.db")


def test_the_revision_that_is_looked_for_is_the_last_one_there_is() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(app.memory.sql.__file__).parent / "migrations"))

    assert ScriptDirectory.from_config(config).get_current_head() == LATEST


async def test_a_new_file_is_made_and_opened_once_when_it_is_wanted(made: Made) -> None:
    store = DeferredMemory(str(made.path), made)
    await store.start()
    assert made.path.exists()
    assert made.count == 0

    await asyncio.gather(*(store.append(f"c{number}", TURN) for number in range(5)))

    assert await store.get("c3") == TURN
    assert made.count == 1
    await store.aclose()


async def test_a_file_that_is_up_to_date_is_not_opened_by_the_start(made: Made) -> None:
    database = Database(str(made.path))
    await migrate(database)
    await database.aclose()
    store = DeferredMemory(str(made.path), made)

    await store.start()

    assert made.count == 0
    await store.aclose()


async def test_a_file_of_an_earlier_version_is_brought_up_to_date_by_the_start(made: Made) -> None:
    database = Database(str(made.path))
    await migrate(database, "0001")
    await database.aclose()
    store = DeferredMemory(str(made.path), made)

    await store.start()

    assert is_ready(made.path, 1.0)
    assert made.count == 1
    await store.aclose()


async def test_a_file_that_is_none_of_ours_stops_the_start(made: Made) -> None:
    made.path.parent.mkdir()
    made.path.write_text("Dear diary, " * 100)
    store = DeferredMemory(str(made.path), made)

    with pytest.raises(ConfigurationError, match="file is not a database"):
        await store.start()

    await store.aclose()


async def test_a_folder_that_cannot_be_made_stops_the_start(made: Made) -> None:
    made.path.parent.write_text("a file")

    with pytest.raises(ConfigurationError, match="cannot be made"):
        await DeferredMemory(str(made.path), made).start()


async def test_a_file_that_was_spoiled_after_the_start_is_a_memory_that_cannot_be_asked(made: Made) -> None:
    store = DeferredMemory(str(made.path), made)
    await store.start()
    with closing(sqlite3.connect(made.path)) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
        connection.commit()

    with pytest.raises(MemoryUnavailable) as caught:
        await store.get("c")

    assert "9999" in caught.value.reason
    assert "9999" not in str(caught.value)
    await store.aclose()


def test_what_opens_the_file_is_not_loaded_by_the_start(tmp_path: Path) -> None:
    script = """
import asyncio, sys
from app.main import create_app

async def start():
    app = create_app(tools=())
    async with app.router.lifespan_context(app):
        pass

asyncio.run(start())
print(sorted({"aiohttp", "alembic", "openai", "redis", "sqlalchemy"} & sys.modules.keys()))
"""
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", script], cwd=tmp_path, env=_environment(), capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
    assert (tmp_path / "data" / "gateway.db").exists()


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(app.__file__).parent.parent)}
