"""Values in a sentence: what a message says that could be an argument, each with its kind and place."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, TypeAlias

from app.providers.embedded.arithmetic import Expression, expressions
from app.providers.embedded.dates import Moment, moments
from app.providers.embedded.language import STOP, plain

Kind: TypeAlias = Literal[
    "json",
    "quoted",
    "labelled",
    "url",
    "email",
    "uuid",
    "zone",
    "datetime",
    "date",
    "time",
    "day",
    "path",
    "expression",
    "number",
    "spoken_number",
    "unit",
    "code",
    "name",
    "opening",
    "phrase",
]


@dataclass(frozen=True, slots=True)
class Find:
    """A value found in a text.

    Attributes:
        kind: what it looks like; `opening` is a capitalised word that may owe this to the sentence it begins.
        value: the value as JSON would have it; texts as written but for quotes.
        start: where it begins in the text.
        end: where it ends.
        label: the word that names it (`city` in `city: Paris`), empty where none does.
        unit: what a number counts (`nights` in `3 nights`), empty for everything else.
        operation: verb of an expression's outermost operation, empty for everything else.
    """

    kind: Kind
    value: Any
    start: int
    end: int
    label: str = ""
    unit: str = ""
    operation: str = ""

    def overlaps(self, other: Find) -> bool:
        """Whether both share characters of the text."""
        return self.start < other.end and other.start < self.end


_OPEN, _CLOSE = "\N{LEFT DOUBLE QUOTATION MARK}", "\N{RIGHT DOUBLE QUOTATION MARK}"
_QUOTED = re.compile(
    rf"""
    "([^"\n]+)" | {_OPEN}([^{_CLOSE}\n]+){_CLOSE} | `([^`\n]+)` | (?<!\w)'([^'\n]+(?:'\w[^'\n]*)*)'(?!\w)
    """,
    re.VERBOSE,
)
_MARKED: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("url", re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]]", re.IGNORECASE)),
    ("email", re.compile(r"\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+\b")),
    ("uuid", re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)),
    ("zone", re.compile(r"\b(?:[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_+-]+){1,2}|UTC|GMT)\b")),
    (
        "path",
        re.compile(r"(?<![\w/.-])(?:~?/[\w.-]+(?:/[\w.-]+)*/?|[\w-]+(?:/[\w.-]+)*\.[a-z][a-z0-9]{1,4}\b(?![\w/.]))"),
    ),
)
_CODE = re.compile(
    r"\b(?:v?\d+(?:\.\d+){2,}|(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[A-Za-z])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*"
    r"|[A-Z]{2,6}(?:\.[A-Z]{1,2})?|\d{16,40})\b"
)
_NUMBER = re.compile(
    r"(?<![\w.])(?P<minus>-|\N{MINUS SIGN}|\b(?:minus|negative)\s)?[$\N{EURO SIGN}\N{POUND SIGN}]?"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d{1,15})?|\d{1,15}(?:\.\d{1,15})?)"
    r"(?:(?:st|nd|rd|th)\b|(?=[a-z]{1,3}\b)|(?!\w|\.\d))",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"(?!st\b|nd\b|rd\b|th\b)(?:\s|-)?(?:more\s)?(%|\N{DEGREE SIGN}?[^\W\d_]+|\N{DEGREE SIGN})(?!\w|\s?=|:)"
)
_SPOKEN = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_SPOKEN_NUMBER = re.compile(rf"\b(?:{'|'.join(_SPOKEN)})\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_][^\W_]*(?:['.\N{RIGHT SINGLE QUOTATION MARK}-][^\W_]+)*")
_PARTICLES = frozenset({"de", "la", "del", "da", "do", "di", "du", "el", "al", "van", "von", "der"})
_SENTENCE_STARTS = re.compile(r"(?:^|[.?!:;\n])[\s\"'(]*$")
_CUES = frozenset(
    {
        *("in", "at", "for", "of", "about", "to", "from", "on", "near", "with", "by", "into", "between"),
        *("called", "named", "titled", "regarding", "as", "is"),
    }
)
_ARTICLES = frozenset({"the", "a", "an", "my", "our", "your"})
_JOINS = frozenset({"and", "or", "&", ",", "to", "vs"})
_PHRASE_WORDS = 4
_LABEL = re.compile(r"([^\W\d]\w*)(?:\s?=|:)\s?$")
_PAIR = re.compile(
    r"(?<!\w)([^\W\d]\w*)\s?(?:=|:\s)\s?(?=[^\s=])((?:(?!:\s)[^,;)\n=])+?)"
    r"(?=(?:\s(?:and|please))?\s*(?:[,;)\n]|$|\s\w+\s?(?:=|:\s)))"
)
_TITLES = frozenset({"St", "Mt", "Dr", "Mr", "Mrs", "Ms"})
_PHRASE_TOKEN = re.compile(r"[^\s,.;:!?()\"]+|,")
_CLOSED = frozenset({"json", "quoted", "url"})  # what looks like a label inside of them is none
_JSON_START = re.compile(r"[{\[]")
_JSON_STARTS = 20


def finds(text: str) -> list[Find]:
    """All values in a text, in order. Some overlap: `2+2` is an expression and two numbers."""
    reader = _Reader(text)
    reader.read_json()
    for match in _QUOTED.finditer(reader.rest):
        reader.take("quoted", next(group for group in match.groups() if group), *match.span())
    for moment in moments(reader.rest):
        if not reader.rest[moment.start : moment.end].isspace():
            reader.take_moment(moment)
    for kind, pattern in _MARKED:
        for match in pattern.finditer(reader.rest):
            reader.take(kind, match.group(), *match.span())
    reader.read_numbers()
    reader.read_names()
    reader.read_phrases()
    return reader.labelled()


class _Reader:
    """Reads one kind of value after the other; what one has taken the next does not see."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.rest = text
        self._found: list[Find] = []
        self._sums: list[Expression] = []

    def take(self, kind: Kind, value: Any, start: int, end: int, *, unit: str = "") -> None:
        """Keep a value and hide its place from those that read later."""
        self._found.append(Find(kind, value, start, end, unit=unit))
        self.rest = self.rest[:start] + " " * (end - start) + self.rest[end:]

    def take_moment(self, moment: Moment) -> None:
        """Keep a date or time; of both at once also each by itself."""
        self.take(*moment)
        if moment.kind == "datetime":
            middle = moment.start + 10
            self._found.append(Find("date", moment.value[:10], moment.start, middle))
            self._found.append(Find("time", moment.value[11:16], middle + 1, moment.end))

    def read_json(self) -> None:
        """Objects and arrays."""
        position = 0
        for _ in range(_JSON_STARTS):
            if (start := _JSON_START.search(self._text, position)) is None:
                return
            position = start.end()
            try:
                value, end = _DECODER.raw_decode(self._text, start.start())
            except (ValueError, RecursionError):
                continue
            self.take("json", value, start.start(), end)
            position = end

    def read_numbers(self) -> None:
        """Arithmetic, the numbers in it, and all others; and words made of digits and letters."""
        self._sums = expressions(self.rest)
        for one in self._sums:
            self._found.append(Find("expression", one.text, one.start, one.end, operation=one.operation or ""))
        codes = [
            Find("code", match.group(), *match.span())
            for match in _CODE.finditer(self.rest)
            if not (self._text.isupper() and match.group().isalpha())
        ]
        self._found += codes
        for match in _NUMBER.finditer(self.rest):
            if any(code.start < match.start() < code.end for code in codes):
                continue
            digits = match["digits"].replace(",", "")
            value = float(digits) if "." in digits else int(digits)
            self._take_number("number", -value if self._is_negative(match) else value, match, match.end("digits"))
        for match in _SPOKEN_NUMBER.finditer(self.rest):
            self._take_number("spoken_number", _SPOKEN.index(match.group().lower()), match, match.end())

    def _take_number(self, kind: Kind, value: float, match: re.Match[str], end: int) -> None:
        unit = _UNIT.match(self.rest, end)
        counts = unit and plain(unit[1]) not in STOP and not any(one.end > end for one in self._sums if one.start < end)
        word = unit[1] if unit and counts else ""
        if unit and word:
            self._found.append(Find("unit", word, *unit.span(1)))
            if not word.isalpha():
                self.rest = self.rest[: unit.start(1)] + " " * len(word) + self.rest[unit.end(1) :]
        self.take(kind, value, match.start(), end, unit=word)

    def _is_negative(self, match: re.Match[str]) -> bool:
        before = self._text[: match.start()].rstrip()
        return bool(match["minus"]) and not (before and (before[-1].isdigit() or before[-1] == ")"))

    def read_names(self) -> None:
        """Capitalised words that are neither common words nor codes."""
        if self._text.isupper():
            return
        codes = [find for find in self._found if find.kind == "code"]
        run: list[re.Match[str]] = []
        for token in _WORD.finditer(self.rest):
            if run and not self._goes_on(run[-1], token):
                self._take_name(run)
                run = []
            in_code = any(code.start <= token.start() < code.end for code in codes)
            if not in_code and (_is_capital(token.group()) or (run and token.group() in _PARTICLES)):
                run.append(token)
            elif run:
                self._take_name(run)
                run = []
        self._take_name(run)

    def _goes_on(self, last: re.Match[str], token: re.Match[str]) -> bool:
        gap = self.rest[last.end() : token.start()]
        return gap in {" ", "-"} or (gap == ". " and last.group() in _TITLES)

    def _take_name(self, run: list[re.Match[str]]) -> None:
        while run and run[-1].group() in _PARTICLES:
            run.pop()
        if not run:
            return
        start, end = run[0].start(), run[-1].end()
        value = self._text[start:end]
        for possessive in ("'s", "\N{RIGHT SINGLE QUOTATION MARK}s"):
            value = value.removesuffix(possessive)
        opening = _SENTENCE_STARTS.search(self._text[max(0, start - 8) : start])
        self.take("opening" if opening else "name", value, start, end)

    def read_phrases(self) -> None:
        """Words in lower case after a preposition: `in paris`, `in paris and new york`."""
        phrase: list[re.Match[str]] = []
        expected, end = False, 0
        for token in _PHRASE_TOKEN.finditer(self.rest):
            word = plain(token.group())
            expected = expected and token.start() - end <= 1  # a wider gap hides a value of another kind
            end = token.end()
            says_something = word[0].isalpha() and word not in STOP and word not in _CUES
            if phrase and says_something and len(phrase) < _PHRASE_WORDS and self._goes_on(phrase[-1], token):
                phrase.append(token)
                continue
            ended = bool(phrase)
            self._take_phrase(phrase)
            phrase = [token] if expected and says_something and not ended else []
            expected = word in _CUES or (expected and word in _ARTICLES) or (ended and word in _JOINS)
        self._take_phrase(phrase)

    def _take_phrase(self, phrase: list[re.Match[str]]) -> None:
        if phrase:
            start, end = phrase[0].start(), phrase[-1].end()
            self._found.append(Find("phrase", self._text[start:end], start, end))

    def labelled(self) -> list[Find]:
        """All that was found, in order, with the words that name it; and values that only a label tells."""
        found: list[Find] = []
        for find in self._found:
            label = _LABEL.search(self._text[max(0, find.start - 60) : find.start])
            found.append(replace(find, label=label[1]) if label else find)
        for match in _PAIR.finditer(self._text):
            start, end = match.span(2)
            if not any(find.kind in _CLOSED and find.start < end and match.start() < find.end for find in found):
                found.append(Find("labelled", match[2], start, end, label=match[1]))
        return sorted(found, key=lambda find: (find.start, -find.end))


def _is_capital(word: str) -> bool:
    return word[0].isupper() and plain(word) not in STOP


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits)


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
