"""What the model answers counts only while its run is still this process's.

A process that was stopped for a while, and whose runs others have taken for lost, finds the model's answers waiting
when it goes on. Its tools are not to run then, and nothing is to be remembered: somebody may have asked again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from app.chat import BaseAdvisor, ChatRequest, ChatResponse

Confirm: TypeAlias = Callable[[], Awaitable[None]]
"""Raises `RunLost` when the run is not this process's any more."""

_confirm: ContextVar[Confirm | None] = ContextVar("confirm", default=None)


class Fence(BaseAdvisor):
    """Stands next to the model and lets its answers through only to a run that is still this process's."""

    async def after(self, response: ChatResponse, request: ChatRequest) -> ChatResponse:
        """See `BaseAdvisor.after`.

        Raises:
            RunLost: others have ended the run.
        """
        del request
        if confirm := _confirm.get():
            await confirm()
        return response


@contextmanager
def fenced(confirm: Confirm) -> Iterator[None]:
    """Have the tasks that are begun in the block confirm by this that their run is still this process's."""
    token = _confirm.set(confirm)
    try:
        yield
    finally:
        _confirm.reset(token)
