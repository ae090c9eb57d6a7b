"""Work goes on only as long as its caller is there, whatever else a server tells."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from app.web.presence import while_connected
from tests.support.gates import PATIENCE


async def test_more_of_the_body_is_not_taken_for_the_callers_leaving() -> None:
    told: asyncio.Queue[Message] = asyncio.Queue(1)
    working = asyncio.create_task(while_connected(Request({"type": "http"}, told.get), asyncio.Event().wait()))

    async with asyncio.timeout(PATIENCE):
        for _ in range(3):
            await told.put({"type": "http.request", "body": b"", "more_body": False})
        assert not working.done()
        await told.put({"type": "http.disconnect"})
        with pytest.raises(ClientDisconnect):
            await working
