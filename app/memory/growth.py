"""How a kept conversation grows by a turn, and how another begins with it. Pure."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from app.chat import Message, UserMessage
from app.memory.errors import TurnNotFound
from app.memory.turns import KeptConversation, Turn, size_of, split_into_turns
from app.memory.window import Window, system_after

_log = logging.getLogger(__name__)


def grown(conversation: KeptConversation, added: Sequence[Message], window: Window, now: datetime) -> KeptConversation:
    """The conversation with a turn, or several, added, cut to the window.

    Args:
        conversation: as it is kept.
        added: messages; those before the first user message join the last turn.
        window: how large it may be.
        now: when they are stored.
    """
    longer = joined(conversation, added, now)
    kept = window.room_for([turn.size for turn in longer.turns], size_of(longer.system))
    if longer.turns and not kept:
        size = longer.turns[-1].size
        _log.warning(
            "a turn of %d messages and about %d tokens does not fit a memory of %d messages and %s tokens, the "
            "conversation is forgotten: raise max_messages or max_tokens, or keep the memory outside of the tool loop",
            size.messages,
            size.tokens,
            window.messages,
            window.tokens or "any number of",
        )
    return replace(longer, turns=longer.turns[len(longer.turns) - kept :])


def joined(conversation: KeptConversation, added: Sequence[Message], now: datetime) -> KeptConversation:
    """The conversation with messages added, however large it gets."""
    system = system_after(conversation.messages, added)
    turns, last = list(conversation.turns), conversation.last_turn
    for messages in split_into_turns(added):
        if turns and not isinstance(messages[0], UserMessage):
            turns[-1] = replace(turns[-1], messages=(*turns[-1].messages, *messages), known_size=None)
        else:
            last += 1
            turns.append(Turn(last, now, tuple(messages)))
    return replace(conversation, system=system, turns=tuple(turns), updated_at=now, last_turn=last)


def forked(origin: KeptConversation, new_id: str, turn: int | None, now: datetime) -> KeptConversation:
    """A new conversation that begins with what was said in another one.

    Args:
        origin: the other one.
        new_id: the new one's id.
        turn: the last turn that is copied; None = all are.
        now: when it begins.

    Raises:
        TurnNotFound: there is no turn of that number.
    """
    if turn is not None and turn not in {one.number for one in origin.turns}:
        raise TurnNotFound(f"conversation {origin.id!r} has no turn {turn}, or no longer")
    kept = tuple(one for one in origin.turns if turn is None or one.number <= turn)
    last = origin.last_turn if turn is None else turn
    return replace(origin, id=new_id, created_at=now, updated_at=now, turns=kept, last_turn=last)
