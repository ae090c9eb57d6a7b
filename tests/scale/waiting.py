"""Time that has to pass: leases run out in containers by the clock, and by nothing that a test could wait for."""

from __future__ import annotations

import asyncio


async def passing(seconds: float) -> None:
    """Until so many seconds have passed."""
    await asyncio.sleep(max(seconds, 0))
