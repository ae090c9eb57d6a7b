"""Begins runs, knows them while they go and for a while after, and ends them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from app.chat import ChatRequest
from app.client import ChatClient
from app.runs.containment import contained
from app.runs.errors import ConversationBusy, GatewayFull, ShuttingDown
from app.runs.in_memory import InMemoryJournal, JournalLimits
from app.runs.register import IdempotencyKey, Register, Retention
from app.runs.run import OnDisconnect, Run

logger = logging.getLogger(__name__)

T = TypeVar("T")

WhenBusy: TypeAlias = Literal["reject", "queue", "cancel_previous"]
"""What to do with a run whose conversation has one that is still going: refuse it, let it wait, or end the others."""

_ENDED = "the gateway shut down before the run had ended"

_CLEAN_UP = 0.5
"""Seconds that runs have to give back what they hold after they were ended, before their readers are told the end."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How much there may be of runs.

    Attributes:
        active: how many may be going at once, those that wait for their conversation included; None = any number.
        deadline: seconds that one may take, see `Run`; None = any number.
        grace: seconds in which a reader may come back before a run that nobody reads is cancelled.
        journal: what is kept of one.
        retention: what is kept of those that have ended.
    """

    active: int | None = None
    deadline: float | None = None
    grace: float = 0.0
    journal: JournalLimits = field(default_factory=JournalLimits)
    retention: Retention = field(default_factory=Retention)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How one run is to be run.

    Attributes:
        tool_calling: see `ChatClient.run`.
        when_busy: what to do when another run of the conversation is still going. One that was told to end is waited
            for in any case.
        on_disconnect: see `Run`.
        request_id: see `Run`.
    """

    tool_calling: bool | None = None
    when_busy: WhenBusy = "reject"
    on_disconnect: OnDisconnect = "cancel"
    request_id: str | None = None


class Runs:
    """The runs of one process.

    Args:
        client: drives each run's chain.
        limits: how much there may be of them.
    """

    def __init__(self, client: ChatClient, limits: RunLimits | None = None) -> None:
        self._client = client
        self._limits = limits or RunLimits()
        self._register = Register(self._limits.retention)
        self._active: dict[str, Run] = {}
        self._lines: dict[str, list[Run]] = {}
        self._errands: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        self._draining = False
        self._ending: asyncio.Task[None] | None = None
        self._time_is_up = asyncio.Event()

    @property
    def active(self) -> int:
        """How many runs are going."""
        return len(self._active)

    @property
    def draining(self) -> bool:
        """Whether new runs are refused because the gateway is on its way out."""
        return self._draining

    def close(self) -> None:
        """Refuse new runs from now on."""
        self._draining = True

    def check_open(self) -> None:
        """Refuse what should not begin while the gateway is on its way out.

        Raises:
            ShuttingDown: it is.
        """
        if self._draining:
            raise ShuttingDown("the gateway is shutting down; ask again in a moment")

    async def start(self, request: ChatRequest, options: RunOptions | None = None) -> Run:
        """Begin a run. It goes on by itself until it ends or is cancelled.

        Args:
            request: what to send down the chain.
            options: how it is to be run.

        Raises:
            ConversationBusy: another run of the conversation is still going, and this one is not to wait for it.
            GatewayFull: no more runs at once.
            ShuttingDown: the gateway is on its way out.
            ConfigurationError: see `ChatClient.run`.
        """
        return self._start(request, options or RunOptions(), None)

    async def start_once(
        self, key: IdempotencyKey, request: ChatRequest, options: RunOptions | None = None
    ) -> tuple[Run, bool]:
        """Begin a run, unless the key has begun one that is still kept.

        Args:
            key: what the caller names the request by.
            request: what to send down the chain.
            options: how it is to be run.

        Returns:
            The run of the key, and whether it was begun by this call.

        Raises:
            IdempotencyKeyReused: the key has begun a run for another request.
            RunRefused: see `start`. The key has begun nothing then.
            ConfigurationError: see `ChatClient.run`.
        """
        if run := self._register.begun_by(key):
            return run, False
        return self._start(request, options or RunOptions(), key), True

    async def get(self, run_id: str) -> Run:
        """A run that is going, or has ended not long ago.

        Raises:
            RunNotFound: there never was one of this id.
            RunGone: it has ended and is no longer kept.
        """
        return self._register.get(run_id)

    async def page(self, limit: int, *, before: str | None = None, conversation_id: str | None = None) -> list[Run]:
        """Runs that are going or have ended not long ago, the newest first. See `Register.page`."""
        return self._register.page(limit, before=before, conversation_id=conversation_id)

    async def attend(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do work that is no run, and that is to end with the runs when the gateway does.

        Args:
            work: begun here. It is cancelled together with this call, and its clean-up waited for, but not longer than
                the gateway has time.

        Raises:
            ShuttingDown: the gateway is on its way out: the work was not begun, or not ended in time.
            Exception: what the work raised.
        """
        self.check_open()
        task = asyncio.create_task(_contained(work()))
        self._errands[task] = given_up = asyncio.get_running_loop().create_future()
        task.add_done_callback(self._errands.pop)
        try:
            await asyncio.wait([task, given_up], return_when=asyncio.FIRST_COMPLETED)
        finally:
            _cancel(task)
            await asyncio.wait([task, given_up], return_when=asyncio.FIRST_COMPLETED)
        if not task.done() or task.cancelled():
            raise ShuttingDown(_ENDED)
        return task.result()

    async def drain(self, timeout: float) -> None:
        """Refuse new runs, let those that are going end within `timeout` seconds, then end them.

        Returns when all have ended, or half a second after they were told to: the readers of a run that does not
        give back what it holds are told its end all the same. However many call it, there is one end that they all
        wait for, and the shortest time counts.
        """
        self.close()
        if self._ending is None:
            self._ending = asyncio.create_task(self._end_all())
        alarm = asyncio.get_running_loop().call_later(timeout, self._time_is_up.set)
        try:
            await asyncio.wait([self._ending])
        finally:
            alarm.cancel()

    async def _end_all(self) -> None:
        going = [*(run.task for run in self._active.values()), *self._errands]
        if not going:
            return
        ended = asyncio.create_task(asyncio.wait(going))
        time_is_up = asyncio.create_task(self._time_is_up.wait())
        await asyncio.wait([ended, time_is_up], return_when=asyncio.FIRST_COMPLETED)
        time_is_up.cancel()
        if ended.done():
            return
        error = ShuttingDown(_ENDED)
        for run in self._active.values():
            run.cancel(error)
        for errand in self._errands:
            _cancel(errand)
        await asyncio.wait([ended], timeout=_CLEAN_UP)
        ended.cancel()
        if stuck := len(self._active) + len(self._errands):
            logger.warning("%d runs and calls do not end; what they hold is left behind", stuck)
        for given_up in self._errands.values():
            given_up.set_result(None)
        for run in list(self._active.values()):
            await run.abandon(error)

    def _start(self, request: ChatRequest, options: RunOptions, key: IdempotencyKey | None) -> Run:
        self.check_open()
        if self._limits.active is not None and self.active >= self._limits.active:
            raise GatewayFull(f"{self.active} runs are going, as many as may; ask again in a moment")
        before = self._line(request.conversation_id, options.when_busy)
        events = self._client.run(request, tool_calling=options.tool_calling)
        if options.when_busy == "cancel_previous":
            for earlier in before:
                earlier.cancel()
        run = Run(
            events,
            journal=InMemoryJournal(self._limits.journal),
            conversation_id=request.conversation_id,
            turn=_ended(before) if before else None,
            deadline=self._limits.deadline,
            on_disconnect=options.on_disconnect,
            grace=self._limits.grace,
            request_id=options.request_id,
        )
        self._active[run.id] = run
        self._register.add(run, key)
        if run.conversation_id is not None:
            self._lines.setdefault(run.conversation_id, []).append(run)
        run.task.add_done_callback(lambda _: self._ended(run))
        return run

    def _line(self, conversation_id: str | None, when_busy: WhenBusy) -> list[Run]:
        """The runs that one more of the conversation has to wait for."""
        if conversation_id is None:
            return []
        before = list(self._lines.get(conversation_id, ()))
        if when_busy == "reject" and any(not run.is_ending for run in before):
            raise ConversationBusy(
                f"conversation {conversation_id!r} has a run that is still going; wait for its end and ask again, or "
                'say what to do by "when_busy": "queue" or "cancel_previous"'
            )
        return before

    def _ended(self, run: Run) -> None:
        del self._active[run.id]
        self._register.end(run)
        if run.conversation_id is not None:
            line = self._lines[run.conversation_id]
            line.remove(run)
            if not line:
                del self._lines[run.conversation_id]


def _ended(runs: list[Run]) -> Callable[[], Coroutine[Any, Any, object]]:
    """What waits until they have given back all they held."""
    tasks = [run.task for run in runs]
    return lambda: asyncio.wait(tasks)


def _cancel(task: asyncio.Task[Any]) -> None:
    if not task.cancelling():  # a second cancellation would interrupt the clean-up of the first
        task.cancel()


async def _contained(work: Coroutine[Any, Any, T]) -> T:
    with contained():
        return await work
