"""Databases that cannot be used at all: the start says which and why, and shows no password."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from app.chat import ConfigurationError
from app.memory.sql import Database, SqlChatMemory
from tests.support.gateway_process import free_port
from tests.support.postgres_server import PASSWORD, PostgresServer


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that others than the tests' user can see; pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="gateway-"))
    yield folder
    shutil.rmtree(folder)


def _nothing(_: Connection) -> None: ...


def _read(file: Path) -> str:
    return file.read_text()


def _write(file: Path, content: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)


async def failing_to_start(address: str) -> str:
    """What is said of a database that cannot be used."""
    store = SqlChatMemory(Database(address, timeout=5.0))
    with pytest.raises(ConfigurationError) as failed:
        await store.start()
    await store.aclose()
    return str(failed.value)


async def test_a_folder_that_cannot_be_made_stops_the_start_and_is_named(tmp_path: Path) -> None:
    _write(tmp_path / "data", "a file")

    said = await failing_to_start(str(tmp_path / "data" / "inner" / "gateway.db"))
    assert said.startswith(f"the folder {tmp_path}/data/inner for the memory cannot be made: Not a directory")


async def test_a_file_that_is_no_database_stops_the_start_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "gateway.db"
    _write(file, "Dear diary, " * 100)

    said = await failing_to_start(str(file))
    assert said.startswith(f"the memory's file {file} cannot be used: DatabaseError: file is not a database")
    assert _read(file) == "Dear diary, " * 100


async def test_a_folder_in_the_place_of_the_file_stops_the_start(tmp_path: Path) -> None:
    said = await failing_to_start(str(tmp_path))
    assert said.startswith(
        f"the memory's file {tmp_path} cannot be used: OperationalError: unable to open database file"
    )


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """With no right to write to a folder: root, which may write everywhere, is somebody else for a while."""
    folder.chmod(0o555)
    is_root = os.getuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.mark.parametrize("name", ["gateway.db", "inner/gateway.db"])
async def test_a_folder_that_is_read_only_stops_the_start(shared_folder: Path, name: str) -> None:
    other = Database(str(shared_folder / "other.db"))
    await other.read(_nothing)  # what is imported later, and nobody may not be able to
    await other.aclose()
    with as_nobody(shared_folder):
        said = await failing_to_start(str(shared_folder / name))

    assert str(shared_folder) in said
    assert "unable to open database file" in said or "Permission denied" in said


async def test_a_file_that_is_read_only_stops_the_start(shared_folder: Path) -> None:
    file = shared_folder / "gateway.db"
    store = SqlChatMemory(Database(str(file)))
    await store.start()
    await store.aclose()
    with as_nobody(shared_folder):
        said = await failing_to_start(str(file))

    assert said.startswith(f"the memory's file {file} cannot be used: OperationalError: ")


@pytest.mark.server
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (lambda server: server.url(password="wrong-word"), "InvalidPasswordError"),
        (lambda server: server.url("missing"), 'InvalidCatalogNameError: database "missing" does not exist'),
        (lambda server: server.url() + "?ssl=require", "rejected SSL upgrade"),
        (lambda server: server.url() + "?sslmode=verify-full&sslrootcert=/missing", "FileNotFoundError"),
        (
            lambda server: server.url() + "?search=1",
            'UndefinedObjectError: unrecognized configuration parameter "search"',
        ),
        (lambda _: f"postgresql://user:wrong-word@127.0.0.1:{free_port()}/name", "ConnectionRefusedError"),
        (lambda _: "postgresql://user:wrong-word@no.such.host.invalid/name", "gaierror"),
    ],
    ids=["password", "name", "ssl", "ca", "option", "port", "host"],
)
async def test_a_server_that_cannot_be_used_stops_the_start_and_no_password_is_shown(
    postgres: PostgresServer,
    caplog: pytest.LogCaptureFixture,
    address: Callable[[PostgresServer], str],
    reason: str,
) -> None:
    with caplog.at_level(logging.DEBUG, "app"):
        said = await failing_to_start(address(postgres))

    assert reason in said
    assert said.endswith("(see GATEWAY_MEMORY__URL)")
    for shown in (said, caplog.text):
        assert "wrong-word" not in shown
        assert PASSWORD not in shown


@pytest.mark.server
@pytest.mark.parametrize("end", ["", "?ssl=disable", "?sslmode=prefer", "?ssl=false"])
@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
async def test_addresses_are_understood_as_other_clients_write_them(
    postgres: PostgresServer, scheme: str, end: str
) -> None:
    database = Database(postgres.url(scheme=scheme) + end)
    assert await database.read(lambda connection: connection.execute(text("SELECT 1")).scalar_one()) == 1
    await database.aclose()
