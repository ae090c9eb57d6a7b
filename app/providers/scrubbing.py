"""Keeping secrets out of everything that leaves: messages of errors, and the answer itself.

Model servers echo what they were sent: a refused key in the error's text, a header in a debug answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from urllib.parse import quote

MASK = "***"

_SHORT = 8
"""Below this length a secret may be part of a word: errors mask it as a whole word only."""
_WORDS = 16
"""Below this length a secret of letters only may be a placeholder ("ollama") that answers use as a word."""
_NUMBERS = 6
"""Below this length a secret of any other kind may be a number or a name that answers use."""

_PATTERNS = (
    (("://",), re.compile(r"(://)[^/\s'\"]+@"), rf"\1{MASK}@"),
    (("bearer",), re.compile(r"(?i)\b(bearer\s+)(?=\S*[\d*]|\S{20})[^\s'\",;)]+"), rf"\1{MASK}"),
    (("basic",), re.compile(r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?basic\s+)[^\s'\",;)]+"), rf"\1{MASK}"),
    (
        ("?", "&"),
        re.compile(r"(?i)([?&][\w.-]*(?:key|token|secret|sig|password|auth)[\w.-]*=)[^&\s'\"]+"),
        rf"\1{MASK}",
    ),
    (("api",), re.compile(r"(?i)\b(api[-_ ]?key['\"]?\s*[:=]\s*['\"]?)(?!['\"*\s])[^\s'\",;)}]+"), rf"\1{MASK}"),
    (
        ("access", "client", "passw"),
        re.compile(
            r"(?i)\b((?:access[-_ ]?token|client[-_ ]?secret|passw(?:or)?d)['\"]?\s*[:=]\s*['\"]?)[^\s'\",;)}]+"
        ),
        rf"\1{MASK}",
    ),
    (
        ("aiza", "akia", "gsk_", "hf_", "xai-", "r8_", "nvapi-", "pplx-"),
        re.compile(r"(?<![\w-])(?:AIza|AKIA|gsk_|hf_|xai-|r8_|nvapi-|pplx-)[\w-]{8,}"),
        MASK,
    ),
    (("sk-",), re.compile(r"(?<![\w-])sk-[\w*-]{2,}(?:\.{2,}[\w*-]+)?"), MASK),
    (("*",), re.compile(r"(?<![\w.*-])[\w.-]*\*{3,}[\w-]*"), MASK),  # a key that the server has masked in part only
)
"""What looks like a secret, behind the words of which it holds one, in lower case: without them it is not looked for,
since every line of the log is scrubbed, and hardly one has them."""
_BY_WORD = [(word, pattern, mask) for words, pattern, mask in _PATTERNS for word in words]


class Scrubber:
    """Masks secrets in a text: those it was given, and what looks like one.

    Args:
        secrets: texts that must never be seen; empty ones are ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        longest_first = sorted(_spellings(secrets), key=len, reverse=True)
        self._known = [(secret, re.compile(_exactly(secret))) for secret in longest_first]

    def __call__(self, text: str) -> str:
        """`text` without secrets."""
        for secret, pattern in self._known:
            if secret in text:
                text = pattern.sub(MASK, text)
        lowered = text.lower()
        for pattern, mask in {pattern: mask for word, pattern, mask in _BY_WORD if word in lowered}.items():
            text = pattern.sub(mask, text)
        return text

    def __repr__(self) -> str:
        return f"Scrubber({len(self._known)} secrets)"


def _spellings(secrets: Iterable[str]) -> set[str]:
    return {
        spelling
        for secret in secrets
        if secret
        for spelling in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1])
    }


def _exactly(secret: str) -> str:
    pattern = re.escape(secret)
    return pattern if len(secret) >= _SHORT else rf"(?<!\w){pattern}(?!\w)"


def masked(text: str, secrets: Iterable[str]) -> str:
    """A text that came whole, such as an id, without what a `StreamMask` of each secret would mask."""
    for secret in filter(is_recognisable, secrets):
        text = text.replace(secret, MASK)
    return text


def masked_value(value: Any, secrets: Collection[str]) -> Any:
    """A decoded JSON value of which every text is `masked`."""
    if isinstance(value, str):
        return masked(value, secrets)
    if isinstance(value, Mapping):
        return {name: masked_value(item, secrets) for name, item in value.items()}
    return [masked_value(item, secrets) for item in value] if isinstance(value, list) else value


def is_recognisable(secret: str) -> bool:
    """Whether what looks like a secret in an answer is one, and no word or number that answers may use."""
    return len(secret) >= (_WORDS if secret.isalpha() else _NUMBERS)


class StreamMask:
    """Masks one secret in a text that comes in pieces, even where it is cut between two.

    A piece is held back only while it ends in at least four characters of the secret's beginning.

    Args:
        secret: what must not be seen; one that may be a plain word or number is let by.
    """

    _ENOUGH = 4

    def __init__(self, secret: str) -> None:
        self._secret = secret if is_recognisable(secret) else ""
        self._beginning = self._secret[: self._ENOUGH]
        self._held = ""
        self._sent = ""

    def feed(self, piece: str) -> str:
        """What of the text so far may be passed on now."""
        if not self._secret:
            return piece
        text = self._sent + self._held + piece
        sent = len(self._sent)
        if self._beginning not in text:
            self._held, self._sent = "", text[1 - self._ENOUGH :]
            return text[sent:]
        text = self._masked(text, sent)
        keep = self._begun(text, sent)
        passed = text[: len(text) - keep]
        self._held = text[len(passed) :]
        self._sent = passed[1 - self._ENOUGH :]
        return passed[sent:]

    def close(self) -> str:
        """What is still held back: no secret after all."""
        held, self._held = self._held, ""
        return held

    def _masked(self, text: str, sent: int) -> str:
        before, found, after = text.partition(self._secret)
        if not found:
            return text
        begun = text[len(before) : sent]  # what was sent stays: three characters at most
        return before + begun + MASK + after.replace(self._secret, MASK)

    def _begun(self, text: str, sent: int) -> int:
        """How many characters at the end of `text` may be the beginning of the secret."""
        for length in range(min(len(self._secret) - 1, len(text)), self._ENOUGH - 1, -1):
            if text.endswith(self._secret[:length]):
                return min(length, len(text) - sent)
        return 0
