"""The ordered log of one run's events: everything a reader sees is read from here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

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


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of a run.

    Attributes:
        seq: its number, from 1, without gaps.
        round: the model call it belongs to, None before the first and at the run's end.
        event: what happened.
    """

    seq: int
    round: int | None
    event: RunEvent


class Journal(Protocol):
    """Where a run is written down. The one writer is the run; any number of readers follow."""

    async def append(self, round_: int | None, event: RunEvent) -> None:
        """Write the next entry. A `RunEnd` is the last one."""

    def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """Entries with a number above `after`: all that are there at once, then waiting for more, to the end."""


class InMemoryJournal:
    """A journal in this process. A reader never holds the writer up."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._ended = False
        self._waiting: list[asyncio.Future[None]] = []

    async def append(self, round_: int | None, event: RunEvent) -> None:
        """See `Journal.append`."""
        self._entries.append(Entry(len(self._entries) + 1, round_, event))
        self._ended = isinstance(event, RunEnd)
        waiting, self._waiting = self._waiting, []
        for reader in waiting:
            if not reader.done():
                reader.set_result(None)

    async def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """See `Journal.follow`."""
        while True:
            if batch := self._entries[after:]:
                after += len(batch)
                yield batch
            elif self._ended:
                return
            else:
                more: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(more)
                await more
