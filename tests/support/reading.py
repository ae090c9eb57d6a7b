"""Reading a body in the ways a network may cut it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from app.chat import (
    ChatEvent,
    ChatResponse,
    Completed,
    Deltas,
    ModelError,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallReady,
    ToolCallStarted,
)
from app.providers.openai.reader import ChatCompletionReader

WAYS = ("one read", "byte by byte", "random reads")


@dataclass(frozen=True)
class Reading:
    """What a reader made of a body: the events, and the error that ended them."""

    events: tuple[ChatEvent, ...]
    error: ModelError | None = None

    @property
    def response(self) -> ChatResponse:
        """The whole answer."""
        if self.error is not None:
            raise self.error
        last = self.events[-1]
        assert isinstance(last, Completed)
        assert not any(isinstance(event, Completed) for event in self.events[:-1])
        return last.response

    @property
    def text(self) -> str:
        """The text deltas, joined."""
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def reasoning(self) -> str:
        """The reasoning deltas, joined."""
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))

    @property
    def told_calls(self) -> dict[str, tuple[str, str]]:
        """By call id, the name and the joined arguments that the deltas told."""
        told: dict[str, tuple[str, str]] = {}
        for event in self.events:
            if isinstance(event, ToolCallStarted):
                assert event.call_id not in told, "a call was started twice"
                told[event.call_id] = (event.name, "")
            elif isinstance(event, ToolCallArguments):
                name, arguments = told[event.call_id]
                assert event.name == name
                told[event.call_id] = (name, arguments + event.text)
        return told

    @property
    def ready_calls(self) -> list[str]:
        """The ids of the calls that were told to be written to their end."""
        return [event.call.id for event in self.events if isinstance(event, ToolCallReady)]


def cut(body: bytes, way: str) -> list[bytes]:
    """`body` in reads; random ones are the same every time."""
    if way == "one read":
        return [body]
    if way == "byte by byte":
        return [body[at : at + 1] for at in range(len(body))]
    chance = random.Random(len(body))  # noqa: S311 - no secret
    places = sorted(chance.sample(range(len(body) + 1), min(12, len(body))))
    return [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]


def read(body: bytes, way: str = "one read", reader: ChatCompletionReader | None = None, **options: Any) -> Reading:
    """Read `body` to its end, or to the error that is in it."""
    return read_pieces(cut(body, way), reader, **options)


def singly(events: Iterable[ChatEvent]) -> Iterator[ChatEvent]:
    """The events with each delta by itself."""
    for event in events:
        yield from event.each if isinstance(event, Deltas) else [event]


def read_pieces(pieces: list[bytes], reader: ChatCompletionReader | None = None, **options: Any) -> Reading:
    """Read a body that comes in these pieces."""
    reader = reader or ChatCompletionReader(**options)
    events: list[ChatEvent] = []
    try:
        for event in singly(chain(chain.from_iterable(map(reader.feed, pieces)), reader.close())):
            events.append(event)  # noqa: PERF402 - what came before an error is kept
    except ModelError as error:
        return Reading(tuple(events), error)
    return Reading(tuple(events))
