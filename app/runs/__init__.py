"""A run is its journal of events: driven once, read by whoever comes."""

from app.runs.containment import Escaped
from app.runs.errors import (
    ConversationBusy,
    EventsGone,
    GatewayFull,
    IdempotencyKeyReused,
    RunGone,
    RunNotFound,
    RunRefused,
    ShuttingDown,
)
from app.runs.in_memory import InMemoryJournal, JournalLimits
from app.runs.journal import (
    Entry,
    Journal,
    RunCancelled,
    RunCompleted,
    RunEnd,
    RunEvent,
    RunFailed,
    RunStarted,
    Span,
)
from app.runs.manager import RunLimits, RunOptions, Runs, WhenBusy
from app.runs.readers import Reader
from app.runs.register import IdempotencyKey, Retention
from app.runs.run import OnDisconnect, Run, RunStatus

__all__ = [
    "ConversationBusy",
    "Entry",
    "Escaped",
    "EventsGone",
    "GatewayFull",
    "IdempotencyKey",
    "IdempotencyKeyReused",
    "InMemoryJournal",
    "Journal",
    "JournalLimits",
    "OnDisconnect",
    "Reader",
    "Retention",
    "Run",
    "RunCancelled",
    "RunCompleted",
    "RunEnd",
    "RunEvent",
    "RunFailed",
    "RunGone",
    "RunLimits",
    "RunNotFound",
    "RunOptions",
    "RunRefused",
    "RunStarted",
    "RunStatus",
    "Runs",
    "ShuttingDown",
    "Span",
    "WhenBusy",
]
