"""What comes back: one model call's answer, and, added up, a run's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from app.chat.messages import EMPTY, AssistantMessage, Message, ToolCall, ToolMessage


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    RETURN_DIRECT = "return_direct"
    TOOL_CALL_LIMIT = "tool_call_limit"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else one + other


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens used. None is unknown, which is not 0; a sum is over what is known."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.total_tokens, other.total_tokens),
            _sum(self.cached_tokens, other.cached_tokens),
            _sum(self.reasoning_tokens, other.reasoning_tokens),
        )


@dataclass(frozen=True, slots=True)
class Round:
    """One model call: why it ended, what it used, and which of several targets served it, where that has a name."""

    finish_reason: FinishReason
    usage: Usage = Usage()
    target: str | None = None


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One tool call that was answered.

    Attributes:
        round: number of the model call that asked for it, from 1.
        id: the call's id.
        name: the tool's name as asked for.
        arguments: JSON text as the model wrote it.
        result: what the tool gave, None where it failed.
        error: why it failed, None where it did not.
        ms: milliseconds it took.
    """

    round: int
    id: str
    name: str
    arguments: str
    result: str | None = None
    error: str | None = None
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """An answer.

    Attributes:
        message: the assistant message of the last round.
        finish_reason: why the whole ended.
        usage: tokens, summed over `rounds`.
        model: the model's name as the server told it.
        id: the server's id of the last answer.
        rounds: one entry a model call, in order.
        tool_runs: one entry a tool call that was answered, in order.
        generated: every message the turn grew by: assistant messages with their calls, results, and the answer.
        extra: what the server told beside this (such as rate limits).
    """

    message: AssistantMessage
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage = Usage()
    model: str | None = None
    id: str | None = None
    rounds: tuple[Round, ...] = ()
    tool_runs: tuple[ToolRun, ...] = ()
    generated: tuple[Message, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    @classmethod
    def of_call(
        cls,
        message: AssistantMessage,
        finish_reason: FinishReason = FinishReason.STOP,
        usage: Usage | None = None,
        *,
        model: str | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
        extra: Mapping[str, Any] = EMPTY,
    ) -> ChatResponse:
        """The answer of a single model call: one round, one message generated."""
        usage = usage or Usage()
        return cls(message, finish_reason, usage, model, id, (Round(finish_reason, usage),), (), (message,), extra)

    @property
    def content(self) -> str:
        """Text of the last round."""
        return self.message.content

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Calls that the last round asks for."""
        return self.message.tool_calls

    def with_message(self, message: AssistantMessage) -> ChatResponse:
        """The same answer in other words; in `generated` too, where the answer stands last."""
        generated = self.generated
        if generated[-1:] == (self.message,):
            generated = (*generated[:-1], message)
        return replace(self, message=message, generated=generated)

    def from_target(self, target: str | None) -> ChatResponse:
        """The same answer with its rounds marked as served by this target; None marks nothing."""
        if target is None:
            return self
        rounds = tuple([Round(one.finish_reason, one.usage, target) for one in self.rounds])
        return self._with_sums(self.usage, rounds, self.tool_runs, self.generated)

    def with_usage(self, usage: Usage | None) -> ChatResponse:
        """The same answer with tokens added that were used to get it, such as those of a failed attempt.

        Args:
            usage: counts towards the last round; None adds nothing.
        """
        if usage is None:
            return self
        rounds = self.rounds
        if rounds:
            rounds = (*rounds[:-1], replace(rounds[-1], usage=rounds[-1].usage + usage))
        return self._with_sums(self.usage + usage, rounds, self.tool_runs, self.generated)

    def with_results(self, message: ToolMessage, tool_runs: tuple[ToolRun, ...]) -> ChatResponse:
        """The same answer when the calls of its last round have been answered, by this message."""
        return self._with_sums(self.usage, self.rounds, self.tool_runs + tool_runs, (*self.generated, message))

    def after(self, earlier: ChatResponse | None) -> ChatResponse:
        """This answer as the continuation of an earlier one of the same run: what both used and did, added up."""
        if earlier is None:
            return self
        return self._with_sums(
            earlier.usage + self.usage,
            earlier.rounds + self.rounds,
            earlier.tool_runs + self.tool_runs,
            earlier.generated + self.generated,
        )

    def _with_sums(
        self,
        usage: Usage,
        rounds: tuple[Round, ...],
        tool_runs: tuple[ToolRun, ...],
        generated: tuple[Message, ...],
    ) -> ChatResponse:
        """The same answer with all that adds up over a run. As `replace` would do it, for three times as much."""
        return ChatResponse(
            self.message, self.finish_reason, usage, self.model, self.id, rounds, tool_runs, generated, self.extra
        )
