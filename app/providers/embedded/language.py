"""English as far as the demo model has it: words, stems, words that say nothing, words that say the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import TypeAlias

Stems: TypeAlias = frozenset[str]

_APOSTROPHE = "\N{RIGHT SINGLE QUOTATION MARK}"
_WORD = re.compile(rf"[^\W_]+(?:['{_APOSTROPHE}][^\W_]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOWEL = re.compile(r"[aeiouy]")
_SUFFIXES = (("ations", "at"), ("ation", "at"), ("ators", "at"), ("ator", "at"), ("ates", "at"), ("ate", "at"))


def words(text: str) -> list[str]:
    """The words of a text as written; apostrophes stay inside."""
    return _WORD.findall(text)


def name_words(name: str) -> list[str]:
    """The words of an identifier in snake, kebab, dotted or camel case, in lower case."""
    return [word.lower() for word in words(_CAMEL.sub(" ", name).replace("_", " "))]


def plain(word: str) -> str:
    """A word in lower case and with the plain apostrophe."""
    return unicodedata.normalize("NFKC", word).lower().replace(_APOSTROPHE, "'")


def stem(word: str) -> str:
    """A word without its common endings, so that `cities` meets `city` and `calculator` meets `calculate`."""
    word = plain(word).removesuffix("'s")
    for suffix, rest in _SUFFIXES:
        if word.endswith(suffix) and len(word) > len(suffix) + 2:
            return word.removesuffix(suffix) + rest
    word = _without_plural(word)
    for suffix, shortest in (("ing", 5), ("ed", 5), ("er", 7)):
        base = word.removesuffix(suffix)
        if base != word and len(word) >= shortest and _VOWEL.search(base):
            word = base[:-1] if base[-1:] == base[-2:-1] and base[-1:] not in "lsz" else base
            break
    if word.endswith("y") and len(word) > 3:  # noqa: PLR2004 - `sky` and `day` stay
        return word[:-1] + "i"
    return word.removesuffix("e") if len(word) > 3 else word  # noqa: PLR2004 - `the`, `one` stay


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:  # noqa: PLR2004 - `ties` stays
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:  # noqa: PLR2004 - `gas` stays
        return word[:-1]
    return word


def stems(these: Iterable[str]) -> Stems:
    """The stems of words that say something: neither empty ones nor those of STOP."""
    return frozenset(stem(word) for word in these if plain(word) not in STOP)


def lexicon(listed: str) -> Stems:
    """The stems of words listed in a text."""
    return frozenset(map(stem, listed.split()))


STOP = frozenset(
    words("""
    a an the this that these those there here it its it's is isn't are aren't was were be been being am i i'm i'd
    i'll i've me my mine we us our you your you're he she his her they them their who whom whose what what's whats
    which when where where's how how's why do does did don't doesn't can can't could would should shall will won't
    may might must have has had and or but nor so if then than as at by for from in into of off on onto out over to
    up under with without about per via not no yes ok okay please thanks thank hello hi hey dear bye goodbye good
    morning evening afternoon let let's lets just also too very much many more most some any all both each every other
    like right now today tomorrow tonight yesterday currently again well really actually quickly soon later week weekend
    know want need wish tell give show us help say says said see look think one ones thing things something anything
    everything nothing got gets going go goes etc whether while until till after before 's d eg such example
    """)
)
"""Words that are no evidence for any tool."""

GENERIC = lexicon(
    """
    get set make run use call tool function method list fetch read load find lookup retrieve return create new
    add update change current present given value data info information item name id number text string result
    input output start end first last perform provide handle check test work type kind way long short detail
    """
)
"""Stems of words so common in the names of tools that alone they are no evidence."""

_ALIKE = """
    weather temperature forecast rain rainy snow sunny cloudy windy hot hotter cold colder warm warmer umbrella climate
    time clock hour o'clock
    calculate compute arithmetic math maths mathematics evaluate
    add sum total plus addition
    subtract minus subtraction difference
    multiply multiplication product
    divide division quotient
    mail email inbox
    search find lookup query google
    ticket issue bug
    image picture photo
    buy order purchase
    book reserve reservation
    price cost quote
    meeting appointment event calendar schedule
    user customer person people member
    delete remove erase
    convert conversion exchange
    echo repeat
    roll dice die
    distance far
    temperature celsius fahrenheit degree
    light lamp
"""


def _groups() -> dict[str, Stems]:
    groups: dict[str, Stems] = {}
    for line in _ALIKE.strip().splitlines():
        group = lexicon(line)
        for member in group:
            groups[member] = groups.get(member, frozenset()) | group
    return groups


_GROUPS = _groups()


_UNITS = {
    "%": "percent",
    "\N{DEGREE SIGN}": "degree",
    "c": "celsius",
    "cm": "centimeter",
    "f": "fahrenheit",
    "g": "gram",
    "h": "hour",
    "kg": "kilogram",
    "km": "kilometer",
    "kilometre": "kilometer",
    "lb": "pound",
    "m": "meter",
    "metre": "meter",
    "mi": "mile",
    "min": "minute",
    "mm": "millimeter",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
}


def unit_stem(unit: str) -> str:
    """The stem of a unit's full name: `km`, `kilometres` and `kilometers` are one."""
    bare = plain(unit).removeprefix("\N{DEGREE SIGN}") or plain(unit)
    return stem(_UNITS.get(bare, _UNITS.get(bare.removesuffix("s"), bare)))


def alike(one: str) -> Stems:
    """Stems of words that mean much the same, itself included."""
    return _GROUPS.get(one, frozenset((one,)))
