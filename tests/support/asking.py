"""Ask a client in either mode and keep what came: every behaviour of the chain is shown in both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from app.chat import (
    ChatEvent,
    ChatOptions,
    ChatRequest,
    ChatResponse,
    Completed,
    Message,
    Prompt,
    UserMessage,
    well_formed,
)
from app.client import ChatClient

both_modes = pytest.mark.parametrize("stream", [False, True], ids=["call", "stream"])

EventT = TypeVar("EventT")


@dataclass(frozen=True, slots=True)
class Asked:
    """What one run gave."""

    events: list[ChatEvent]
    response: ChatResponse

    def of(self, kind: type[EventT]) -> list[EventT]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


async def ask(
    client: ChatClient,
    prompt: str | Sequence[Message] = "Hello",
    *,
    stream: bool,
    tool_calling: bool | None = None,
    conversation_id: str | None = None,
    **options: Any,
) -> Asked:
    """Run one request; its events are held to the invariant of the chain."""
    messages: Iterable[Message] = (UserMessage(prompt),) if isinstance(prompt, str) else prompt
    request = ChatRequest(
        Prompt(tuple(messages), ChatOptions(**options)), stream=stream, conversation_id=conversation_id
    )
    async with aclosing(client.run(request, tool_calling=tool_calling)) as running:
        events = [event async for event in well_formed(running)]
    last = events[-1]
    assert isinstance(last, Completed)
    return Asked(events, last.response)
