"""Gateways whose conversations are kept in one place or another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.memory.sql import Database, migrate
from tests.support.web import ENDPOINTS

STORES = ["in memory", "SQLite", pytest.param("PostgreSQL", marks=pytest.mark.server)]


def memory_url(request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of an empty memory of the kind that the fixture's parameter names."""
    match request.param:
        case "SQLite":
            return str(folder / "data" / "gateway.db")
        case "PostgreSQL":
            url = str(request.getfixturevalue("postgres_url"))
            asyncio.run(_migrated(url))
            return url
    return "memory://"


async def _migrated(url: str) -> None:
    database = Database(url)
    await migrate(database)
    await database.aclose()


async def say(client: httpx.AsyncClient, *messages: str, conversation_id: str = "trip", **body: Any) -> None:
    """Say something in a conversation, and wait for the answers."""
    for message in messages:
        sent = {"message": message, "conversation_id": conversation_id, **body}
        response = await client.post(ENDPOINTS[False], json=sent)
        assert response.status_code == 200, response.text


def problem(response: httpx.Response) -> tuple[int, str]:
    """The status and the kind of a problem."""
    return response.status_code, response.json()["type"].removeprefix("urn:advisor-gateway:")
