"""Which messages of a conversation stay when it grows beyond its limits. Pure: messages in, messages out.

A history cut anywhere else than before a user message is refused by model servers: it would begin with an
answer, or with the results of calls that are gone. So turns leave whole, though more room would be left.

Differs from Spring AI:

1. System messages always come first in what is remembered, not where they were given (182).
2. A system message that is remembered already is not stored a second time (192).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.chat import Message, SystemMessage
from app.memory.turns import Size, Summary, size_of, split_into_turns


@dataclass(frozen=True, slots=True)
class Window:
    """How large a conversation may be. System messages count, and stay even where they alone are more.

    Attributes:
        messages: how many may stay.
        tokens: how many they may be by estimate; None = any number.

    Raises:
        ValueError: a limit is not positive.
    """

    messages: int = 200
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name, limit in (("max_messages", self.messages), ("max_tokens", self.tokens)):
            if limit is not None and limit < 1:
                raise ValueError(f"{name} must be positive, got {limit}")

    def times(self, factor: float) -> Window:
        """A window that is so much larger."""
        tokens = None if self.tokens is None else max(1, int(self.tokens * factor))
        return Window(max(1, int(self.messages * factor)), tokens)

    def room_for(self, turns: Sequence[Size], system: Size) -> int:
        """How many of the newest turns fit.

        Args:
            turns: their sizes, the oldest first. The oldest leave until they fit; a turn that is larger than the
                window by itself leaves too.
            system: the size of the system messages.
        """
        taken = system
        for count, size in enumerate(reversed(turns)):
            taken += size
            if taken.messages > self.messages or (self.tokens is not None and taken.tokens > self.tokens):
                return count
        return len(turns)


def window(remembered: Sequence[Message], added: Sequence[Message], limit: int | Window) -> tuple[Message, ...]:
    """What is remembered after a turn was added.

    Args:
        remembered: the conversation so far.
        added: the new turn. See `system_after` for its system messages.
        limit: how large the conversation may be; a number is one of messages.

    Returns:
        System messages, then whole turns, oldest first. Messages before the first user message, such as a
        greeting, count as a turn of their own.
    """
    limits = limit if isinstance(limit, Window) else Window(limit)
    system = system_after(remembered, added)
    turns = split_into_turns((*remembered, *added))
    kept = limits.room_for([size_of(turn) for turn in turns], size_of(system))
    return (*system, *(message for turn in turns[len(turns) - kept :] for message in turn))


def system_after(remembered: Sequence[Message], added: Sequence[Message]) -> tuple[SystemMessage, ...]:
    """The system messages of a conversation after a turn was added.

    If the turn brings one that is not in `remembered`, its system messages replace those; else those stay.
    """
    old, new = dict.fromkeys(_instructions(remembered)), dict.fromkeys(_instructions(added))
    return tuple(old if new.keys() <= old.keys() else new)


def _instructions(messages: Sequence[Message]) -> list[SystemMessage]:
    return [one for one in messages if isinstance(one, SystemMessage) and not isinstance(one, Summary)]
