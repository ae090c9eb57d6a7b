"""From a conversation to the calls that answer its last message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.chat import Message, ToolDefinition, UserMessage
from app.providers.embedded.choosing import Candidate, Clause, clauses, is_complete
from app.providers.embedded.filling import Filled, fill
from app.providers.embedded.finds import finds
from app.providers.embedded.slots import Slot

_READ = 4000
"""Characters of a message that are read; what comes after them is beyond a demo."""
_GOES_ON = re.compile(r"\s*(?:and|or|also|then|now|what\s+about|how\s+about)\b", re.IGNORECASE)
_REFERS = re.compile(r"\b(?:there|it|that|them|same)\b", re.IGNORECASE)
_SHORT = 5  # words of an answer to "the message does not say"


@dataclass(frozen=True, slots=True)
class Planned:
    """A call to ask for."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lacking:
    """A tool that would be called if the message said enough; nothing missing = what it says does not fit."""

    name: str
    missing: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about a message: calls to ask for, and what cannot be asked for."""

    calls: tuple[Planned, ...] = ()
    lacking: tuple[Lacking, ...] = ()


def plan(messages: Sequence[Message], offered: Sequence[ToolDefinition], tool_choice: str | None) -> Plan:
    """The calls that the last user message asks for.

    Args:
        messages: the conversation; earlier messages of the user complete the last one.
        offered: the tools.
        tool_choice: `required` or a tool's name: one call is made whatever the message says, and what it does not
            say is made up by the schema.
    """
    said = [message.content[:_READ] for message in messages if isinstance(message, UserMessage)]
    if not said:
        return Plan()
    candidates = [Candidate(definition) for definition in offered]
    if tool_choice in {None, "auto"}:
        return _plan(candidates, said)
    if tool_choice != "required":
        candidates = [candidate for candidate in candidates if candidate.definition.name == tool_choice]
    return _forced(candidates, said)


def _plan(candidates: Sequence[Candidate], said: Sequence[str]) -> Plan:
    message = said[-1]
    asked = _merged(clauses(candidates, message))
    if not asked:
        return _follow_up(candidates, said)
    earlier = said[-4:-1][::-1] if _GOES_ON.match(message) or _REFERS.search(message) else []
    return _planned([(clause, _filled(clause, [message, *earlier])) for clause in asked])


def _follow_up(candidates: Sequence[Candidate], said: Sequence[str]) -> Plan:
    """`And in Oslo?` after a question, or `Oslo` after being told that the city was missing."""
    message = said[-1]
    before = clauses(candidates, said[-2]) if len(said) > 1 else []
    if not before:
        return Plan()
    clause = Clause(before[-1].candidate, message)
    was_enough = bool(_filled(before[-1], [said[-2]]).calls)
    if not _GOES_ON.match(message) and (was_enough or len(message.split()) > _SHORT):
        return Plan()
    filled = _filled(clause, [said[-2]])
    return _planned([(clause, filled)]) if filled.said else Plan()


def _forced(candidates: Sequence[Candidate], said: Sequence[str]) -> Plan:
    """The calls of the plan if there are any, else one of the tool that the message speaks of most."""
    planned = _plan(candidates, said)
    if planned.calls or not candidates:
        return planned
    message = said[-1]
    found = finds(message)
    ranked = sorted(candidates, key=lambda candidate: -candidate.points(message, found))
    lacking: list[Lacking] = []
    for candidate in ranked:
        clause = Clause(candidate, message)
        planned = _planned([(clause, fill(candidate.schemas, message, candidate.triggers, invent=True))])
        if planned.calls:
            return planned
        lacking += planned.lacking
    return Plan((), tuple(lacking[:1]))


def _filled(clause: Clause, around: Sequence[str]) -> Filled:
    return fill(clause.candidate.schemas, clause.text, clause.candidate.triggers, around=around)


def _merged(asked: Sequence[Clause]) -> list[Clause]:
    """Neighbours that ask for the same tool, as one where they are not complete each on its own."""
    merged: list[Clause] = []
    for clause in asked:
        last = merged[-1] if merged else None
        if last is None or last.candidate is not clause.candidate or all(map(is_complete, (last, clause))):
            merged.append(clause)
        else:
            merged[-1] = Clause(clause.candidate, f"{last.text}, {clause.text}")
    return merged


def _planned(filled: Sequence[tuple[Clause, Filled]]) -> Plan:
    calls: list[Planned] = []
    lacking: list[Lacking] = []
    for clause, result in filled:
        name = clause.candidate.definition.name
        for arguments in result.calls:
            call = Planned(name, arguments)
            calls += [] if call in calls else [call]
        if not result.calls:
            lacking.append(Lacking(name, result.missing))
    return Plan(tuple(calls), tuple(lacking))
