"""`python -m app migrate` and `prune` as processes of their own."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from app.memory import ConversationStore
from app.memory.sql import Database, SqlChatMemory, migrate
from tests.memory.histories import plain_turn
from tests.support.gateway_process import REPOSITORY, START, free_port
from tests.support.postgres_server import PASSWORD, PostgresServer

T = TypeVar("T")


def begun(*arguments: str, url: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-W", "error", "-m", "app", *arguments],
        cwd=REPOSITORY,
        env=os.environ | {"GATEWAY_MEMORY__URL": url} | env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """The exit code of a process, and what it has said on either output."""
    out, err = process.communicate(timeout=START)
    return process.returncode, out, err


def run(*arguments: str, url: str, **env: str) -> tuple[int, str, str]:
    return ended(begun(*arguments, url=url, **env))


async def in_store(url: str, work: Callable[[ConversationStore], Awaitable[T]]) -> T:
    """Do something in a database that is up to date."""
    store = SqlChatMemory(Database(url))
    await store.start()
    try:
        return await work(store)
    finally:
        await store.aclose()


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.server)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without tables."""
    if request.param == "PostgreSQL":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "data" / "gateway.db")


def test_migrate_brings_a_database_up_to_date_and_may_be_run_again(url: str) -> None:
    async def before() -> None:
        database = Database(url)
        await migrate(database, "0001")
        await database.aclose()

    asyncio.run(before())
    for _ in range(2):
        assert run("migrate", url=url) == (0, "The memory's database has the tables of 0002.\n", "")

    asyncio.run(in_store(url, lambda store: store.append("barley", plain_turn(1))))


def test_many_processes_may_migrate_at_the_same_time(url: str) -> None:
    at_once = [begun("migrate", url=url) for _ in range(4)]

    assert {ended(process) for process in at_once} == {(0, "The memory's database has the tables of 0002.\n", "")}


async def grow(store: ConversationStore) -> None:
    """Conversations of different ages."""
    for name, age in (("old", 40), ("older", 50), ("young", 10)):
        await store.append(name, plain_turn(1))
        kept = await store.read(name)
        assert await store.replace(kept, replace(kept, updated_at=datetime.now(UTC) - timedelta(days=age)))


async def listed(store: ConversationStore) -> list[str]:
    return [one.id for one in await store.page(9)]


def test_prune_forgets_by_age(url: str) -> None:
    assert run("migrate", url=url)[0] == 0
    asyncio.run(in_store(url, grow))

    assert run("prune", "--older-than", "45.5", url=url) == (0, "Forgot 1 conversations.\n", "")
    assert asyncio.run(in_store(url, listed)) == ["young", "old"]
    assert run("prune", url=url, GATEWAY_MEMORY__KEEP_DAYS="30") == (0, "Forgot 1 conversations.\n", "")
    assert asyncio.run(in_store(url, listed)) == ["young"]


@pytest.mark.parametrize("command", ["migrate", "serve"])
def test_a_file_that_is_no_database_is_told_in_the_last_line_and_without_a_traceback_of_a_thread(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "diary").write_text("Dear diary, " * 100)
    code, out, err = run(command, url=str(tmp_path / "diary"), GATEWAY_TOOLS__PACKAGES='["tools.clock"]')

    assert (code, out) == (1, "")
    assert f"the memory's file {tmp_path}/diary cannot be used: DatabaseError: file is not a database" in err
    assert "Exception in thread" not in err
    assert "ResourceWarning" not in err


@pytest.mark.server
@pytest.mark.parametrize("command", ["migrate", "serve"])
def test_a_server_that_does_not_answer_is_told_without_its_password(postgres: PostgresServer, command: str) -> None:
    url = postgres.url().replace(f":{postgres.port}/", f":{free_port()}/")
    code, out, err = run(command, url=url, GATEWAY_LOGGING__LEVEL="debug", GATEWAY_SERVER__PORT=str(free_port()))

    assert (code, out) == (1, "")
    assert "the memory's database cannot be used: ConnectionRefusedError" in err
    assert PASSWORD not in err
    assert "p%2Fss" not in err


@pytest.mark.server
def test_what_has_to_be_migrated_first_is_told(postgres_url: str) -> None:
    code, out, err = run("serve", url=postgres_url, GATEWAY_SERVER__PORT=str(free_port()))

    assert (code, out) == (1, "")
    assert "run python -m app migrate" in err


def test_a_process_leaves_though_its_store_was_not_closed(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from app.memory.sql import Database, SqlChatMemory\n"
        "from app.chat import UserMessage\n"
        "store = SqlChatMemory(Database(sys.argv[1]))\n"
        "async def work():\n"
        "    await store.start()\n"
        "    await store.append('barley', [UserMessage('What grows here?')])\n"
        "asyncio.run(work())\n"
    )
    file = tmp_path / "gateway.db"
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", code, str(file)], cwd=REPOSITORY, timeout=START, check=False
    )

    assert done.returncode == 0
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM turns").fetchone() == (1,)
