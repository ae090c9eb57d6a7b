"""Begins runs, knows them while they go and for a while after, and ends them."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from app.chat import ChatEvents, ChatRequest
from app.client import ChatClient
from app.runs.containment import contained
from app.runs.errors import GatewayFull, RunGone, RunNotFound, SharedStateUnavailable, ShuttingDown
from app.runs.fence import fenced
from app.runs.in_memory_store import InMemoryRunStore
from app.runs.local_run import LocalRun
from app.runs.options import RunLimits, RunOptions
from app.runs.run import Run, RunSummary, new_run_id
from app.runs.store import IdempotencyKey, Place, RunStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ENDED = "the gateway shut down before the run had ended"

_JOINING = 5.0
"""Seconds to wait for a run that is being begun by the same key."""
_JOINING_PAUSE = 0.02

_CLEAN_UP = 0.5
"""Seconds that runs have to give back what they hold after they were ended, before their readers are told the end."""


class Runs:
    """The runs of one process.

    Args:
        client: drives each run's chain.
        limits: how much there may be of them.
        store: where they are known; None = in the memory of this process. Whoever made it closes it.
    """

    def __init__(self, client: ChatClient, limits: RunLimits | None = None, store: RunStore | None = None) -> None:
        self._client = client
        self._limits = limits or RunLimits()
        self._store = store or InMemoryRunStore()
        self._active: dict[str, LocalRun] = {}
        self._starting: dict[str, asyncio.Future[None]] = {}
        self._beginning = 0
        self._errands: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        self._forsaken: set[asyncio.Task[None]] = set()
        self._draining = False
        self._drained = asyncio.Event()
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

    @property
    def store(self) -> RunStore:
        """Where runs are known."""
        return self._store

    async def start(self, request: ChatRequest, options: RunOptions | None = None) -> LocalRun:
        """Begin a run. It goes on by itself until it ends or is cancelled.

        Args:
            request: what to send down the chain.
            options: how it is to be run.

        Raises:
            ConversationBusy: another run of the conversation is still going, and this one is not to wait for it.
            GatewayFull: no more runs at once.
            ShuttingDown: the gateway is on its way out.
            SharedStateUnavailable: other replicas would have to be told of it, and cannot be.
            ConfigurationError: see `ChatClient.run`.
        """
        return await self._start(new_run_id(), request, options or RunOptions(), None)

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
        run_id = new_run_id()
        patience = _JOINING
        while holder := await self._store.claim(key, run_id):
            try:
                return await self.get(holder), False
            except (RunNotFound, RunGone):  # it is being begun by another replica, or was refused or forgotten just now
                if patience <= 0:
                    raise SharedStateUnavailable("the run that this key has begun cannot be found yet") from None
            await asyncio.sleep(_JOINING_PAUSE)
            patience -= _JOINING_PAUSE
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._starting[run_id] = begun
        try:
            return await self._start(run_id, request, options or RunOptions(), key), True
        except BaseException:
            await self._store.unclaim(key, run_id)
            raise
        finally:
            del self._starting[run_id]
            begun.set_result(None)

    async def get(self, run_id: str) -> Run:
        """A run that is going, or has ended not long ago.

        Raises:
            RunNotFound: there never was one of this id.
            RunGone: it has ended and is no longer kept.
        """
        if starting := self._starting.get(run_id):
            await asyncio.wait([starting])
        return self._active.get(run_id) or await self._store.get(run_id)

    async def page(
        self, limit: int, *, before: str | None = None, conversation_id: str | None = None
    ) -> list[RunSummary]:
        """Runs that are going or have ended not long ago, the newest first. See `RunStore.page`."""
        return await self._store.page(limit, before=before, conversation_id=conversation_id)

    @asynccontextmanager
    async def between_runs(self, conversation_id: str) -> AsyncIterator[None]:
        """Hold a conversation while no run of it is going.

        Raises:
            ConversationBusy: one is.
            SharedStateUnavailable: nobody can tell.
        """
        place = await self._store.enter(conversation_id, new_run_id(), "reject")
        try:
            if not place.is_first:
                await place.wait()
            yield
        finally:
            await place.leave()

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
            self._ending.add_done_callback(lambda _: self._drained.set())
        alarm = asyncio.get_running_loop().call_later(timeout, self._time_is_up.set)
        try:
            await asyncio.wait([self._ending])
        finally:
            alarm.cancel()

    async def drained(self) -> None:
        """Wait until somebody has drained it."""
        await self._drained.wait()

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

    async def _start(
        self, run_id: str, request: ChatRequest, options: RunOptions, key: IdempotencyKey | None
    ) -> LocalRun:
        self.check_open()
        self._check_room()
        events = self._client.run(request, tool_calling=options.tool_calling, batched=True)
        self._beginning += 1
        try:
            run = await self._known(run_id, request, events, options, key)
            with fenced(partial(_confirmed, weakref.ref(self._store), run_id)):
                run.begin()
        finally:
            self._beginning -= 1
        self._active[run.id] = run
        run.task.add_done_callback(lambda _: self._active.pop(run.id))
        return run

    def _check_room(self) -> None:
        limit = self._limits.active
        if limit is None or len(self._active) + self._beginning < limit:
            return
        going = sum(run.end is None for run in self._active.values()) + self._beginning  # some have just ended
        if going >= limit:
            raise GatewayFull(f"{going} runs are going, as many as may; ask again in a moment")

    async def _known(
        self, run_id: str, request: ChatRequest, events: ChatEvents, options: RunOptions, key: IdempotencyKey | None
    ) -> LocalRun:
        """A run that may begin: it has its place in its conversation, and all know of it who have to."""
        place: Place | None = None
        if request.conversation_id is not None:
            place = await self._store.enter(request.conversation_id, run_id, options.when_busy)
        run = LocalRun(
            events,
            run_id=run_id,
            journal=self._store.journal(run_id),
            conversation_id=request.conversation_id,
            turn=None if place is None or place.is_first else place.wait,
            release=None if place is None else place.leave,
            deadline=self._limits.deadline,
            on_disconnect=options.on_disconnect,
            abandoned=self._abandoned,
            grace=self._limits.grace,
            ending=self._store.ending,
            ended=self._store.end,
            request_id=options.request_id,
        )
        needs_others = key is not None or place is not None or options.on_disconnect == "continue"
        try:
            await self._store.add(run, key, shared=needs_others)
            self.check_open()  # whoever drains has not waited for this one
        except BaseException:
            await self._store.drop(run)
            if place is not None:
                await place.leave()
            raise
        return run

    def _abandoned(self, run: LocalRun) -> None:
        task = asyncio.create_task(self._cancel_unread(run))
        self._forsaken.add(task)
        task.add_done_callback(self._forsaken.discard)

    async def _cancel_unread(self, run: LocalRun) -> None:
        if not await self._store.is_read_elsewhere(run) and not run.readers.present:
            run.cancel()


async def _confirmed(store: weakref.ref[RunStore], run_id: str) -> None:
    """Confirm a run by what its task, and the timers that it has called off, can carry without keeping it alive."""
    if (known := store()) is not None:
        await known.confirm(run_id)


def _cancel(task: asyncio.Task[Any]) -> None:
    if not task.cancelling():  # a second cancellation would interrupt the clean-up of the first
        task.cancel()


async def _contained(work: Coroutine[Any, Any, T]) -> T:
    with contained():
        return await work
