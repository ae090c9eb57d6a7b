"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.speed.figures import Spread

_THREE_FIGURES = 100


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, or nothing where it has no rows."""
    lines = [head, ["---"] * len(head), *rows] if rows else []
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float | None) -> str:
    """A number with three figures, or whole; nothing for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= _THREE_FIGURES else f"{value:.3g}"


def spread(found: Spread | None) -> str:
    """The middle, and between what the others lie; nothing for None."""
    if found is None:
        return ""
    middle = number(found.median)
    return middle if found.least == found.most else f"{middle} ({number(found.least)} to {number(found.most)})"


def word(is_so: bool | None) -> str:
    """Yes, no, or that nobody knows."""
    return "not measured" if is_so is None else "yes" if is_so else "**no**"
