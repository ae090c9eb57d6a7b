"""Events added up to the answer so far: what a run that was broken off has to show."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import TypeAlias

from app.chat import (
    AssistantMessage,
    ChatEvent,
    ChatResponse,
    FinishReason,
    ModelAnswered,
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
    Usage,
)

_ToolEvent: TypeAlias = ToolCallReady | ToolCallSucceeded | ToolCallErrored


class Fold:
    """Takes the events of a run one by one, and adds them up when that is asked for, which it seldom is.

    Holds the text of the round that is going and what is finished.
    """

    def __init__(self) -> None:
        self.round: int | None = None
        self._is_open = False
        self._answered: ChatResponse | None = None
        self._model: str | None = None
        self._rounds: list[RoundCompleted] = []
        self._tools: list[tuple[int, _ToolEvent]] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []

    def add(self, event: ChatEvent) -> None:
        """Take the next event."""
        if isinstance(event, TextDelta):  # no patterns: each token of a stream comes by here
            self._text.append(event.text)
        elif isinstance(event, ReasoningDelta):
            self._reasoning.append(event.text)
        elif isinstance(event, RoundStarted):
            self.round = event.round
            self._is_open = True
            self._answered = None
            self._text.clear()
            self._reasoning.clear()
        elif isinstance(event, _ToolEvent):
            self._tools.append((self.round or 1, event))
        elif isinstance(event, ModelAnswered):  # a blocking call has told no text before
            self._answered = event.response
            self._model = event.response.model
            self._text = [event.response.content]
            self._reasoning = [event.response.message.reasoning or ""]
        elif isinstance(event, RoundCompleted):
            self._is_open = False
            self._answered = None
            self._rounds.append(event)

    def closing(self, reason: FinishReason) -> RoundCompleted | None:
        """What ends the round that is going: as its model call ended, or for `reason`. None where no round is going."""
        if not self._is_open or self.round is None:
            return None
        ended = self._last_answered() or Round(reason)
        return RoundCompleted(self.round, ended.finish_reason, ended.usage, ended.target)

    def response(self, reason: FinishReason) -> ChatResponse:
        """What was done so far, as an answer that ended for `reason`."""
        message = AssistantMessage("".join(self._text), reasoning="".join(self._reasoning) or None)
        rounds = [Round(ended.finish_reason, ended.usage, ended.target) for ended in self._rounds]
        if answered := self._last_answered():
            rounds.append(answered)
        usage = sum((one.usage for one in rounds), Usage())
        return ChatResponse(message, reason, usage, self._model, rounds=tuple(rounds), tool_runs=_runs(self._tools))

    def _last_answered(self) -> Round | None:
        return self._answered.rounds[-1] if self._answered and self._answered.rounds else None


def _runs(told: Iterable[tuple[int, _ToolEvent]]) -> tuple[ToolRun, ...]:
    """The calls that have ended. Tools tell their results as they end; an answer lists them as they were asked for."""
    asked: dict[tuple[int, str], tuple[int, ToolCall]] = {}
    runs: list[tuple[int, int, ToolRun]] = []
    for number, event in told:
        if isinstance(event, ToolCallReady):
            asked[number, event.call.id] = (len(asked), event.call)
            continue
        result = event.result if isinstance(event, ToolCallSucceeded) else None
        error = event.error if isinstance(event, ToolCallErrored) else None
        known = asked.get((number, event.call_id))
        place, call = known or (len(asked), ToolCall(event.call_id, event.name))
        runs.append((number, place, ToolRun(number, call.id, event.name, call.arguments, result, error, event.ms)))
    return tuple(run for _, _, run in sorted(runs, key=itemgetter(0, 1)))
