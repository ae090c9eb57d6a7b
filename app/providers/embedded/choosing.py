"""Chooses tools: how much of a sentence speaks of which tool, and which sentence of a message asks for which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.chat import ToolDefinition
from app.providers.embedded.filling import fill
from app.providers.embedded.finds import Find, finds
from app.providers.embedded.language import GENERIC, STOP, Stems, alike, name_words, stem, stems, unit_stem, words
from app.providers.embedded.schemas import Schemas
from app.providers.embedded.slots import Slot, group_of

ENOUGH = 2.5
"""Points from which on a sentence asks for a tool. One telling word of the tool's name is enough, one word of its
description is not."""

_COMMON, _ENOUGH_COMMON = 0.25, 3.0
_NAME, _ALIKE, _GENERIC, _FIRST_SENTENCE, _DESCRIPTION, _CHOICE, _PARAMETER = 4.0, 2.5, 1.0, 1.5, 0.75, 1.5, 0.5
_WHOLE_NAME, _CALLED_BY_NAME, _SUM, _OPERATION, _LINK, _UNIT, _PATH, _DATE = 2.0, 6.0, 4.0, 3.0, 2.5, 1.5, 1.5, 1.0
_NEAR = 0.4
"""Part of the most points from which on a tool is preferred for which the sentence says enough."""
_ALONE = 1.5
"""Points that are enough where the sentence says nothing else."""

_FIRST = re.compile(r"(?<=[.!?])\s|\n")
_SEPARATOR = re.compile(
    r"(?P<end>(?<=[.?!;])\s+|\n+)|,\s+|\s*,?\s+(?:and|then|also|as\s+well\s+as|plus(?!\s+\d))\s+", re.IGNORECASE
)


class Candidate:
    """A tool as it is compared with sentences.

    Args:
        definition: what the model is told of the tool.
    """

    def __init__(self, definition: ToolDefinition) -> None:
        self.definition = definition
        self.schemas = Schemas(definition.input_schema)
        self.slots: tuple[Slot, ...] = tuple(group_of(self.schemas, frozenset()).slots())
        first, rest = _split(definition.description)
        self._name = frozenset(map(stem, name_words(definition.name)))
        self._telling = self._name - GENERIC - _STOPPED
        self._first = _lower_case(first)
        self._rest = stems(words(rest))
        self._choices = stems(word for slot in self.slots for each in _choices(slot) for word in name_words(each))
        self._parameters = frozenset[str]().union(*(slot.own | slot.about for slot in self.slots)) - GENERIC
        self.triggers: Stems = self._name | self._first | frozenset[str]().union(*map(alike, self._name))

    def points(self, sentence: str, found: Sequence[Find]) -> float:
        """How much a sentence speaks of the tool."""
        said = frozenset(stem(word) for word in words(_without_operators(sentence, found)))
        points = sum(self._points_of(each) for each in said)
        if self._telling:
            points += _WHOLE_NAME * len(self._telling & said) / len(self._telling)
        if self._is_called(sentence):
            points += _CALLED_BY_NAME
        points += self._points_of_finds(found)
        content = frozenset(each for each in said - GENERIC - _STOPPED - _named(found) if each.isalpha())
        if _ALONE <= points < ENOUGH and content and all(self._points_of(each) > _PARAMETER for each in content):
            return ENOUGH
        return points

    def _points_of(self, said: str) -> float:
        if said in self._name:
            return self._points_of_name(said)
        if said in _STOPPED:
            return 0
        if alike(said) & (self._telling or self._name):
            return _ALIKE
        for points, evidence in (
            (_FIRST_SENTENCE, self._first - GENERIC),
            (_CHOICE, self._choices),
            (_DESCRIPTION, self._rest - GENERIC),
            (_PARAMETER, self._parameters),
        ):
            if said in evidence:
                return points
        return 0

    def _points_of_name(self, said: str) -> float:
        if not self._telling:
            return _ENOUGH_COMMON / len(self._name)  # only all words of such a name together say something
        return _COMMON if said in _STOPPED else _GENERIC if said in GENERIC else _NAME

    def _is_called(self, sentence: str) -> bool:
        """Whether the tool's name stands there as it is written in code."""
        name = re.escape(self.definition.name)
        if re.search(r"[^\W_][_.-][^\W_]", self.definition.name):
            return re.search(rf"(?<![\w-]){name}(?![\w-])", sentence) is not None
        return re.search(rf"`{name}`|\b(?:call|run|use|invoke)\s+{name}\b|(?<![\w-]){name}\(", sentence) is not None

    def _points_of_finds(self, found: Sequence[Find]) -> float:
        points = 0.0
        senses = {slot.sense for slot in self.slots}
        for kind, sense, worth in (
            ("expression", "sum", _SUM),
            ("url", "url", _LINK),
            ("email", "email", _LINK),
            ("path", "path", _PATH),
        ):
            if sense in senses and any(find.kind == kind for find in found):
                points += worth
        if "date" in senses and any(find.kind in {"date", "datetime"} for find in found):
            points += _DATE
        if any(find.unit and unit_stem(find.unit) in slot.own for find in found for slot in self.slots):
            points += _UNIT
        if any(find.operation and alike(stem(find.operation)) & self._name for find in found):
            points += _OPERATION
        return points


_STOPPED = frozenset(map(stem, STOP))


def first_sentence(description: str) -> str:
    """The first sentence of a description."""
    return _split(description)[0]


def _split(description: str) -> tuple[str, str]:
    """The first sentence and the rest."""
    first, *rest = _FIRST.split(description.strip(), maxsplit=1)
    return first, " ".join(rest)


def _lower_case(sentence: str) -> Stems:
    """Stems of a sentence's words, without names: `Paris` in `Weather, such as in Paris` does not speak of the tool."""
    return stems(word for place, word in enumerate(words(sentence)) if not place or word.islower() or word.isupper())


def _choices(slot: Slot) -> list[str]:
    return [each for branch in slot.branches for each in branch.get("enum") or () if isinstance(each, str)]


def _without_operators(sentence: str, found: Sequence[Find]) -> str:
    """The sentence without the `times` of its arithmetic, which is no word for time."""
    for find in found:
        if find.kind == "expression":
            spoken = sentence[find.start : find.end].lower().replace("times", "     ")
            sentence = sentence[: find.start] + spoken + sentence[find.end :]
    return sentence


def _named(found: Sequence[Find]) -> Stems:
    """Stems of words that are values, not talk."""
    texts = (find.value for find in found if isinstance(find.value, str) and find.kind not in {"opening", "phrase"})
    return frozenset(stem(word) for text in texts for word in words(text))


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a message that asks for a tool."""

    candidate: Candidate
    text: str


def best(candidates: Iterable[Candidate], sentence: str) -> Candidate | None:
    """The tool that a sentence speaks of most, the earlier of equals; None where it speaks of none enough.

    Where it lacks what that tool needs and says all that another needs of which it speaks too, it is the other.
    """
    found = finds(sentence)
    scored = [(candidate.points(sentence, found), candidate) for candidate in candidates]
    most = max((points for points, _ in scored), default=0.0)
    near = [each for each in scored if each[0] >= max(ENOUGH, most * _NEAR)]
    if not near:
        return None
    first, *others = (candidate for _, candidate in sorted(near, key=lambda each: -each[0]))
    if not others or is_complete(Clause(first, sentence), rest=True):
        return first
    return next((other for other in others if is_complete(Clause(other, sentence))), first)


def is_complete(clause: Clause, *, rest: bool = False) -> bool:
    """Whether the clause itself says all that its tool needs.

    Args:
        clause: the clause.
        rest: whether a parameter that takes any text may have what is left of the clause.
    """
    candidate = clause.candidate
    return bool(fill(candidate.schemas, clause.text, candidate.triggers, rest=rest).calls)


def clauses(candidates: Sequence[Candidate], message: str) -> list[Clause]:
    """The parts of a message that ask for tools, in order.

    A part that asks for none belongs to the one before it, and at the beginning of a sentence to the one after it.
    """
    parts: list[tuple[Candidate, int, int]] = []
    for sentence in _sentences(message):
        before = len(parts)
        begun: int | None = None
        for start, end in sentence:
            if candidate := best(candidates, message[start:end]):
                parts.append((candidate, start if begun is None else begun, end))
                begun = None
            elif len(parts) > before:
                parts[-1] = (*parts[-1][:2], end)
            elif begun is None:
                begun = start
        if parts and len(parts) == before:
            parts[-1] = (*parts[-1][:2], sentence[-1][1])
    if not parts and (whole := best(candidates, message)):
        parts.append((whole, 0, len(message)))
    return [Clause(candidate, message[start:end].strip()) for candidate, start, end in parts]


def _sentences(message: str) -> list[list[tuple[int, int]]]:
    """The sentences of a message, each as the places of its smallest parts; quotes, JSON and the like stay whole."""
    closed = [
        (find.start, find.end) for find in finds(message) if find.kind in {"quoted", "json", "expression", "date"}
    ]
    sentences: list[list[tuple[int, int]]] = [[]]
    start = 0
    for separator in _SEPARATOR.finditer(message):
        if any(first < separator.end() and separator.start() < last for first, last in closed):
            continue
        sentences[-1].append((start, separator.start()))
        start = separator.end()
        if separator["end"] is not None:
            sentences.append([])
    sentences[-1].append((start, len(message)))
    said = ([part for part in sentence if message[part[0] : part[1]].strip()] for sentence in sentences)
    return [sentence for sentence in said if sentence]
