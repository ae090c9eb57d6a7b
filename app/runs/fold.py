"""Events added up to the answer so far: what a run that was broken off has to show."""

from __future__ import annotations

from operator import itemgetter

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


class Fold:
    """Takes the events of a run one by one. Holds the text of the round that is going and what is finished."""

    def __init__(self) -> None:
        self.round: int | None = None
        self._is_open = False
        self._answered: Round | None = None
        self._model: str | None = None
        self._usage = Usage()
        self._rounds: list[Round] = []
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
                self._is_open = True
                self._answered = None
                self._calls.clear()
                self._text.clear()
                self._reasoning.clear()
            case ToolCallReady(call):
                self._calls[call.id] = (len(self._calls), call)
            case ToolCallSucceeded(call_id, name, result, ms):
                self._ran(call_id, name, ms, result=result)
            case ToolCallErrored(call_id, name, error, ms):
                self._ran(call_id, name, ms, error=error)
            case ModelAnswered(response):  # a blocking call has told no text before
                self._text = [response.content]
                self._reasoning = [response.message.reasoning or ""]
                self._answered = response.rounds[-1] if response.rounds else None
                self._model = response.model
            case RoundCompleted(_, reason, usage, target):
                self._is_open = False
                self._answered = None
                self._usage += usage
                self._rounds.append(Round(reason, usage, target))

    def closing(self, reason: FinishReason) -> RoundCompleted | None:
        """What ends the round that is going: as its model call ended, or for `reason`. None where no round is going."""
        if not self._is_open or self.round is None:
            return None
        ended = self._answered or Round(reason)
        return RoundCompleted(self.round, ended.finish_reason, ended.usage, ended.target)

    def response(self, reason: FinishReason) -> ChatResponse:
        """What was done so far, as an answer that ended for `reason`."""
        message = AssistantMessage("".join(self._text), reasoning="".join(self._reasoning) or None)
        # Tools tell their results as they end; an answer lists them as they were asked for.
        runs = tuple(run for _, _, run in sorted(self._runs, key=itemgetter(0, 1)))
        rounds = [*self._rounds, self._answered] if self._answered else self._rounds
        usage = self._usage + self._answered.usage if self._answered else self._usage
        return ChatResponse(message, reason, usage, self._model, rounds=tuple(rounds), tool_runs=runs)

    def _ran(self, call_id: str, name: str, ms: float, *, result: str | None = None, error: str | None = None) -> None:
        place, call = self._calls.get(call_id, (len(self._calls), ToolCall(call_id, name)))
        number = self.round or 1
        self._runs.append((number, place, ToolRun(number, call_id, name, call.arguments, result, error, ms)))
