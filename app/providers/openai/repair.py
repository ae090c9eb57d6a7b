"""A history that every server takes, from one that some would refuse for ever.

Histories come from callers, memories and runs that were cut: a call may lack its result, and a result its call. What is
whole stays as it is. What is broken is mended, always in the same way:

1. A result stands right behind the message that asks for it, in the order of the calls. One that nobody asked for, or
   that was given before, is dropped.
2. A call without a result gets an error result: the model may ask again, and what it wrote beside the call stays.
3. A call whose id another call has, or that has none, gets one of its own; its result goes with it. Earlier ids decide
   over later ones, so that a history which grows is repaired alike and what servers have cached of it still fits.
4. A call without a name is dropped; servers do not take it and the model cannot have meant it.
5. Messages that say nothing are dropped: system texts that are blank, user messages that are blank unless the turn is
   theirs, answers with neither text nor calls, and tool messages without results.

Arguments that are no JSON object are seen to where they are written, see `app.providers.openai.request`.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

from app.chat import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, ToolResult, UserMessage

_logger = logging.getLogger(__name__)

NO_RESULT = "No result of this call is known: it was cut off. It may have run or not."
"""What the model reads in place of a result that is missing."""

_KINDS = {AssistantMessage: "assistant", SystemMessage: "system", UserMessage: "user"}


def repaired(history: Sequence[Message]) -> tuple[Message, ...]:
    """The history as servers take it. What had to be done is logged, in numbers only."""
    if _is_whole(history):
        return tuple(history)
    done: Counter[str] = Counter()
    rounds = _paired(history, done)
    messages = tuple(_written(history, rounds, done))
    if done:
        told = ", ".join(f"{times} {what}" for what, times in sorted(done.items()))
        _logger.warning("the history was repaired before it was sent: %s", told)
    return messages


def _is_whole(history: Sequence[Message]) -> bool:
    """Whether nothing of all that is to be done, as with nearly every history.

    Then every message says something, every call has a name and an id of its own, and right behind each message with
    calls stand their results in the same order. A blank text at the end may be whole, too, and is left to be mended.
    """
    used: set[str] = set()
    asked: Sequence[ToolCall] = ()  # by the message before
    for message in history:
        if isinstance(message, ToolMessage):
            if not asked or [call.id for call in asked] != [result.id for result in message.results]:
                return False
            asked = ()
        elif asked:
            return False
        elif isinstance(message, AssistantMessage):
            asked = message.tool_calls
            for call in asked:
                if not call.name.strip() or not call.id.strip() or call.id in used:
                    return False
                used.add(call.id)
            if not asked and not message.content.strip() and not message.refusal:
                return False
        elif not message.content.strip():
            return False
    return not asked


@dataclass(slots=True)
class _Slot:
    """A call, the place of its message, and the result that it waits for."""

    place: int
    call: ToolCall
    result: ToolResult | None = None


_Rounds: TypeAlias = Mapping[int, Sequence[_Slot]]


def _paired(history: Sequence[Message], done: Counter[str]) -> _Rounds:
    """The calls of each assistant message, with ids of their own and with the results that are theirs."""
    rounds: dict[int, list[_Slot]] = {}
    waiting: dict[str, list[_Slot]] = {}  # by the id that the history has; a later message takes an id over
    used: set[str] = set()
    before = -1  # the place of the last message that is no tool message
    for place, message in enumerate(history):
        if isinstance(message, ToolMessage):
            for result in message.results:
                _pair(result, waiting, before, done)
            continue
        before = place
        if isinstance(message, AssistantMessage):
            rounds[place] = []
            asked: defaultdict[str, list[_Slot]] = defaultdict(list)
            for call in message.tool_calls:
                if not call.name.strip():
                    done["calls without a name"] += 1
                    continue
                slot = _Slot(place, _labelled(call, used, done))
                rounds[place].append(slot)
                asked[call.id].append(slot)
            waiting.update(asked)
    return rounds


def _pair(result: ToolResult, waiting: Mapping[str, list[_Slot]], before: int, done: Counter[str]) -> None:
    slots = waiting.get(result.id)
    if not slots:
        done["results without a call"] += 1
        return
    slot = slots.pop(0)
    slot.result = result if result.id == slot.call.id else replace(result, id=slot.call.id)
    if slot.place != before:
        done["results out of place"] += 1


def _labelled(call: ToolCall, used: set[str], done: Counter[str]) -> ToolCall:
    if not call.id.strip() or call.id in used:
        done["calls without an id of their own"] += 1
        stem = call.id.strip() or "call"
        call = replace(call, id=next(name for name in (f"{stem}_{n}" for n in count(2)) if name not in used))
    used.add(call.id)
    return call


def _written(history: Sequence[Message], rounds: _Rounds, done: Counter[str]) -> Iterator[Message]:
    asks = max((place for place, message in enumerate(history) if isinstance(message, UserMessage)), default=None)
    for place, message in enumerate(history):
        if isinstance(message, AssistantMessage):
            calls = tuple(slot.call for slot in rounds[place])
            if calls or message.content.strip() or message.refusal:
                yield message if calls == message.tool_calls else replace(message, tool_calls=calls)
                if calls:
                    yield ToolMessage(tuple(_result(slot, done) for slot in rounds[place]))
                continue
        elif isinstance(message, ToolMessage):
            continue  # its results stand behind their calls
        elif message.content.strip() or place == asks:
            yield message
            continue
        done[f"empty {_KINDS[type(message)]} messages"] += 1


def _result(slot: _Slot, done: Counter[str]) -> ToolResult:
    if slot.result is None:
        done["calls without a result"] += 1
        return ToolResult(slot.call.id, slot.call.name, NO_RESULT, is_error=True)
    return slot.result
