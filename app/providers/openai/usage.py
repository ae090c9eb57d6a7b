"""Token counts, which every server places a little differently. What is not told stays unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.chat import Usage

_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
_CACHE_N = ("cache_n",)
_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_TOTAL = ("total_tokens",)
_REASONING = ("reasoning_tokens",)
_PARTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def usage_of(told: Any, timings: Any = None) -> Usage | None:
    """The usage in a server's object; None where there is none.

    Args:
        told: the object.
        timings: llama.cpp's counts beside it, which say how much of the prompt was cached where the object does not.
    """
    if not isinstance(told, dict) or not told:
        return None
    inputs = told.get("prompt_tokens_details") or told.get("input_tokens_details")
    outputs = told.get("completion_tokens_details") or told.get("output_tokens_details")
    cached = _count(inputs, _CACHED)
    if cached is None:
        cached = _count(told, _CACHED)
    if cached is None:
        cached = _count(timings, _CACHE_N)
    reasoning = _count(outputs, _REASONING)
    return Usage(
        _count(told, _INPUT),
        _count(told, _OUTPUT),
        _count(told, _TOTAL),
        cached,
        _count(told, _REASONING) if reasoning is None else reasoning,
    )


def later_usage(earlier: Usage, later: Usage) -> Usage:
    """What is known when a server has told usage once more: counts grow, they are not added up.

    What the later one leaves out stays, but for the total, which is of its own moment.
    """
    kept = {
        name: known for name in _PARTS if (known := getattr(earlier, name)) is not None and getattr(later, name) is None
    }
    return replace(later, **kept)


def _count(told: Any, names: tuple[str, ...]) -> int | None:
    if isinstance(told, dict):
        for name in names:
            count = told.get(name)
            if type(count) is int and count >= 0:
                return count
    return None
