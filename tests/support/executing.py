"""Run a batch of tool calls in either mode: every behaviour of the manager is shown in both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from app.chat import (
    AssistantMessage,
    Message,
    Tool,
    ToolCallErrored,
    ToolCallProgress,
    ToolCallSucceeded,
    ToolResult,
    UserMessage,
)
from app.tooling.manager import ToolCallingManager, ToolExecution
from tests.support.gates import PATIENCE

QUESTION = UserMessage("How deep is the harbour?")

EventT = TypeVar("EventT")


@dataclass(frozen=True, slots=True)
class Executed:
    """What one batch gave; without events where it was not streamed."""

    events: list[ToolCallProgress | ToolCallSucceeded | ToolCallErrored]
    execution: ToolExecution

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results in the order asked."""
        return self.execution.message.results

    @property
    def texts(self) -> list[str]:
        """Their texts."""
        return [result.content for result in self.results]

    @property
    def failed(self) -> list[bool]:
        """Whether each is an error."""
        return [result.is_error for result in self.results]

    def of(self, kind: type[EventT]) -> list[EventT]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


async def execute(
    message: AssistantMessage,
    tools: Sequence[Tool],
    *,
    stream: bool,
    manager: ToolCallingManager | None = None,
    history: Sequence[Message] = (QUESTION,),
    **about: Any,
) -> Executed:
    """Run the calls of a message. Whatever the test is about, the events of a stream must tell the same as its end."""
    manager = manager or ToolCallingManager()
    async with asyncio.timeout(PATIENCE):
        if not stream:
            return Executed([], await manager.call(message, tools=tools, history=history, **about))
        async with aclosing(manager.stream(message, tools=tools, history=history, **about)) as running:
            *events, last = [event async for event in running]
    assert isinstance(last, ToolExecution)
    executed = Executed([event for event in events if not isinstance(event, ToolExecution)], last)
    assert len(executed.events) == len(events), "there is one execution, at the end"
    ends = [_end(event) for event in executed.events if not isinstance(event, ToolCallProgress)]
    assert sorted(ends) == sorted((result.id, result.content, result.is_error) for result in executed.results)
    return executed


def _end(event: ToolCallSucceeded | ToolCallErrored) -> tuple[str, str, bool]:
    if isinstance(event, ToolCallErrored):
        return event.call_id, event.error, True
    return event.call_id, event.result, False
