"""A run is its journal of events: driven once, read by whoever comes."""

from app.runs.containment import Escaped
from app.runs.errors import ConversationBusy, GatewayFull, RunRefused, ShuttingDown
from app.runs.journal import (
    Entry,
    InMemoryJournal,
    Journal,
    RunCancelled,
    RunCompleted,
    RunEnd,
    RunEvent,
    RunFailed,
    RunStarted,
)
from app.runs.manager import Runs
from app.runs.run import Run

__all__ = [
    "ConversationBusy",
    "Entry",
    "Escaped",
    "GatewayFull",
    "InMemoryJournal",
    "Journal",
    "Run",
    "RunCancelled",
    "RunCompleted",
    "RunEnd",
    "RunEvent",
    "RunFailed",
    "RunRefused",
    "RunStarted",
    "Runs",
    "ShuttingDown",
]
