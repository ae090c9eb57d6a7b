"""What happens once is told to all who wait, each by a future of their own."""

from __future__ import annotations

import asyncio

import pytest

from app.runs.once import Once


async def test_all_who_wait_are_told_and_whoever_comes_later() -> None:
    once = Once()
    early, other = once.happened(), once.happened()
    assert not early.done()

    once.happen()
    once.happen()

    assert early.done()
    assert other.done()
    assert once.happened().done()


async def test_who_no_longer_waits_takes_nothing_from_others() -> None:
    once = Once()
    waiting = [asyncio.ensure_future(once.happened()) for _ in range(2)]
    waiting[0].cancel()

    once.happen()

    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    await waiting[1]
