"""A journal in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import count
from typing import Any

from app.chat import ChatResponse, ReasoningDelta, TextDelta, ToolCallArguments
from app.chat.text import bytes_of
from app.runs.errors import EventsGone
from app.runs.journal import Entry, RunCancelled, RunCompleted, RunEnd, RunEvent, RunFailed, Span

_BATCH = 512
"""Entries that a reader is given at once: whoever comes late is not handed megabytes in one piece."""

_OVERHEAD = 200
"""Bytes that an entry takes beside its texts."""

_WITHOUT_TEXTS = frozenset({"bool", "float", "int", "None", "Usage", "FinishReason"})
"""Types of fields in which there are no texts worth counting."""

_ITEM = 64
"""Bytes that an item of a list or a mapping takes beside its texts."""


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """How much of one run is kept.

    Attributes:
        events: entries.
        bytes: what they take, about: their texts in UTF-8, 200 for each entry, and 64 for each item in one.
    """

    events: int = 20_000
    bytes: int = 8 * 1024 * 1024


class InMemoryJournal:
    """A journal in this process. A reader never holds the writer up.

    It keeps no entries but what they are made of, and makes them for those who read.

    Args:
        limits: how much is kept.
    """

    def __init__(self, limits: JournalLimits | None = None) -> None:
        self._limits = limits or JournalLimits()
        self._events: list[RunEvent] = []
        self._rounds: list[int | None] = []
        self._bytes = 0
        self._dropped = 0
        self._ended = False
        self._waiting: set[asyncio.Future[None]] = set()

    async def append(self, round_: int | None, *events: RunEvent) -> None:
        """See `Journal.append`."""
        self._events += events
        self._rounds += [round_] * len(events)
        self._bytes += _OVERHEAD * len(events) + sum(map(_size, events))
        if self._bytes > self._limits.bytes or len(self._events) > self._limits.events:
            self._drop()
        self._ended = isinstance(events[-1], RunEnd)
        for reader in self._waiting:
            if not reader.done():
                reader.set_result(None)

    async def span(self) -> Span:
        """See `Journal.span`."""
        return Span(self._dropped + 1, self._dropped + len(self._events))

    def entries(self, after: int, limit: int) -> Sequence[Entry]:
        """Entries with a number above `after` that are there, the oldest first, `limit` at most."""
        start = max(after - self._dropped, 0)
        rounds, events = self._rounds[start : start + limit], self._events[start : start + limit]
        return list(map(Entry._make, zip(count(self._dropped + start + 1), rounds, events, strict=False)))

    async def follow(self, after: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """See `Journal.follow`."""
        while True:
            if after < self._dropped:
                raise EventsGone(self._dropped + 1, after)
            if batch := self.entries(after, _BATCH):
                after += len(batch)
                yield batch
                if len(batch) == _BATCH:
                    await asyncio.sleep(0)  # others have their turn, though there is more and its reader takes it all
            elif self._ended:
                return
            else:
                more: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.add(more)
                try:
                    await more
                finally:
                    self._waiting.remove(more)

    def _drop(self) -> None:
        """Let the oldest entries go, until what is left is within the limits."""
        too_many = len(self._events) - self._limits.events
        dropped = 0
        while dropped < len(self._events) - 1 and (dropped < too_many or self._bytes > self._limits.bytes):
            self._bytes -= _OVERHEAD + _size(self._events[dropped])
            dropped += 1
        del self._events[:dropped], self._rounds[:dropped]
        self._dropped += dropped


_FIELDS: dict[type, tuple[str, ...] | None] = {}
"""What `_fields_with_texts` says of the kinds of values that there are."""


def _texts(value: object) -> int:
    """Bytes of all texts in a value, however deep."""
    if isinstance(value, str):
        return bytes_of(value)
    if value is None or isinstance(value, int | float):
        return 0
    kind = type(value)
    names = _FIELDS[kind] if kind in _FIELDS else _FIELDS.setdefault(kind, _fields_with_texts(kind))
    if names is not None:
        size = 0
        for name in names:
            part = getattr(value, name)
            if type(part) is str:
                size += bytes_of(part)
            elif part:
                size += _texts(part)
        return size
    if isinstance(value, list | tuple):
        return sum([_ITEM + _texts(item) for item in value])
    if isinstance(value, Mapping):
        return sum([_ITEM + _texts(key) + _texts(item) for key, item in value.items()])
    return 0


def _fields_with_texts(kind: type) -> tuple[str, ...] | None:
    """Names of the fields in which texts can be; None where it is no dataclass.

    The messages that an answer grew by say its other fields once more, and are not counted.
    """
    if not is_dataclass(kind):
        return None
    texts = [field.name for field in fields(kind) if not _WITHOUT_TEXTS.issuperset(str(field.type).split(" | "))]
    return tuple(name for name in texts if kind is not ChatResponse or name != "generated")


def _of_text(event: TextDelta | ReasoningDelta | ToolCallArguments) -> int:
    text = event.text
    return len(text) if text.isascii() else bytes_of(text)


def _of_end(end: RunCompleted | RunCancelled) -> int:
    return _texts(end.response)


def _of_failure(end: RunFailed) -> int:
    # Asked for its text, an error that is not ours may fail itself.
    return _texts([part for part in end.error.args if isinstance(part, str)])


_SIZES: Mapping[type, Callable[[Any], int]] = {
    TextDelta: _of_text,
    ReasoningDelta: _of_text,
    ToolCallArguments: _of_text,
    RunCompleted: _of_end,
    RunCancelled: _of_end,
    RunFailed: _of_failure,
}
"""Bytes of the texts in an event; of kinds that are not here by `_texts`."""


def _size(event: RunEvent) -> int:
    return _SIZES.get(type(event), _texts)(event)
