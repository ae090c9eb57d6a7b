"""Read a run to its end."""

from __future__ import annotations

from app.runs import Entry, Run, RunEvent


async def entries(run: Run) -> list[Entry]:
    """All that its journal holds, when it has ended."""
    return [entry async for batch in run.journal.follow() for entry in batch]


async def events(run: Run) -> list[RunEvent]:
    """The events of its entries."""
    return [entry.event for entry in await entries(run)]
