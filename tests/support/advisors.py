"""Advisors that several tests plug in."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from app.chat import BaseAdvisor, CallNext, ChatEvents, ChatRequest, Completed
from tests.support.gates import PATIENCE


class Silent(BaseAdvisor):
    """Breaks the invariant of the chain: its events end without the answer."""

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """All but the end."""
        async with aclosing(call_next(request)) as events:
            async for event in events:
                if not isinstance(event, Completed):
                    yield event


class Tidy(BaseAdvisor):
    """Has something to tidy up at the end of every run, for as long as a test wants.

    Args:
        stubborn: whether it goes on when it is cancelled meanwhile.

    Attributes:
        begun: set when it has begun.
        go_on: set to let it end.
        interrupted: set when it was cancelled before.
    """

    def __init__(self, *, stubborn: bool = False) -> None:
        super().__init__(order=1)
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.interrupted = asyncio.Event()
        self._stubborn = stubborn

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Pass everything on, and tidy up."""
        try:
            async with aclosing(call_next(request)) as events:
                async for event in events:
                    yield event
        finally:
            self.begun.set()
            await self._wait()

    async def _wait(self) -> None:
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.interrupted.set()
            if not self._stubborn:
                raise
            async with asyncio.timeout(PATIENCE):  # a test that fails does not come to let it go
                await self.go_on.wait()
