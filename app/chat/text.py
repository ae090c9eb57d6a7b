"""Text that can be written as UTF-8, which every wire and every store wants."""

from __future__ import annotations


def well_formed_text(text: str) -> str:
    """The text with surrogate pairs joined to their character, and U+FFFD for each lone surrogate.

    JSON can write half a pair, and a text that was cut within one ends in half of it; UTF-8 cannot write it.
    """
    if text.isascii():  # which a text knows of itself
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def bytes_of(text: str) -> int:
    """How many bytes the text has as UTF-8, half a pair counted as three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
