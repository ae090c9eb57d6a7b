"""A run is its journal of events: driven once, read by whoever comes."""

from app.runs.containment import Escaped
from app.runs.errors import (
    ConversationBusy,
    EventsGone,
    GatewayFull,
    IdempotencyKeyReused,
    RunGone,
    RunLost,
    RunNotFound,
    RunRefused,
    SharedStateUnavailable,
    ShuttingDown,
)
from app.runs.fence import Fence
from app.runs.in_memory_journal import InMemoryJournal, JournalLimits
from app.runs.in_memory_store import InMemoryRunStore
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
from app.runs.local_run import LocalRun, OnDisconnect
from app.runs.manager import Runs
from app.runs.options import RunLimits, RunOptions
from app.runs.readers import Reader
from app.runs.run import Run, RunStatus, RunSummary
from app.runs.store import IdempotencyKey, Retention, RunStore, WhenBusy

__all__ = [
    "ConversationBusy",
    "Entry",
    "Escaped",
    "EventsGone",
    "Fence",
    "GatewayFull",
    "IdempotencyKey",
    "IdempotencyKeyReused",
    "InMemoryJournal",
    "InMemoryRunStore",
    "Journal",
    "JournalLimits",
    "LocalRun",
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
    "RunLost",
    "RunNotFound",
    "RunOptions",
    "RunRefused",
    "RunStarted",
    "RunStatus",
    "RunStore",
    "RunSummary",
    "Runs",
    "SharedStateUnavailable",
    "ShuttingDown",
    "Span",
    "WhenBusy",
]
