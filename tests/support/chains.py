"""Run advisors around a model in either mode and keep what came: every behaviour is shown in both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from app.chat import (
    Advisor,
    ChatEvent,
    ChatEvents,
    ChatModel,
    ChatOptions,
    ChatRequest,
    ChatResponse,
    Completed,
    Message,
    Prompt,
    RoundStarted,
    TextDelta,
    UserMessage,
    chain,
    one_by_one,
    well_formed,
)

EventT = TypeVar("EventT")


@dataclass(frozen=True, slots=True)
class Asked:
    """What one run gave."""

    events: list[ChatEvent]
    response: ChatResponse

    def of(self, kind: type[EventT]) -> list[EventT]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def last_text(self) -> str:
        """The text of the last round as it was streamed."""
        text = ""
        for event in self.events:
            if isinstance(event, RoundStarted):
                text = ""
            elif isinstance(event, TextDelta):
                text += event.text
        return text


def request_of(
    prompt: str | Sequence[Message] = "Hello", *, stream: bool, conversation_id: str | None = None, **options: Any
) -> ChatRequest:
    """A request for a text or for messages; further arguments are those of `ChatOptions`."""
    messages: Iterable[Message] = (UserMessage(prompt),) if isinstance(prompt, str) else prompt
    return ChatRequest(Prompt(tuple(messages), ChatOptions(**options)), stream=stream, conversation_id=conversation_id)


async def collect(events: ChatEvents) -> Asked:
    """All events of a run, held to the invariant of the chain."""
    async with aclosing(events):
        kept = [event async for event in well_formed(events)]
    last = kept[-1]
    assert isinstance(last, Completed)
    return Asked(kept, last.response)


async def run(
    advisors: Iterable[Advisor],
    model: ChatModel,
    prompt: str | Sequence[Message] = "Hello",
    /,
    *,
    stream: bool,
    conversation_id: str | None = None,
    **options: Any,
) -> Asked:
    """Send one request down a chain, see `request_of`."""
    request = request_of(prompt, stream=stream, conversation_id=conversation_id, **options)
    return await collect(one_by_one(chain(advisors, model)(request)))
