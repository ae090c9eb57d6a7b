"""How well a value of the message suits a parameter, and the value as the parameter wants it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.providers.embedded.dates import zone_of
from app.providers.embedded.finds import Find, Kind
from app.providers.embedded.language import GENERIC, STOP, Stems, lexicon, name_words, plain, stem, unit_stem
from app.providers.embedded.schemas import NOTHING, Schema, Schemas, kind, listed
from app.providers.embedded.slots import Sense, Slot

_LOOSE: Mapping[Kind, float] = {
    "quoted": 3,
    "labelled": 3,
    "name": 3,
    "code": 2.5,
    "phrase": 2,
    "uuid": 2,
    "unit": 1.5,
    "opening": 1.2,
    "email": 1.5,
    "url": 1.5,
    "path": 1.5,
    "zone": 1.5,
    "datetime": 1,
    "date": 1,
    "time": 1,
    "day": 1,
    "number": 0.6,
    "expression": 0.5,
}
_STRICT: Mapping[Kind, float] = {"quoted": 3, "labelled": 3}
_SUITS: Mapping[Sense, Mapping[Kind, float]] = {
    "any": _LOOSE,
    "place": {**_STRICT, "name": 4, "phrase": 2.5, "opening": 2, "code": 1, "zone": 1},
    "person": {**_STRICT, "name": 4, "email": 1.5, "opening": 2, "phrase": 1.8, "code": 1},
    "zone": {**_STRICT, "zone": 6, "name": 4, "phrase": 2.5, "opening": 2, "code": 1},
    "date": {**_STRICT, "date": 5, "datetime": 5, "day": 4},
    "time": {**_STRICT, "time": 5, "datetime": 3},
    "email": {**_STRICT, "email": 6},
    "url": {**_STRICT, "url": 6, "path": 2},
    "path": {**_STRICT, "path": 5, "url": 1, "code": 1, "phrase": 1},
    "sum": {**_STRICT, "expression": 6, "number": 1},
    "text": {"quoted": 5, "labelled": 5},
    "code": {**_STRICT, "code": 4.5, "uuid": 5, "number": 1.2, "unit": 3, "name": 2, "opening": 1, "phrase": 1},
}
"""How well a kind of text suits what a parameter means; 0 = not at all."""

_DAYS = lexicon("date day birthday")  # of a date with a time these want the date alone
_FROM = frozenset({"from", "between", "since", "starting", "after"})
_TO = frozenset({"to", "until", "till", "into", "through", "and", "towards", "before"})
_PLACED = frozenset({"in", "at", "near", "of", "for", "to", "from"})
_MAKERS = lexicon("artist author band by composer creator director singer writer")
_NO = frozenset({"no", "not", "without", "don't", "never", "exclude", "disable", "off", "skip", "hide"})
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_HOLLOW = lexicon("include is has have use enable with show only add get should allow")
_WORD_BEFORE = re.compile(r"[^\s,;:=()]+")
_TOKEN = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W_]+)*")
_UNITS_OF_TIME = {
    "second": "T{}S",
    "minut": "T{}M",
    "hour": "T{}H",
    "day": "{}D",
    "week": "{}W",
}

_NO_FIT: tuple[float, Any] = (0, None)

NAMED = 8.0
"""Points for a value that the message gives by the parameter's own name; no other parameter may take it then."""
EVIDENT = 4.0
"""Points from which on a value is taken for an optional parameter."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A value of the message for a parameter."""

    slot: Slot
    find: Find
    value: Any
    score: float


class Fitting:
    """Compares the values of one text with the parameters of one tool.

    Args:
        schemas: the tool's input schema.
        text: the text in which the values were found.
        spoken: stems that speak of the tool or name its parameters; they are no values.
    """

    def __init__(self, schemas: Schemas, text: str, spoken: Stems) -> None:
        self._schemas = schemas
        self._text = text
        self._spoken = spoken

    def fit(self, slot: Slot, find: Find, element: object = NOTHING) -> Fit | None:
        """How a value suits a parameter, or an element of its list; None = not at all."""
        branches = slot.branches if element is NOTHING else tuple(self._schemas.branches(element))
        before = self._words_before(find)
        score = self._named(slot, find, before) + _role_score(slot, before)
        trimmed = self._trimmed(slot, find)
        if trimmed is None:
            return None
        if trimmed.start > find.start and find.kind == "phrase" and stem(find.value.split()[0]) in slot.own:
            score += EVIDENT
        for branch in branches:
            suits, value = self._as(branch, slot, trimmed)
            if suits and self._schemas.fits(value, branch):
                score += suits if isinstance(value, str) else suits + _unit_score(slot, find)
                return Fit(slot, trimmed, value, score)
        return None

    def _words_before(self, find: Find) -> list[str]:
        return [plain(word) for word in _WORD_BEFORE.findall(self._text[max(0, find.start - 60) : find.start])][-4:]

    def _named(self, slot: Slot, find: Find, before: list[str]) -> float:
        if find.label:
            return NAMED if label_of(find) == slot.own else EVIDENT if label_of(find) & slot.own else 0
        while before and before[-1] in {"is", "of", "named", "called", "the", "=", "to", "be", "as", "a", "number"}:
            before = before[:-1]
        return EVIDENT if before and stem(before[-1]) in slot.own - STOP else 0

    def _trimmed(self, slot: Slot, find: Find) -> Find | None:
        """A name or phrase without the words that speak of the tool or name the parameter."""
        if find.kind not in {"opening", "phrase"}:
            return find
        tokens = [*_TOKEN.finditer(find.value)]
        spoken = self._spoken | (GENERIC if find.kind == "opening" else frozenset())
        last = len(tokens)
        while find.kind == "phrase" and last and stem(tokens[last - 1].group()) in spoken:
            last -= 1
        first = 0
        while first < last and stem(tokens[first].group()) in spoken:
            first += 1
        if first == last:
            return None
        start, end = tokens[first].start(), tokens[last - 1].end() if find.kind == "phrase" else len(find.value)
        kind_left: Kind = "name" if first and find.kind == "opening" else find.kind
        place = find.start + start
        return replace(find, kind=kind_left, value=find.value[start:end], start=place, end=place + end - start)

    def _as(self, branch: Schema, slot: Slot, find: Find) -> tuple[float, Any]:
        """Points and the value for one branch of the schema; 0 points = it does not suit."""
        wanted = branch.get("type")
        if "enum" in branch or "const" in branch:
            return _choice(branch, find)
        if wanted == "string" or (wanted is None and find.kind not in {"number", "json"}):
            return self._string(branch, slot, find)
        if wanted in {"integer", "number"}:
            return _number(branch, find)
        if wanted == "boolean":
            return _truth(find)
        if find.kind == "json" and wanted in {None, kind(find.value)}:
            return 6, find.value
        return (2, find.value) if wanted is None and find.kind == "number" else _NO_FIT

    def _string(self, branch: Schema, slot: Slot, find: Find) -> tuple[float, Any]:
        if find.kind in {"json", "spoken_number"}:
            return _NO_FIT
        written = self._text[find.start : find.end].strip() if find.kind == "number" else str(find.value)
        form = branch.get("format")
        if isinstance(form, str) and form in _FORMATS:
            return _formatted(form, find)
        if slot.sense == "zone":
            return self._zone(written, find)
        if slot.sense == "date" and find.kind == "datetime":
            return (4 if slot.own & _DAYS else 6), find.value
        return _SUITS[slot.sense].get(find.kind, 0), written

    def _zone(self, written: str, find: Find) -> tuple[float, Any]:
        """The zone of a place. After `in` an unknown name is passed on: the tool says best what it does not know."""
        suits = _SUITS["zone"].get(find.kind, 0)
        if zone := zone_of(written):
            return suits and suits + 2, zone
        unknown = find.kind in {"name", *_STRICT} and self._words_before(find)[-1:] in (["in"], ["for"], ["at"])
        return (EVIDENT if unknown else suits / 4 if find.kind != "phrase" else 0), written


_FORMATS = frozenset({"date", "time", "date-time", "email", "uri", "url", "uuid", "duration"})


def _formatted(form: str, find: Find) -> tuple[float, Any]:
    value = find.value
    if form == "duration":
        unit = _UNITS_OF_TIME.get(unit_stem(find.unit)) if find.unit else None
        return (5, "P" + unit.format(value)) if unit else _NO_FIT
    forms = {
        ("date", "date"): (6, value),
        ("date-time", "datetime"): (6, value),
        ("date", "datetime"): (4, str(value)[:10]),
        ("date-time", "date"): (4, f"{value}T00:00:00"),
        ("time", "time"): (6, value if str(value).count(":") > 1 else f"{value}:00"),
        ("email", "email"): (6, value),
        ("uri", "url"): (6, value),
        ("url", "url"): (6, value),
        ("uuid", "uuid"): (6, value),
    }
    return forms.get((form, find.kind), _NO_FIT)


def _truth(find: Find) -> tuple[float, Any]:
    truth = _TRUTH.get(str(find.value).lower()) if find.kind in {"quoted", "labelled"} else None
    return _NO_FIT if truth is None else (3, truth)


def _number(branch: Schema, find: Find) -> tuple[float, Any]:
    if find.kind not in {"number", "spoken_number"}:
        return _NO_FIT
    value = find.value
    if branch["type"] == "integer":
        if not float(value).is_integer():
            return _NO_FIT
        value = int(value)
    return (2 if find.kind == "number" else 1), value


def _choice(branch: Schema, find: Find) -> tuple[float, Any]:
    for value in [branch["const"]] if "const" in branch else listed(branch["enum"]):
        if value == find.value and isinstance(value, str) == isinstance(find.value, str):
            return 5, value
        same = isinstance(value, str) and isinstance(find.value, str) and unit_stem(value) == unit_stem(find.value)
        if same:
            return 5, value
    return _NO_FIT


def _role_score(slot: Slot, before: list[str]) -> float:
    """Points for the preposition before a value, if it suits what the parameter means."""
    if not before:
        return 0
    if not slot.role:
        at_place = slot.sense == "place" and before[-1] in _PLACED
        return 1 if at_place or (before[-1] == "by" and slot.own & _MAKERS) else 0
    if before[-1] in _FROM:
        return 2 if slot.role == "from" else -2
    if before[-1] in _TO:
        return 2 if slot.role == "to" else -2
    return 0


def _unit_score(slot: Slot, find: Find) -> float:
    if not find.unit:
        return 0
    unit = unit_stem(find.unit)
    return 5 if unit in slot.own else 2.5 if unit in slot.about else -0.5


def label_of(find: Find) -> Stems:
    """The stems of the word by which the message names a value."""
    return frozenset(map(stem, name_words(find.label)))


def choices(slot: Slot, schemas: Schemas, text: str) -> Iterator[Find]:
    """Words of the text that are one of the values a parameter is confined to, whatever else they are."""
    branches = [*slot.branches, *(schemas.branches(slot.items) if slot.items is not NOTHING else [])]
    values = [value for branch in branches for value in listed(branch.get("enum"))]
    tokens = [(match, stem(match.group())) for match in _TOKEN.finditer(text)]
    for value in values:
        if not isinstance(value, str) or not (spoken := [stem(word) for word in name_words(value)]):
            continue
        for first in range(len(tokens) - len(spoken) + 1):
            run = tokens[first : first + len(spoken)]
            if [each for _, each in run] == spoken and (len(value) > 1 or run[0][0].group() == value):
                yield Find("labelled", value, run[0][0].start(), run[-1][0].end())


def truths(slot: Slot, text: str) -> Iterator[Find]:
    """What the text says of a switch: its words are there, perhaps denied; or a bare yes or no where it is needed."""
    tokens = [(match, plain(match.group())) for match in _TOKEN.finditer(text)]
    named = slot.own - _HOLLOW or slot.own
    for place, (match, word) in enumerate(tokens):
        if stem(word) in named and word not in STOP:
            denied = any(each in _NO for _, each in tokens[max(0, place - 3) : place])
            yield Find("labelled", "false" if denied else "true", match.start(), match.end(), label=slot.name)
            return
    if slot.needed:
        for match, word in tokens:
            if word in _TRUTH:
                yield Find("labelled", word, match.start(), match.end())
                return
