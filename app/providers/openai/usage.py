"""Token counts, which every server places a little differently. What is not told stays unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.chat import Usage


def usage_of(told: Any) -> Usage | None:
    """The usage in a server's object; None where there is none."""
    if not isinstance(told, dict) or not told:
        return None
    prompt, completion = _inner(told, "prompt_tokens_details"), _inner(told, "completion_tokens_details")
    return Usage(
        input_tokens=_count(told, "prompt_tokens", "input_tokens"),
        output_tokens=_count(told, "completion_tokens", "output_tokens"),
        total_tokens=_count(told, "total_tokens"),
        cached_tokens=_count({**told, **prompt}, "cached_tokens", "prompt_cache_hit_tokens"),
        reasoning_tokens=_count({**told, **completion}, "reasoning_tokens"),
    )


def _inner(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = told.get(name)
    return details if isinstance(details, dict) else {}


def _count(told: Mapping[str, Any], *names: str) -> int | None:
    return next((told[name] for name in names if type(told.get(name)) is int and told[name] >= 0), None)
