"""How a kept conversation grows by a turn. Pure."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from app.chat import Message, UserMessage
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
    kept = window.room_for([size_of(turn.messages) for turn in longer.turns], size_of(longer.system))
    if longer.turns and not kept:
        _log.warning(
            "a turn of %d messages does not fit a memory of %d, the conversation is forgotten: "
            "raise max_messages, or keep the memory outside of the tool loop",
            len(longer.turns[-1].messages),
            window.messages,
        )
    return replace(longer, turns=longer.turns[len(longer.turns) - kept :])


def joined(conversation: KeptConversation, added: Sequence[Message], now: datetime) -> KeptConversation:
    """The conversation with messages added, however large it gets."""
    system = system_after(conversation.messages, added)
    turns, last = list(conversation.turns), conversation.last_turn
    for messages in split_into_turns(added):
        if turns and not isinstance(messages[0], UserMessage):
            turns[-1] = replace(turns[-1], messages=(*turns[-1].messages, *messages))
        else:
            last += 1
            turns.append(Turn(last, now, tuple(messages)))
    return replace(conversation, system=system, turns=tuple(turns), updated_at=now, last_turn=last)
