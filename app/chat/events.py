"""What happens during a run, as typed values. Everything on the wire is a projection of these.

Whoever swallows a `Completed` that was not the last (the tool loop, a retry) yields a `RoundCompleted` in its
place, so that no model call goes unseen.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias

from app.chat.messages import JsonValue, ToolCall
from app.chat.response import ChatResponse, FinishReason, Usage


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """A model call begins; all that follows up to the next one belongs to this round."""

    round: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model begins to write a call."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """A piece of the JSON text of a call's arguments."""

    call_id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallReady:
    """The model has written a call to its end."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolCallProgress:
    """A running tool reports how far it is."""

    call_id: str
    name: str
    message: str | None = None
    current: float | None = None
    total: float | None = None
    data: JsonValue = None


@dataclass(frozen=True, slots=True)
class ToolCallSucceeded:
    """A tool gave its result. `ms` is how long it took."""

    call_id: str
    name: str
    result: str
    ms: float


@dataclass(frozen=True, slots=True)
class ToolCallErrored:
    """A call gave an error instead of a result. `ms` is how long it took."""

    call_id: str
    name: str
    error: str
    ms: float


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """The model has had its say in this round and its tools are run next.

    It is for whoever has to tell what was done when a run ends before its tools do: the round's own end,
    `RoundCompleted` or `Completed`, says the same again. It is no part of a run's journal.
    """

    response: ChatResponse


@dataclass(frozen=True, slots=True)
class RoundCompleted:
    """A round that others follow has ended, its tools included. See `Round` for what it tells."""

    round: int
    finish_reason: FinishReason
    usage: Usage
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """The end: the whole answer. Nothing comes after it."""

    response: ChatResponse


Delta: TypeAlias = (
    RoundStarted
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCallArguments
    | ToolCallReady
    | ToolCallProgress
    | ToolCallSucceeded
    | ToolCallErrored
    | RoundCompleted
)


@dataclass(frozen=True, slots=True)
class Deltas:
    """Deltas that the model server sent together, in their order; at least one.

    None of them begins a round. They are taken down the chain in one step instead of one each. Only those see them who
    say that they can take them: see `passes_deltas`, `BatchingModel` and `ChatClient.run`. All others are given the
    deltas one by one.
    """

    each: tuple[Delta, ...]


ChatEvent: TypeAlias = Delta | Deltas | ModelAnswered | Completed
ChatEvents: TypeAlias = AsyncGenerator[ChatEvent, None]


async def one_by_one(events: ChatEvents) -> ChatEvents:
    """The same events with each delta by itself. The events given are closed with these."""
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Deltas):
                for delta in event.each:
                    yield delta
            else:
                yield event


async def well_formed(events: AsyncIterator[ChatEvent]) -> AsyncIterator[ChatEvent]:
    """Pass events through and hold them to the invariant: deltas, then exactly one `Completed`, then nothing.

    Raises:
        AssertionError: the invariant is broken; the message says how.
    """
    completed = False
    async for event in events:
        if completed:
            raise AssertionError(f"{type(event).__name__} came after Completed")
        completed = isinstance(event, Completed)
        yield event
    if not completed:
        raise AssertionError("the events ended without Completed")
