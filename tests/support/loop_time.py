"""The time of the event loop, moved on by the test: what is to happen later happens now, and nobody waits for it."""

from __future__ import annotations

import asyncio

import pytest


class LoopTime:
    """The running loop's clock. It goes as ever, and jumps when it is told to.

    Whoever waits with a time-out is told of the jump too: a test that jumps is not to wait under one meanwhile.

    Args:
        patch: puts the loop's own clock back.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._real = loop.time
        self._ahead = 0.0
        patch.setattr(loop, "time", self)

    def __call__(self) -> float:
        return self._real() + self._ahead

    async def passes(self, seconds: float) -> None:
        """Let all that can happen now happen, then so much time pass, and then all that can happen at once."""
        await _settle()
        self._ahead += seconds
        await _settle()


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
