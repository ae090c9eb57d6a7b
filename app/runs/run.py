"""A run as those see it who read it, in whatever process it goes on."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from app.chat import ChatResponse
from app.runs.journal import Journal, RunCancelled, RunCompleted, RunEnd, RunFailed
from app.runs.readers import Reader

RunStatus: TypeAlias = Literal["queued", "running", "completed", "cancelled", "failed"]


def new_run_id() -> str:
    """An id that no other run has, and that is larger than those that were made before it."""
    return f"run_{next(_moments):014x}{secrets.token_hex(9)}"


def _later_and_later() -> Iterator[int]:
    """Microseconds since 1970, each larger than the one before, though the clock may be set back."""
    moment = 0
    while True:
        moment = max(moment + 1, time.time_ns() // 1000)
        yield moment


_moments = _later_and_later()


class RunSummary(Protocol):
    """What a list says of a run."""

    @property
    def id(self) -> str:
        """Its own."""

    @property
    def conversation_id(self) -> str | None:
        """The conversation it is a turn of."""

    @property
    def created_at(self) -> datetime:
        """When it was begun, in UTC."""

    @property
    def ended_at(self) -> datetime | None:
        """When it ended, None while it is going."""

    @property
    def status(self) -> RunStatus:
        """How far it is."""


class Run(RunSummary, Protocol):
    """A thing of its own: readers may come and go."""

    @property
    def request_id(self) -> str | None:
        """The request that it was begun by, as the log has it."""

    @property
    def journal(self) -> Journal:
        """Its events."""

    @property
    def end(self) -> RunEnd | None:
        """The last entry's event, None while the run is going."""

    async def enter(self) -> Reader:
        """One more reader, who must `leave`.

        Raises:
            SharedStateUnavailable: it goes on in another process, which cannot be told.
        """

    async def answering(self, timeout: float) -> None:
        """Wait for the model's first event or the run's end, at most `timeout` seconds.

        Raises:
            Exception: what the run failed with before the model's first event.
        """

    async def result(self) -> ChatResponse:
        """The answer, when the run has ended; of a cancelled run what was done.

        Raises:
            Exception: what the run failed with.
        """

    async def request_cancel(self) -> None:
        """Have the run ended: its model call and its tools are cancelled. Harmless when it has ended.

        Raises:
            SharedStateUnavailable: it goes on in another process, which cannot be told.
        """


def status_of(end: RunEnd | None, *, queued: bool) -> RunStatus:
    """How far a run is.

    Args:
        end: its end.
        queued: whether it waits for an earlier run of its conversation, while it has no end.
    """
    match end:
        case RunCompleted():
            return "completed"
        case RunCancelled():
            return "cancelled"
        case RunFailed():
            return "failed"
        case None:
            return "queued" if queued else "running"
