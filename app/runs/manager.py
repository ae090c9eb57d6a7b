"""Begins runs, knows those that are going, and ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from app.chat import ChatRequest
from app.client import ChatClient
from app.runs.containment import contained
from app.runs.errors import ConversationBusy, GatewayFull, ShuttingDown
from app.runs.run import Run

T = TypeVar("T")

_ENDED = "the gateway shut down before the run had ended"


class Runs:
    """The runs of one process.

    Args:
        client: drives each run's chain.
        max_active: runs that may go at once; None = any number.
        deadline: see `Run`.
    """

    def __init__(self, client: ChatClient, *, max_active: int | None = None, deadline: float | None = None) -> None:
        self._client = client
        self._max_active = max_active
        self._deadline = deadline
        self._active: dict[str, Run] = {}
        self._busy: set[str] = set()
        self._errands: set[asyncio.Task[Any]] = set()
        self._draining = False

    @property
    def active(self) -> int:
        """How many runs are going."""
        return len(self._active)

    @property
    def draining(self) -> bool:
        """Whether new runs are refused because the gateway is on its way out."""
        return self._draining

    def check_open(self) -> None:
        """Refuse what should not begin while the gateway is on its way out.

        Raises:
            ShuttingDown: it is.
        """
        if self._draining:
            raise ShuttingDown("the gateway is shutting down; ask again in a moment")

    def start(self, request: ChatRequest, *, tool_calling: bool | None = None) -> Run:
        """Begin a run. It goes on by itself until it ends or is cancelled.

        Args:
            request: what to send down the chain.
            tool_calling: see `ChatClient.run`.

        Raises:
            ConversationBusy: another run of the conversation is still going.
            GatewayFull: no more runs at once.
            ShuttingDown: the gateway is on its way out.
            ConfigurationError: see `ChatClient.run`.
        """
        self.check_open()
        if self._max_active is not None and self.active >= self._max_active:
            raise GatewayFull(f"{self.active} runs are going, as many as may; ask again in a moment")
        conversation = request.conversation_id
        if conversation is not None and conversation in self._busy:
            raise ConversationBusy(
                f"conversation {conversation!r} has a run that is still going; wait for its end and ask again"
            )
        events = self._client.run(request, tool_calling=tool_calling)
        run = Run(events, conversation_id=conversation, deadline=self._deadline)
        self._active[run.id] = run
        if conversation is not None:
            self._busy.add(conversation)
        run.task.add_done_callback(lambda _: self._forget(run))
        return run

    async def attend(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do work that is no run, and that is to end with the runs when the gateway does.

        Args:
            work: begun here. It is cancelled together with this call, and its clean-up waited for.

        Raises:
            ShuttingDown: the gateway is on its way out: the work was not begun, or not ended in time.
            Exception: what the work raised.
        """
        self.check_open()
        task = asyncio.create_task(_contained(work()))
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        try:
            await asyncio.wait([task])
        finally:
            _cancel(task)
            await asyncio.wait([task])
        if task.cancelled():
            raise ShuttingDown(_ENDED)
        return task.result()

    async def drain(self, timeout: float) -> None:
        """Refuse new runs, let those that are going end within `timeout` seconds, then end them.

        Returns when all have ended. Called again it waits again.
        """
        self._draining = True
        tasks = [*(run.task for run in self._active.values()), *self._errands]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout)
        for run in list(self._active.values()):
            run.cancel(ShuttingDown(_ENDED))
        for errand in self._errands:
            _cancel(errand)
        if late:
            await asyncio.wait(late)

    def _forget(self, run: Run) -> None:
        self._active.pop(run.id, None)
        if run.conversation_id is not None:
            self._busy.discard(run.conversation_id)


def _cancel(task: asyncio.Task[Any]) -> None:
    if not task.cancelling():  # a second cancellation would interrupt the clean-up of the first
        task.cancel()


async def _contained(work: Coroutine[Any, Any, T]) -> T:
    with contained():
        return await work
