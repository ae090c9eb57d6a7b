"""Models that take their time, for as long as a test wants."""

from __future__ import annotations

import asyncio

from app.chat import Prompt
from app.providers.scripted import Reply
from tests.support.gates import PATIENCE


class Hesitant:
    """A reply of a `ScriptedModel` that is given when the test says so.

    Attributes:
        asked: set when the model is asked.
        go_on: set to let it reply.
        cancelled: set when it was interrupted before.
    """

    def __init__(self, reply: Reply = "At last.") -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()
        self._reply = reply

    async def __call__(self, _: Prompt) -> Reply:
        self.asked.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return self._reply


class Stubborn:
    """A reply that is given when the test says so, and to be cancelled changes nothing about that.

    Attributes:
        asked: set when the model is asked.
        go_on: set to let it reply.
        cancelled: set when it was told to stop.
    """

    def __init__(self, reply: Reply = "At last.") -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()
        self._reply = reply

    async def __call__(self, _: Prompt) -> Reply:
        self.asked.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            async with asyncio.timeout(PATIENCE):  # a test that fails does not come to let it go
                await self.go_on.wait()
        return self._reply
