"""Addresses of databases as operators write them, and that nothing of one is ever shown."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from app.chat import ConfigurationError
from app.memory.address import postgresql_address, sqlite_path
from app.memory.sql import Database

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("data/gateway.db", "data/gateway.db"),
        ("gateway.db", "gateway.db"),
        ("/var/lib/gateway.db", "/var/lib/gateway.db"),
        ("sqlite:///data/gateway.db", "data/gateway.db"),
        ("sqlite:////var/lib/gateway.db", "/var/lib/gateway.db"),
        ("a folder/what? #1 %20.db", "a folder/what? #1 %20.db"),
        ("sqlite:///a folder/50%.db", "a folder/50%.db"),
        ("C:\\data\\gateway.db", "C:\\data\\gateway.db"),
    ],
)
def test_a_path_is_a_file_of_sqlite(address: str, path: str) -> None:
    assert sqlite_path(address) == path
    assert Database(address).is_sqlite


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
@pytest.mark.parametrize(
    ("rest", "kept"),
    [
        ("user:secret@host/name", "user:secret@host/name"),
        ("user:secret@host:5432/name", "user:secret@host:5432/name"),
        ("user@[::1]:5432/name", "user@[::1]:5432/name"),
        ("user:p%2Fw%40d@host/name", "user:p%2Fw%40d@host/name"),
        ("user:secret@one:5432,two:5433/name", "user:secret@one:5432,two:5433/name"),
        ("user@%2Fvar%2Frun%2Fpostgresql/name", "user@%2Fvar%2Frun%2Fpostgresql/name"),
        ("/name", "/name"),
    ],
)
def test_an_address_of_postgresql_is_handed_on(scheme: str, rest: str, kept: str) -> None:
    address = postgresql_address(f"{scheme}://{rest}")

    assert address == f"{scheme}://{kept}?application_name=advisor-gateway"
    assert not Database(f"{scheme}://{rest}").is_sqlite


@pytest.mark.parametrize(
    ("query", "mode"),
    [
        ("ssl=require", "require"),
        ("ssl=true", "require"),
        ("ssl=1", "require"),
        ("ssl=false", "disable"),
        ("ssl=verify-full", "verify-full"),
        ("sslmode=prefer", "prefer"),
        ("sslmode=verify-ca", "verify-ca"),
        ("sslmode=disable", "disable"),
    ],
)
def test_encryption_is_asked_for_by_either_name(query: str, mode: str) -> None:
    options = parse_qs(urlsplit(postgresql_address(f"postgresql://user@host/name?{query}")).query)

    assert options == {"sslmode": [mode], "application_name": ["advisor-gateway"]}


def test_other_options_are_kept_as_they_are() -> None:
    query = "sslrootcert=/etc/ca%20file.pem&passfile=/run/secrets/pgpass&application_name=mine&host=/run&dbname=name"
    options = parse_qs(urlsplit(postgresql_address(f"postgresql://?{query}")).query)

    assert options == parse_qs(query)


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":memory:",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        f"sqlite://{SECRET}/gateway.db",
        f"sqlite:///gateway.db?key={SECRET}",
        f"gate\0{SECRET}.db",
        f"mysql://user:{SECRET}@host/name",
        f"http://{SECRET}@host/name",
        f"postgresql+asyncpg://user:{SECRET}@host/name",
        f"postgresql://user:{SECRET}@host",
        f"postgresql://user:{SECRET}@host/",
        f"postgresql://user:{SECRET}@host:port/name",
        f"postgresql://user:{SECRET}@host:5432:5433/name",
        f"postgresql://user:{SECRET}/{SECRET}@host/name",
        f"postgresql://user:{SECRET}@{SECRET}@host/name",
        f"postgresql://user:5/{SECRET}@host/name",
        f"postgresql://user:{SECRET}#{SECRET}@host/name",
        f"postgresql://user:{SECRET}?{SECRET}@host/name",
        f"postgresql://user:[{SECRET}@host/name",
        f"postgresql://user:{SECRET}@host/name?sslmode={SECRET}",
        f"postgresql://user@host/name?ssl={SECRET}",
        f"postgresql://user@host/name?{SECRET}",
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Database(address)

    assert "memory's address" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


def test_nothing_shows_an_address() -> None:
    database = Database(f"postgresql://user:{SECRET}@host/name")

    assert SECRET not in repr(database)
    assert SECRET not in str(database)


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    Database(str(tmp_path / "data" / "gateway.db"))

    assert list(tmp_path.iterdir()) == []
