"""Events added up to the answer so far: what a cancelled run has to show."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter

from app.chat import (
    AssistantMessage,
    ChatEvent,
    ChatResponse,
    FinishReason,
    ReasoningDelta,
    Round,
    RoundCompleted,
    RoundStarted,
    TextDelta,
    ToolCall,
    ToolCallErrored,
    ToolCallReady,
    ToolCallSucceeded,
    ToolRun,
)


class Fold:
    """Takes the events of a run one by one. Holds the text of the round that is going and what is finished."""

    def __init__(self) -> None:
        self.round: int | None = None
        self._finished = ChatResponse(AssistantMessage())
        self._calls: dict[str, tuple[int, ToolCall]] = {}
        self._runs: list[tuple[int, int, ToolRun]] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []

    def add(self, event: ChatEvent) -> None:
        """Take the next event."""
        match event:
            case TextDelta(text):
                self._text.append(text)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case RoundStarted(number):
                self.round = number
                self._calls.clear()
                self._text.clear()
                self._reasoning.clear()
            case ToolCallReady(call):
                self._calls[call.id] = (len(self._calls), call)
            case ToolCallSucceeded(call_id, name, result, ms):
                self._ran(call_id, name, ms, result=result)
            case ToolCallErrored(call_id, name, error, ms):
                self._ran(call_id, name, ms, error=error)
            case RoundCompleted(_, reason, usage):
                self._finished = replace(
                    self._finished,
                    usage=self._finished.usage + usage,
                    rounds=(*self._finished.rounds, Round(reason, usage)),
                )

    def response(self, reason: FinishReason) -> ChatResponse:
        """What was done so far, as an answer that ended for `reason`."""
        message = AssistantMessage("".join(self._text), reasoning="".join(self._reasoning) or None)
        # Tools tell their results as they end; an answer lists them as they were asked for.
        runs = tuple(run for _, _, run in sorted(self._runs, key=itemgetter(0, 1)))
        return replace(self._finished, message=message, finish_reason=reason, tool_runs=runs)

    def _ran(self, call_id: str, name: str, ms: float, *, result: str | None = None, error: str | None = None) -> None:
        place, call = self._calls.get(call_id, (len(self._calls), ToolCall(call_id, name)))
        number = self.round or 1
        self._runs.append((number, place, ToolRun(number, call_id, name, call.arguments, result, error, ms)))
