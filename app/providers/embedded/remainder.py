"""What of a sentence is left for a parameter that takes any text, once the rest is understood."""

from __future__ import annotations

import re
from collections.abc import Iterable

from app.providers.embedded.finds import Find
from app.providers.embedded.language import GENERIC, STOP, Stems, plain, stem

_TOKEN = re.compile(r"[^\W_]+(?:['_\N{RIGHT SINGLE QUOTATION MARK}][^\W_]+)*")
_LEADS = re.compile(
    r"^[\s,:;.!?-]*(?:(?:me|us)\s+)?(?:(?:for|about|that|of|on|to|in|by|with|from|regarding|saying)\s+)?", re.IGNORECASE
)
_ENDS = re.compile(r"(?:[\s,:;.!?]|\b(?:please|thanks|thank you)\b|\b(?:and|to|in|into|for|with|from|at|as)$)+$", re.I)
_PREPOSITION = re.compile(r"\s*\b(?:to|in|into|for|with|from|at|as|on|and|by)\s+$", re.IGNORECASE)


def remainder(text: str, taken: Iterable[Find], triggers: Stems) -> tuple[str, bool]:
    """What follows the words that speak of the tool, without the values that other parameters took.

    Args:
        text: the sentence.
        taken: values that are used already; they and their prepositions are left out.
        triggers: stems that speak of the tool.

    Returns:
        The rest, empty where it says nothing; and whether words that speak of the tool came before it.
    """
    start, led = _after_triggers(text, triggers)
    pieces: list[str] = []
    for find in sorted(taken, key=lambda find: find.start):
        if find.end > start:
            pieces.append(_PREPOSITION.sub("", text[start : max(start, find.start)]))
            start = find.end
    rest = " ".join([*pieces, text[start:]])
    rest = " ".join(rest.split())
    rest = rest[1:].strip() if rest.startswith(":") else _ENDS.sub("", _LEADS.sub("", rest, count=1) if led else rest)
    says_something = led or any(plain(word) not in STOP for word in _TOKEN.findall(rest))
    return (rest if says_something else ""), led


def _after_triggers(text: str, triggers: Stems) -> tuple[int, bool]:
    """Where the words end that lead to the tool: common words, and words that speak of it."""
    end, led = 0, False
    for token in _TOKEN.finditer(text):
        word = token.group()
        if stem(word) in triggers:
            end, led = token.end(), True
        elif plain(word) not in STOP and stem(word) not in GENERIC:
            break
    return end, led


def bare(rest: str, triggers: Stems) -> str:
    """The rest without an article before it and words that speak of the tool after it; empty where it says nothing."""
    said = rest.split()
    while said and stem(said[-1]) in triggers:
        said.pop()
    while said and plain(said[0]) in {"the", "a", "an", "my"}:
        said.pop(0)
    return " ".join(said) if any(not _says_nothing(word, triggers) for word in said) else ""


def brief(rest: str, triggers: Stems) -> str:
    """The rest as the name of something: without common words at its ends, empty where it is too long for that."""
    said = rest.split()
    while said and _says_nothing(said[0], triggers):
        said.pop(0)
    while said and _says_nothing(said[-1], triggers):
        said.pop()
    return " ".join(said) if len(said) <= _BRIEF else ""


_BRIEF = 4  # words
_BETWEEN = re.compile(r"\s*(?:,(?:\s*and\b)?|\band\b|;)\s*", re.IGNORECASE)


def parts(rest: str, triggers: Stems) -> list[str]:
    """The rest as a list: `pear, apple and fig` has three parts."""
    return [part for each in _BETWEEN.split(rest) if (part := brief(each, triggers))]


def _says_nothing(word: str, triggers: Stems) -> bool:
    bare = word.strip(".,:;!?\"'()")
    return not bare or plain(bare) in STOP or stem(bare) in triggers
