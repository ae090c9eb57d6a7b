"""How many tool calls one turn may have. Pure counting: nothing is run here and nothing is remembered.

A turn's calls are those that its assistant messages ask for, from the last user message on, whether they were run,
refused or failed. So the count needs no state of its own, holds for a caller who drives the loop over HTTP as well,
and a model that keeps asking for what it is refused does not win calls by it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from app.chat import (
    AssistantMessage,
    ConfigurationError,
    Message,
    Tool,
    ToolCall,
    ToolCallLimitExceeded,
    current_turn,
)


@dataclass(frozen=True, slots=True)
class ToolCallLimits:
    """Limits on the tool calls of one turn. None = no limit.

    Attributes:
        per_tool: calls of any one tool; a tool's own `max_calls` goes before it.
        total: calls of all tools together.
        rounds: model calls whose tools are run. With 3, the turn is over when the tools of the third have run; calls of
            further ones are refused.
        identical: runs of the same tool with the same arguments, whatever the order of keys and the white space.
        on_limit: what the tool loop does after a refusal: end the run (`raise`) or let the model read it
            (`return_error`). The manager refuses in both cases in the same way.
        uncounted: names of tools that only `rounds` applies to, and whose calls use up no one else's.

    Raises:
        ConfigurationError: a limit below 1.
    """

    per_tool: int | None = 40
    total: int | None = 150
    rounds: int | None = 25
    identical: int | None = 3
    on_limit: Literal["raise", "return_error"] = "raise"
    uncounted: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("per_tool", "total", "rounds", "identical"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ConfigurationError(f"the limit {name} must be at least 1, or None for no limit; it is {limit}")
        if self.on_limit not in {"raise", "return_error"}:
            raise ConfigurationError(f'on_limit must be "raise" or "return_error"; it is {self.on_limit!r}')


def asked_so_far(history: Sequence[Message]) -> list[AssistantMessage]:
    """The messages of the turn that ask for tools, one a round."""
    return [
        message for message in current_turn(history) if isinstance(message, AssistantMessage) and message.tool_calls
    ]


def refusals(
    calls: Sequence[ToolCall],
    *,
    asked: Sequence[AssistantMessage],
    tools: Mapping[str, Tool],
    limits: ToolCallLimits,
) -> tuple[ToolCallLimitExceeded | None, ...]:
    """Which calls of a new assistant message go beyond a limit.

    Args:
        calls: the calls the message asks for, in order.
        asked: the messages of its turn that asked for tools before it.
        tools: the tools offered, by name; for their own `max_calls`.
        limits: the limits.

    Returns:
        One entry a call: None where it may run, else why not, in words for the model.
    """
    if limits.rounds is not None and len(asked) >= limits.rounds:
        refusal = f"The call was not run: {_rounds_reached(limits.rounds)} Answer with what you have."
        return tuple(_no_more_rounds(refusal, limits.rounds) for _ in calls)
    tally = _Tally(tools, limits)
    for message in asked:
        for call in message.tool_calls:
            tally.add(call)
    return tuple([tally.add(call) for call in calls])


def rounds_used_up(rounds: int, limits: ToolCallLimits) -> ToolCallLimitExceeded | None:
    """The limit on rounds, where a turn has had as many as it may."""
    if limits.rounds is None or rounds < limits.rounds:
        return None
    return _no_more_rounds(f"This was the last round: {_rounds_reached(limits.rounds)}", limits.rounds)


_LONG = 4096
"""Arguments with more characters are not kept."""
_sorted = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def canonical_arguments(arguments: str) -> str:
    """A text that is the same for arguments which say the same; arguments that are not JSON stand for themselves."""
    return _canonical(arguments) if len(arguments) > _LONG else _canonical_and_kept(arguments)


def _canonical(arguments: str) -> str:
    if not arguments.strip():
        return "{}"
    try:
        return _sorted(json.loads(arguments))
    except (ValueError, RecursionError):
        return arguments


_canonical_and_kept = lru_cache(maxsize=1024)(_canonical)
"""The calls of a turn are compared anew with each of its rounds."""


class _Tally:
    """Counts calls one after the other and says of each whether it is one too many."""

    def __init__(self, tools: Mapping[str, Tool], limits: ToolCallLimits) -> None:
        self._tools = tools
        self._limits = limits
        self._total = 0
        self._per_tool: dict[str, int] = {}
        self._identical: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._uncompared: list[ToolCall] = []

    def add(self, call: ToolCall) -> ToolCallLimitExceeded | None:
        name, limits = call.name, self._limits
        if name in limits.uncounted:
            return None
        self._total += 1
        of_tool = self._per_tool[name] = self._per_tool.get(name, 0) + 1
        self._uncompared.append(call)
        per_tool, total, identical = self._per_tool_limit(name), limits.total, limits.identical
        if per_tool is not None and of_tool > per_tool:
            return _too_many_of_one(name, per_tool)
        if total is not None and self._total > total:
            return _too_many(total)
        # Nothing is compared before there are as many calls of the tool.
        if identical is not None and of_tool > identical and self._is_repeated(call, identical):
            return _too_often_the_same(name, identical)
        return None

    def _is_repeated(self, call: ToolCall, limit: int) -> bool:
        """Whether the same was asked more often."""
        for one in self._uncompared:
            self._identical[one.name, canonical_arguments(one.arguments)] += 1
        self._uncompared.clear()
        return self._identical[call.name, canonical_arguments(call.arguments)] > limit

    def _per_tool_limit(self, name: str) -> int | None:
        tool = self._tools.get(name)
        own = tool.metadata.max_calls if tool is not None else None
        return self._limits.per_tool if own is None else own


def _rounds_reached(limit: int) -> str:
    return f"the limit of {limit} rounds in one turn is reached."


def _no_more_rounds(message: str, limit: int) -> ToolCallLimitExceeded:
    return ToolCallLimitExceeded(message, kind="rounds", limit=limit)


def _too_many(limit: int) -> ToolCallLimitExceeded:
    return ToolCallLimitExceeded(
        f"The call was not run: the limit of {limit} tool calls in one turn is reached. Answer with what you have.",
        kind="total_calls",
        limit=limit,
    )


def _too_many_of_one(tool: str, limit: int) -> ToolCallLimitExceeded:
    return ToolCallLimitExceeded(
        f"The call was not run: the limit of {limit} calls of the tool {tool} in one turn is reached. "
        "Answer with what you have, or use another tool.",
        kind="calls_per_tool",
        limit=limit,
        tool=tool,
    )


def _too_often_the_same(tool: str, limit: int) -> ToolCallLimitExceeded:
    return ToolCallLimitExceeded(
        f"The call was not run: the tool {tool} was called with these very arguments before in this turn, and the "
        f"limit of {limit} identical calls is reached. Use the results you have, or other arguments.",
        kind="identical_calls",
        limit=limit,
        tool=tool,
    )
