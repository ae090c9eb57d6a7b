"""The runs of one process: those that are going, and for a while those that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from app.runs.errors import IdempotencyKeyReused, RunGone, RunNotFound
from app.runs.run import Run

_REMEMBERED = 10_000
"""Ids of forgotten runs that are told apart from those that never were."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept of runs that have ended.

    Attributes:
        runs: how many; beyond it the one that ended first is forgotten.
        seconds: for how long.
    """

    runs: int = 1_000
    seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """What a caller names a request by, so that it can be sent again without being done again.

    Attributes:
        principal: whose key it is.
        text: as the caller sent it.
        fingerprint: the same for equal requests, and only for them.
    """

    principal: str
    text: str
    fingerprint: str


class Register:
    """Finds runs by their ids, by the keys that began them, and in the order they were begun.

    Args:
        retention: what is kept of runs that have ended. Runs that are going are never forgotten.
    """

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._runs: dict[str, Run] = {}
        self._keys: dict[str, IdempotencyKey] = {}
        self._keyed: dict[tuple[str, str], str] = {}
        self._ended: dict[str, asyncio.TimerHandle] = {}
        self._forgotten: dict[str, None] = {}

    def add(self, run: Run, key: IdempotencyKey | None = None) -> None:
        """One more run, begun by `key`. It is kept while it is going, and then as long as is set."""
        self._runs[run.id] = run
        if key is not None:
            self._keys[run.id] = key
            self._keyed[key.principal, key.text] = run.id

    def end(self, run: Run) -> None:
        """The run has ended."""
        loop = asyncio.get_running_loop()
        self._ended[run.id] = loop.call_later(self._retention.seconds, self._forget, run.id)
        while len(self._ended) > self._retention.runs:
            self._forget(next(iter(self._ended)))

    def get(self, run_id: str) -> Run:
        """The run of an id.

        Raises:
            RunNotFound: there never was one.
            RunGone: it has ended and is forgotten.
        """
        if run := self._runs.get(run_id):
            return run
        if run_id in self._forgotten:
            raise RunGone(f"run {run_id!r} has ended and is no longer kept")
        raise RunNotFound(f"there is no run {run_id!r}")

    def begun_by(self, key: IdempotencyKey) -> Run | None:
        """The run that the key has begun, None where it has begun none.

        Raises:
            IdempotencyKeyReused: it has begun one for another request.
        """
        run_id = self._keyed.get((key.principal, key.text))
        if run_id is None:
            return None
        if self._keys[run_id].fingerprint != key.fingerprint:
            raise IdempotencyKeyReused(
                "this idempotency key was used for a request with another body; "
                "send the same body again, or another request with a new key"
            )
        return self._runs[run_id]

    def page(self, limit: int, *, before: str | None = None, conversation_id: str | None = None) -> list[Run]:
        """Runs, the one that was begun last first.

        Args:
            limit: how many at most.
            before: only those begun before the run of this id, which may be forgotten.
            conversation_id: only those of this conversation.
        """
        return list(islice(self._newest_first(before, conversation_id), limit))

    def _newest_first(self, before: str | None, conversation_id: str | None) -> Iterator[Run]:
        for run in reversed(self._runs.values()):
            if (before is None or run.id < before) and conversation_id in {None, run.conversation_id}:
                yield run

    def _forget(self, run_id: str) -> None:
        self._ended.pop(run_id).cancel()
        del self._runs[run_id]
        if key := self._keys.pop(run_id, None):
            del self._keyed[key.principal, key.text]
        self._forgotten[run_id] = None
        if len(self._forgotten) > _REMEMBERED:
            del self._forgotten[next(iter(self._forgotten))]
