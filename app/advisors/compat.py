"""Advisors that were written for one mode only, made to serve both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import reduce
from typing import TypeAlias

from app.advisors.rounds import continued, swallowed
from app.chat import (
    LOWEST_PRECEDENCE,
    AssistantMessage,
    CallNext,
    ChatEvent,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    ReasoningDelta,
    RoundStarted,
    TextDelta,
    ToolCallArguments,
    ToolCallStarted,
)

CallNextBlocking: TypeAlias = Callable[[ChatRequest], Awaitable[ChatResponse]]
"""The rest of the chain as a blocking advisor sees it."""

BlockingAdvise: TypeAlias = Callable[[ChatRequest, CallNextBlocking], Awaitable[ChatResponse]]
"""An advisor for blocking calls only: takes a request, awaits the rest of the chain 0..n times, gives an answer."""

StreamingAdvise: TypeAlias = Callable[[ChatRequest, CallNext], ChatEvents]
"""An advisor for streams only: as `Advisor.advise`, but at home with pieces of text rather than whole answers."""

_PIECES_OF_A_STREAM = (TextDelta, ReasoningDelta, ToolCallStarted, ToolCallArguments)


class CallAdvisor:
    """An advisor made of a function for blocking calls.

    In a stream all events are held back until the function has given its answer, as it may be there to keep a
    text from being seen. Where it changed the answer's text, the changed one takes the place of what the model
    wrote in the last round. Earlier rounds' text it does not get to see; an order above the tool loop's shows it
    the answer of every round.

    The function may call the chain several times, one after the other. Rounds are counted on, and what all the
    calls used and ran is added up, whichever answer it gives in the end.

    Args:
        function: see `BlockingAdvise`.
        order: see `Advisor.order`.
    """

    def __init__(self, function: BlockingAdvise, order: int = LOWEST_PRECEDENCE) -> None:
        self._function = function
        self.order = order

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Ask the function, then tell what happened. See `Advisor.advise`."""
        calls = _BlockingCalls(request, call_next)
        response = calls.summed(await self._function(request, calls.call))
        for event in calls.told(response) if request.stream else calls.events:
            yield event
        yield Completed(response)


class StreamAdvisor:
    """An advisor made of a function for streams.

    In a blocking call it gets the answer's text as a single piece, and the pieces it yields are not passed on.
    In both modes a text that it changed on the way becomes the answer's content, unless it yields a `Completed`
    of its own. It need not yield any: the chain's is taken then, and where it did not call the chain, its text is
    the answer.

    Args:
        function: see `StreamingAdvise`.
        order: see `Advisor.order`.
    """

    def __init__(self, function: StreamingAdvise, order: int = LOWEST_PRECEDENCE) -> None:
        self._function = function
        self.order = order

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Run the events through the function. See `Advisor.advise`."""
        below = _InPieces(call_next)
        given: ChatResponse | None = None
        async with aclosing(self._function(request, below.call)) as events:
            async for event in events:
                below.passed_on.add(event)
                if isinstance(event, Completed):
                    given = event.response
                    continue
                is_shown = request.stream and not below.is_retelling
                if is_shown or not isinstance(event, _PIECES_OF_A_STREAM):
                    yield event
        yield Completed(below.answer(given))


class _BlockingCalls:
    """The calls of the chain that a blocking function makes, and the events they gave."""

    def __init__(self, request: ChatRequest, call_next: CallNext) -> None:
        self.events: list[ChatEvent] = []
        self._call_next = call_next
        self._next = request
        self._answered: list[tuple[ChatRequest, ChatResponse]] = []

    async def call(self, request: ChatRequest) -> ChatResponse:
        """The answer of the rest of the chain, by itself. A call that fails leaves no events."""
        request = replace(request, round=self._next.round)
        told: list[ChatEvent] = []
        answer: ChatResponse | None = None
        async with aclosing(self._call_next(request)) as events:
            async for event in events:
                if isinstance(event, Completed):
                    answer = event.response
                else:
                    told.append(event)
        if answer is None:
            raise RuntimeError("the chain below the advisor ended without Completed")
        if self._answered:
            self.events += swallowed(*self._answered[-1])
        self.events += told
        self._answered.append((request, answer))
        self._next = continued(request, answer)
        return answer

    def summed(self, response: ChatResponse) -> ChatResponse:
        """The function's answer, with what all calls used and ran where it made several."""
        if len(self._answered) < 2:  # noqa: PLR2004 - several
            return response
        total = reduce(lambda earlier, later: later.after(earlier), (answer for _, answer in self._answered))
        return replace(response, usage=total.usage, rounds=total.rounds, tool_runs=total.tool_runs)

    def told(self, response: ChatResponse) -> list[ChatEvent]:
        """The events of a stream whose answer is `response`."""
        if self._answered and response.message == self._answered[-1][1].message:
            return self.events
        starts = [index for index, event in enumerate(self.events) if isinstance(event, RoundStarted)]
        start = starts[-1] if starts else 0
        rest = [event for event in self.events[start:] if not isinstance(event, (TextDelta, ReasoningDelta))]
        return [*self.events[:start], *rest, *_pieces(response.message)]


class _InPieces:
    """The rest of the chain as a streaming function sees it: the answer's text comes as deltas in every mode.

    Attributes:
        passed_on: the text that the function makes of it.
        is_retelling: whether it is being told a text that is no part of a stream: a blocking answer, or a tool's
            result that is the answer.
    """

    def __init__(self, call_next: CallNext) -> None:
        self.passed_on = _LastText()
        self.is_retelling = False
        self._heard = _LastText()
        self._call_next = call_next
        self._response: ChatResponse | None = None

    async def call(self, request: ChatRequest) -> ChatEvents:
        """The chain's events, and deltas of the answer where there were none that say the same."""
        self.is_retelling = False
        async with aclosing(self._call_next(request)) as events:
            async for event in events:
                if isinstance(event, Completed):
                    self._response = event.response
                    if event.response.content != self._heard.text:
                        self.is_retelling = True
                        self._heard.clear()
                        self.passed_on.clear()
                        for piece in _pieces(event.response.message):
                            self._heard.add(piece)
                            yield piece
                self._heard.add(event)
                yield event

    def answer(self, given: ChatResponse | None) -> ChatResponse:
        """The answer of a function that yielded the end `given`, if it did."""
        text = self.passed_on.text
        response = given or self._response
        if response is None:
            if not text:
                raise RuntimeError("a streaming advisor ended with neither text nor Completed")
            message = AssistantMessage(text)
            return ChatResponse(message, generated=(message,))
        is_its_own = self._response is None or response.content != self._response.content
        if is_its_own or text == self._heard.text:
            return response
        return response.with_message(replace(response.message, content=text))


class _LastText:
    """The text of the round that is going."""

    def __init__(self) -> None:
        self._deltas: list[str] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._deltas)

    def add(self, event: ChatEvent) -> None:
        """Take the next event."""
        if isinstance(event, RoundStarted):
            self.clear()
        elif isinstance(event, TextDelta):
            self._deltas.append(event.text)

    def clear(self) -> None:
        """Begin anew."""
        self._deltas.clear()


def _pieces(message: AssistantMessage) -> list[TextDelta | ReasoningDelta]:
    reasoning = [ReasoningDelta(message.reasoning)] if message.reasoning else []
    return [*reasoning, *([TextDelta(message.content)] if message.content else [])]
