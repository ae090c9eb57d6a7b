"""Where runs are known beyond the moment: by their ids, by the keys that began them, in the lines of conversations.

One process keeps all of it in memory (`app.runs.in_memory_store`); replicas share it (`app.runs.redis`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from app.runs.errors import ConversationBusy, IdempotencyKeyReused
from app.runs.journal import Journal
from app.runs.local_run import LocalRun
from app.runs.run import Run, RunSummary

WhenBusy: TypeAlias = Literal["reject", "queue", "cancel_previous"]
"""What to do with a run whose conversation has one that is still going: refuse it, let it wait, or end the others."""


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


class Place(Protocol):
    """A run's place in the line of its conversation."""

    @property
    def is_first(self) -> bool:
        """Whether nobody was before it when it came."""

    async def wait(self) -> None:
        """Until all that were before have given back what they held, and until somebody can tell.

        Raises:
            RunLost: others have ended the run meanwhile.
        """

    async def leave(self) -> None:
        """Let the next one in. Never fails; harmless when it has left."""


class RunStore(Protocol):
    """What is known of runs, in this process or among replicas.

    What needs to be shared raises `SharedStateUnavailable` while it cannot be.
    """

    @property
    def available(self) -> bool | None:
        """Whether what is shared can be asked. None = nothing is shared."""

    async def start(self) -> None:
        """Begin to know. What is shared need not answer yet."""

    async def claim(self, key: IdempotencyKey, run_id: str) -> str | None:
        """Let the key begin a run, unless it has begun one that is still kept.

        Returns:
            The id of the run that it has begun, None where it begins this one.

        Raises:
            IdempotencyKeyReused: it has begun one for another request.
        """

    async def unclaim(self, key: IdempotencyKey, run_id: str) -> None:
        """The run that the key was to begin was refused. Never fails."""

    async def enter(self, conversation_id: str, run_id: str, when_busy: WhenBusy) -> Place:
        """Take a place in the line of a conversation.

        Raises:
            ConversationBusy: it has a run that is still going and was not told to end, and `when_busy` is "reject".
        """

    def journal(self, run_id: str) -> Journal:
        """A new journal for a run of this process."""

    async def add(self, run: LocalRun, key: IdempotencyKey | None, *, shared: bool) -> None:
        """One more run of this process, which is about to begin.

        Args:
            run: it is kept while it is going, and then as long as is set.
            key: what has begun it.
            shared: whether it is refused when others cannot be told of it.
        """

    async def drop(self, run: LocalRun) -> None:
        """A run that was added, or was to be, does not begin. Never fails."""

    def ending(self, run: LocalRun) -> Awaitable[None] | None:
        """A run of this process was told to end. Returns what to wait for until others know; that never fails."""

    async def end(self, run: LocalRun) -> None:
        """A run of this process has ended. Never fails."""

    async def confirm(self, run_id: str) -> None:
        """See to it that a run of this process is still that: others take one for lost when this process was silent.

        Raises:
            RunLost: it is not.
        """

    async def get(self, run_id: str) -> Run:
        """A run, of whatever process.

        Raises:
            RunNotFound: there never was one of this id.
            RunGone: it has ended and is no longer kept.
        """

    async def page(
        self, limit: int, *, before: str | None = None, conversation_id: str | None = None
    ) -> list[RunSummary]:
        """Runs, the one that was begun last first.

        Args:
            limit: how many at most.
            before: only those begun before the run of this id, which may be forgotten.
            conversation_id: only those of this conversation.
        """

    async def is_read_elsewhere(self, run: LocalRun) -> bool:
        """Whether another process has readers of a run of this one. It is told when the last one leaves, too."""

    async def aclose(self) -> None:
        """Give back what the store holds."""


def conversation_busy(conversation_id: str) -> ConversationBusy:
    """What whoever may not wait for the conversation is told."""
    return ConversationBusy(
        f"conversation {conversation_id!r} has a run that is still going; wait for its end and ask again, or "
        'say what to do by "when_busy": "queue" or "cancel_previous"'
    )


def key_reused() -> IdempotencyKeyReused:
    """What whoever uses a key for another request is told."""
    return IdempotencyKeyReused(
        "this idempotency key was used for a request with another body; "
        "send the same body again, or another request with a new key"
    )
