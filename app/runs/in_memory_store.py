"""What is known of the runs of a single process: those that are going, and for a while those that have ended."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice

from app.runs.errors import RunGone, RunNotFound
from app.runs.in_memory_journal import InMemoryJournal, JournalLimits
from app.runs.journal import Journal
from app.runs.local_run import LocalRun
from app.runs.run import Run, RunSummary
from app.runs.store import IdempotencyKey, Retention, WhenBusy, conversation_busy, key_reused

_REMEMBERED = 10_000
"""Ids of forgotten runs that are told apart from those that never were."""


class InMemoryRunStore:
    """A `RunStore` of one process. Nothing but a place in a line is ever waited for.

    What is forgotten oldest first stands in ordered dictionaries: a plain one looks for its oldest key among all that
    were there before it.

    Args:
        limits: how much is kept of one run.
        retention: what is kept of runs that have ended. Runs that are going are never forgotten.
    """

    def __init__(self, limits: JournalLimits | None = None, retention: Retention | None = None) -> None:
        self._limits = limits
        self._retention = retention or Retention()
        self._runs: dict[str, LocalRun] = {}
        self._keys: dict[tuple[str, str], tuple[IdempotencyKey, str]] = {}
        self._begun_by: dict[str, IdempotencyKey] = {}
        self._lines: dict[str, list[_Place]] = {}
        self._ended: OrderedDict[str, float] = OrderedDict()
        self._forgetting: asyncio.TimerHandle | None = None
        self._forgotten: OrderedDict[str, None] = OrderedDict()

    async def start(self) -> None:
        """See `RunStore.start`."""

    @property
    def available(self) -> None:
        """See `RunStore.available`."""
        return None

    async def claim(self, key: IdempotencyKey, run_id: str) -> str | None:
        """See `RunStore.claim`."""
        known, begun = self._keys.setdefault((key.principal, key.text), (key, run_id))
        if known.fingerprint != key.fingerprint:
            raise key_reused()
        return None if begun == run_id else begun

    async def unclaim(self, key: IdempotencyKey, run_id: str) -> None:
        """See `RunStore.unclaim`."""
        if self._keys.get((key.principal, key.text)) == (key, run_id):
            del self._keys[key.principal, key.text]

    async def enter(self, conversation_id: str, run_id: str, when_busy: WhenBusy) -> _Place:
        """See `RunStore.enter`."""
        line = self._lines.setdefault(conversation_id, [])
        before = [self._runs.get(place.run_id) for place in line]  # none where something else holds the conversation
        if when_busy == "reject" and any(run is None or not run.is_ending for run in before):
            raise conversation_busy(conversation_id)
        if when_busy == "cancel_previous":
            for run in before:
                if run is not None:
                    run.cancel()
        place = _Place(self._lines, conversation_id, run_id)
        line.append(place)
        return place

    def journal(self, run_id: str) -> Journal:
        """See `RunStore.journal`."""
        del run_id
        return InMemoryJournal(self._limits)

    async def add(self, run: LocalRun, key: IdempotencyKey | None, *, shared: bool) -> None:
        """See `RunStore.add`."""
        del shared
        self._runs[run.id] = run
        if key is not None:
            self._begun_by[run.id] = key

    async def drop(self, run: LocalRun) -> None:
        """See `RunStore.drop`."""
        self._runs.pop(run.id, None)
        self._begun_by.pop(run.id, None)

    def ending(self, run: LocalRun) -> None:
        """See `RunStore.ending`."""

    async def end(self, run: LocalRun) -> None:
        """See `RunStore.end`."""
        self._ended[run.id] = asyncio.get_running_loop().time() + self._retention.seconds
        while len(self._ended) > self._retention.runs:
            self._forget()
        self._await_the_next()

    async def confirm(self, run_id: str) -> None:
        """See `RunStore.confirm`."""

    async def get(self, run_id: str) -> Run:
        """See `RunStore.get`."""
        if run := self._runs.get(run_id):
            return run
        if run_id in self._forgotten:
            raise RunGone(f"run {run_id!r} has ended and is no longer kept")
        raise RunNotFound(f"there is no run {run_id!r}")

    async def page(
        self, limit: int, *, before: str | None = None, conversation_id: str | None = None
    ) -> list[RunSummary]:
        """See `RunStore.page`."""
        return list(islice(self._newest_first(before, conversation_id), limit))

    async def is_read_elsewhere(self, run: LocalRun) -> bool:
        """See `RunStore.is_read_elsewhere`."""
        del run
        return False

    async def aclose(self) -> None:
        """See `RunStore.aclose`."""
        if self._forgetting is not None:
            self._forgetting.cancel()

    def _newest_first(self, before: str | None, conversation_id: str | None) -> Iterator[RunSummary]:
        for run in reversed(self._runs.values()):
            if (before is None or run.id < before) and conversation_id in {None, run.conversation_id}:
                yield run

    def _await_the_next(self) -> None:
        """One timer for all: they are forgotten in the order in which they ended."""
        if self._forgetting is None and self._ended:
            due = next(iter(self._ended.values()))
            self._forgetting = asyncio.get_running_loop().call_at(due, self._forget_old)

    def _forget_old(self) -> None:
        self._forgetting = None
        now = asyncio.get_running_loop().time()
        while self._ended and next(iter(self._ended.values())) <= now:
            self._forget()
        self._await_the_next()

    def _forget(self) -> None:
        """Forget the run that ended first."""
        run_id, _ = self._ended.popitem(last=False)
        del self._runs[run_id]
        if key := self._begun_by.pop(run_id, None):
            del self._keys[key.principal, key.text]
        self._forgotten[run_id] = None
        if len(self._forgotten) > _REMEMBERED:
            self._forgotten.popitem(last=False)


class _Place:
    """A place in the line of a conversation. See `Place`."""

    def __init__(self, lines: dict[str, list[_Place]], conversation_id: str, run_id: str) -> None:
        self._lines = lines
        self._conversation_id = conversation_id
        self._before: Sequence[_Place] = tuple(lines[conversation_id])
        self._left = asyncio.Event()
        self.run_id = run_id

    @property
    def is_first(self) -> bool:
        """See `Place.is_first`."""
        return not self._before

    async def wait(self) -> None:
        """See `Place.wait`."""
        for place in self._before:
            await place._left.wait()  # noqa: SLF001 - another of these

    async def leave(self) -> None:
        """See `Place.leave`."""
        if self._left.is_set():
            return
        self._left.set()
        line = self._lines[self._conversation_id]
        line.remove(self)
        if not line:
            del self._lines[self._conversation_id]
