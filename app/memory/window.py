"""Which messages of a conversation stay when it grows beyond its limit. Pure: messages in, messages out.

A history cut anywhere else than before a user message is refused by model servers: it would begin with an
answer, or with the results of calls that are gone. So turns leave whole, though more room would be left.

Differs from Spring AI:

1. System messages always come first in what is remembered, not where they were given (182).
2. A system message that is remembered already is not stored a second time (192).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.chat import Message, SystemMessage, UserMessage


def window(remembered: Sequence[Message], added: Sequence[Message], limit: int) -> tuple[Message, ...]:
    """What is remembered after a turn was added.

    Args:
        remembered: the conversation so far.
        added: the new turn. If it brings a system message that is not in `remembered`, its system messages
            replace those; else those stay.
        limit: how many messages may stay. The oldest turns leave until they fit; a turn that is larger than
            the limit by itself leaves too. System messages count, and stay even where they alone are more.

    Returns:
        System messages, then whole turns, oldest first. Messages before the first user message, such as a
        greeting, count as a turn of their own.
    """
    system = _system_messages(remembered, added)
    kept: list[Message] = []
    for turn in reversed(_turns(message for message in (*remembered, *added) if not _is_system(message))):
        if len(system) + len(turn) + len(kept) > limit:
            break
        kept[:0] = turn
    return (*system, *kept)


def _is_system(message: Message) -> bool:
    return isinstance(message, SystemMessage)


def _system_messages(remembered: Sequence[Message], added: Sequence[Message]) -> tuple[Message, ...]:
    old = dict.fromkeys(filter(_is_system, remembered))
    new = dict.fromkeys(filter(_is_system, added))
    return tuple(old if new.keys() <= old.keys() else new)


def _turns(messages: Iterable[Message]) -> list[list[Message]]:
    turns: list[list[Message]] = []
    for message in messages:
        if not turns or isinstance(message, UserMessage):
            turns.append([])
        turns[-1].append(message)
    return turns
