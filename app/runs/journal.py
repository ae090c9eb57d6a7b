"""The ordered log of one run's events: everything a reader sees is read from here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from app.chat import ChatResponse
from app.chat.events import Delta


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The first event of every run."""


@dataclass(frozen=True, slots=True)
class RunCompleted:
    """The run has its answer."""

    response: ChatResponse


@dataclass(frozen=True, slots=True)
class RunCancelled:
    """The run was ended from outside; `response` is what was done until then."""

    response: ChatResponse


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The run broke."""

    error: Exception


RunEnd: TypeAlias = RunCompleted | RunCancelled | RunFailed
RunEvent: TypeAlias = RunStarted | Delta | RunEnd


class Entry(NamedTuple):
    """One event of a run.

    Attributes:
        seq: its number, from 1, without gaps.
        round: the model call it belongs to, at the run's end the last one; None before the first.
        event: what happened.
    """

    seq: int
    round: int | None
    event: RunEvent


class Span(NamedTuple):
    """Which entries a journal holds: the numbers of the oldest and of the newest one, (1, 0) while it is empty."""

    first: int
    last: int


class Journal(Protocol):
    """Where a run is written down. The one writer is the run; any number of readers follow.

    It is bounded: where entries are too many, the oldest are dropped. The last one never is.
    """

    async def append(self, round_: int | None, *events: RunEvent) -> None:
        """Write the next entries, all of one round. A `RunEnd` is the last one."""

    async def span(self) -> Span:
        """Which entries are there."""

    def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """Entries with a number above `after`: many at once where they are there, then waiting for more, to the end.

        Raises:
            EventsGone: while iterating: the next entry was dropped before this reader came to it.
            RunGone: while iterating: all of them were.
        """
