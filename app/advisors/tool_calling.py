"""The tool loop: ask the model, run the tools it asks for, tell it the results, until there is an answer.

Differs from Spring AI:

1. The calls of a round run concurrently, with barriers (67).
2. One family of asynchronous hooks serves both modes (33-36).
3. `finalize_loop` runs on every exit: answer, return-direct, limit, failure, cancellation.
4. A forced `tool_choice` holds for the first round only.
5. Calls of an answer cut by the token limit are never run: they may be cut too.
6. At a limit the answer is what was done so far, with finish reason `tool_call_limit`; the words of the breach
   stand in `tool_runs`, not in the answer's text (29-31).
7. With `on_limit="return_error"` reaching `total_calls` or `rounds` allows one closing round with
   `tool_choice: "none"`; a model that still asks for tools has its turn ended.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Self, TypeVar

from app.advisors.rounds import last_round, next_round, swallowed
from app.chat import (
    HIGHEST_PRECEDENCE,
    LOWEST_PRECEDENCE,
    AssistantMessage,
    BaseAdvisor,
    CallNext,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    ConfigurationError,
    FinishReason,
    Message,
    ModelAnswered,
    Prompt,
    SystemMessage,
    passes_deltas,
)
from app.tooling import ToolCallingManager, ToolEvents, ToolExecution

T = TypeVar("T")

_UNFINISHED = frozenset({FinishReason.LENGTH, FinishReason.CONTENT_FILTER})
_CLOSING_LIMITS = frozenset({"total_calls", "rounds"})
_ENDS = frozenset({FinishReason.RETURN_DIRECT, FinishReason.TOOL_CALL_LIMIT})


class ToolAdvisor(BaseAdvisor):
    """Marks an advisor that owns the tool loop. A chain has at most one."""


def asks_for_tools(response: ChatResponse) -> bool:
    """Whether an answer asks for tools and was written to its end: the default eligibility check."""
    return bool(response.tool_calls) and response.finish_reason not in _UNFINISHED


class ToolCallingAdvisor(ToolAdvisor):
    """Owns the loop. Subclass it to change what happens between the rounds, by its hooks.

    To transform the whole outgoing stream, wrap `advise`.

    Args:
        tool_calling_manager: runs the calls.
        eligibility: whether an answer's calls are to be run; asked once a round.
        order: strictly between `HIGHEST_PRECEDENCE` and `LOWEST_PRECEDENCE`, so that others fit on both sides.
        conversation_history: whether each round's prompt holds all messages so far; else only the system
            messages and the last one (a memory inside the loop holds the rest).

    Raises:
        ConfigurationError: an argument is missing or the order is out of range.
    """

    DEFAULT_ORDER = 300

    def __init__(
        self,
        tool_calling_manager: ToolCallingManager,
        *,
        eligibility: Callable[[ChatResponse], bool] = asks_for_tools,
        order: int = DEFAULT_ORDER,
        conversation_history: bool = True,
    ) -> None:
        for name, given in (("tool_calling_manager", tool_calling_manager), ("eligibility", eligibility)):
            if given is None:
                raise ConfigurationError(f"ToolCallingAdvisor needs a {name}, got None")
        if not HIGHEST_PRECEDENCE < order < LOWEST_PRECEDENCE:
            raise ConfigurationError(
                f"the order of a ToolCallingAdvisor must lie between {HIGHEST_PRECEDENCE} and "
                f"{LOWEST_PRECEDENCE}, both excluded, got {order}"
            )
        super().__init__(order)
        self._manager = tool_calling_manager
        self._eligibility = eligibility
        self._conversation_history = conversation_history

    @property
    def conversation_history(self) -> bool:
        """Whether each round's prompt holds all messages so far."""
        return self._conversation_history

    def without_conversation_history(self) -> Self:
        """The same advisor with `conversation_history` off."""
        twin = copy.copy(self)
        twin._conversation_history = False  # noqa: SLF001 - our own copy
        return twin

    async def initialize_loop(self, request: ChatRequest) -> ChatRequest:
        """Called once a turn, first. Returns the request to begin with."""
        return request

    async def before_call(self, request: ChatRequest) -> ChatRequest:
        """Called before each model call. Returns the request to send; its tools are the ones that may run."""
        return request

    async def after_call(self, response: ChatResponse, request: ChatRequest) -> ChatResponse:
        """Called after each model call. Returns the answer to go on with."""
        return response

    async def next_instructions(self, request: ChatRequest, execution: ToolExecution) -> tuple[Message, ...]:
        """The messages of the next round's prompt, after the tools of `request`'s round have run."""
        if self._conversation_history:
            return execution.history
        system = tuple(message for message in request.messages if isinstance(message, SystemMessage))
        return (*system, execution.message)

    async def finalize_loop(self, request: ChatRequest, response: ChatResponse | None) -> None:
        """Called once a turn, last, on every exit. `response` is what was done; None where nothing was."""

    @passes_deltas
    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Run rounds until an answer, a return-direct, or a limit. See `Advisor.advise`."""
        turn = _Turn(await self.initialize_loop(request))
        try:
            while True:
                turn.request = request = await self.before_call(turn.request)
                answer: ChatResponse | None = None
                async with aclosing(call_next(request)) as events:
                    async for event in events:
                        if isinstance(event, Completed):
                            answer = await self.after_call(event.response, request)
                        else:
                            yield event
                answer = _present(answer, "the chain below the tool loop ended without Completed")
                turn.add(answer)
                if not self._eligibility(answer):
                    break
                yield ModelAnswered(answer)
                execution: ToolExecution | None = None
                async with aclosing(self._run_tools(answer, turn)) as outcomes:
                    async for outcome in outcomes:
                        if isinstance(outcome, ToolExecution):
                            execution = outcome
                        else:
                            yield outcome
                execution = _present(execution, "the tool calling manager ended without a ToolExecution")
                if turn.ended_by(execution, may_close=self._manager.limits.on_limit == "return_error"):
                    break
                for told in swallowed(request, answer):
                    yield told
                turn.begin_round(await self.next_instructions(request, execution), answer)
            yield Completed(turn.done)
        finally:
            await self.finalize_loop(turn.request, turn.so_far)

    def _run_tools(self, answer: ChatResponse, turn: _Turn) -> ToolEvents:
        request = turn.request
        return self._manager.stream(
            answer.message,
            tools=request.options.tools or (),
            history=turn.history,
            tool_context=request.options.tool_context,
            conversation_id=request.conversation_id,
            principal=request.principal,
            round=last_round(request, answer),
        )


def _present(value: T | None, missing: str) -> T:
    if value is None:
        raise RuntimeError(missing)
    return value


class _Turn:
    """Where one turn stands. `history` is untrimmed, so that limits are counted over all of it."""

    def __init__(self, request: ChatRequest) -> None:
        self.request = request.changed(turn=request.messages)
        self.history = request.messages
        self.so_far: ChatResponse | None = None
        self._is_closing = False

    @property
    def done(self) -> ChatResponse:
        """What was answered and run so far, added up."""
        return _present(self.so_far, "no round of the turn has been answered")

    def add(self, answer: ChatResponse) -> None:
        """Take a round's answer."""
        self.so_far = answer.after(self.so_far)

    def ended_by(self, execution: ToolExecution, *, may_close: bool) -> bool:
        """Take what a round's tools gave.

        Args:
            execution: the batch.
            may_close: whether a limit leaves the model one more round to close with.

        Returns:
            Whether the turn is over.
        """
        self.history = execution.history
        done = self.done.with_results(execution.message, execution.tool_runs)
        if execution.return_direct:
            answer = AssistantMessage("\n\n".join(result.content for result in execution.message.results))
            done = replace(
                done,
                message=answer,
                finish_reason=FinishReason.RETURN_DIRECT,
                generated=(*done.generated, answer),
            )
        elif execution.breach is not None and (self._is_closing or not may_close):
            # Every call was answered, if only by the breach: none is left for the caller to run.
            message = replace(done.message, tool_calls=())
            done = replace(done, message=message, finish_reason=FinishReason.TOOL_CALL_LIMIT)
        self._is_closing = execution.breach is not None and execution.breach.kind in _CLOSING_LIMITS
        self.so_far = done
        return done.finish_reason in _ENDS

    def begin_round(self, messages: tuple[Message, ...], answer: ChatResponse) -> None:
        """Make the request of the round that follows `answer`."""
        request = (
            self.request.with_options(tool_choice="none") if self._is_closing else self.request.without_forced_tool()
        )
        self.request = request.changed(
            prompt=Prompt(messages, request.options), turn=self.history, round=next_round(request, answer)
        )
