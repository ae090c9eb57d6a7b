"""Names of a test's cases that are the same in every process, so that a case can be asked for again."""

from __future__ import annotations

import re

_PLACE = re.compile(r" at 0x[0-9a-f]+")


def shown(value: object) -> str:
    """How a parameter looks, without its place in memory, and with what has no order of its own in order."""
    return repr(sorted(value)) if isinstance(value, set | frozenset) else _PLACE.sub("", repr(value))
