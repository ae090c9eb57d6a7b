"""What `docs/deployment.md` says of backups, as it stands there."""

from __future__ import annotations

import uuid
from pathlib import Path

import httpx
import pytest

from tests.scale.caller import Caller, Script
from tests.scale.stack import Stack, command, docker

pytestmark = [pytest.mark.scale, pytest.mark.server]

_COMPOSE = "docker compose --profile scale"


async def test_a_dump_of_the_database_brings_conversations_back(
    stack: Stack, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    conversation = uuid.uuid4().hex
    first, second = Script(words=2), Script(words=2)
    (await Caller(stack.proxy, first, conversation_id=conversation).hear()).assert_whole()
    dump = tmp_path / "gateway.dump"

    await _shell(f"{_COMPOSE} exec -T postgres pg_dump --username gateway --format custom gateway >{dump}")
    forgotten = await client.delete(f"{stack.proxy}/conversations/{conversation}")
    ids = [replica.id for replica in await stack.replicas()]
    await docker("stop", *ids)
    try:
        await _shell(
            f"{_COMPOSE} exec -T postgres pg_restore --username gateway --dbname gateway --clean --if-exists <{dump}"
        )
    finally:
        await docker("start", *ids)
        await stack.settled()

    assert forgotten.status_code == 204
    (await Caller(stack.proxy, second, conversation_id=conversation).hear()).assert_whole(first)


async def _shell(line: str) -> None:
    await command("sh", "-c", line)
