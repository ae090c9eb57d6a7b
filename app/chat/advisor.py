"""Advisors and their chain.

An advisor stands between a request and the model: it may change the request, watch or change what comes back,
and call the rest of the chain any number of times. That `call_next` can be called again is the recursion from
which the tool loop is made.

The invariant of everything that `call_next` and `advise` return: any number of deltas, then exactly one
`Completed`, then nothing. A blocking call is the same without the deltas of text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import aclosing
from functools import partial
from operator import attrgetter
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from app.chat.events import ChatEvents, Completed, RoundStarted, ToolCallReady, one_by_one
from app.chat.model import ChatModel, batches_of
from app.chat.prompt import ChatRequest
from app.chat.response import ChatResponse

HIGHEST_PRECEDENCE = 0
"""The outermost order."""
LOWEST_PRECEDENCE = 1000
"""The innermost order."""

CallNext: TypeAlias = Callable[[ChatRequest], ChatEvents]

_MARK = "passes_deltas"


@runtime_checkable
class Advisor(Protocol):
    """A habit of the conversation."""

    @property
    def order(self) -> int:
        """Where in the chain: low is outermost; equal orders keep the order of registration."""

    def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Handle the request, usually by `call_next`, which may be called 0..n times.

        Whoever iterates `call_next(...)` closes it (`async with aclosing(...)`), and holds no task group, time-out
        scope or context variable over a `yield`.

        Deltas come one by one, unless this method is marked by `passes_deltas`.
        """


AdviseT = TypeVar("AdviseT", bound=Callable[..., ChatEvents])


def passes_deltas(advise: AdviseT) -> AdviseT:
    """Mark an `advise` that looks at no delta, and passes on as it is whatever is no `Completed`.

    It may be given `Deltas` then, which spares a step for each of them. An `advise` that overrides a marked one is not
    marked by that.
    """
    advise.__dict__[_MARK] = True
    return advise


class BaseAdvisor:
    """An advisor that only looks at or changes the request before, or the whole answer after.

    Args:
        order: see `Advisor.order`.
    """

    def __init__(self, order: int = LOWEST_PRECEDENCE) -> None:
        self._order = order

    @property
    def order(self) -> int:
        """See `Advisor.order`."""
        return self._order

    async def before(self, request: ChatRequest) -> ChatRequest:
        """The request to pass on."""
        return request

    async def after(self, response: ChatResponse, request: ChatRequest) -> ChatResponse:
        """The answer to pass back. `request` is what `before` returned."""
        return response

    @passes_deltas
    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """`before`, the rest of the chain with its deltas passed through, then `after`."""
        request = await self.before(request)
        async with aclosing(call_next(request)) as events:
            async for event in events:
                if isinstance(event, Completed):
                    yield Completed(await self.after(event.response, request))
                else:
                    yield event


async def call_model(model: ChatModel, request: ChatRequest) -> ChatEvents:
    """The end of every chain, and the one place where `request.stream` decides.

    Tool calls are told in both modes, so that the events of a run say what its tools were asked.
    """
    yield RoundStarted(request.round)
    if not request.stream:
        response = await model.call(request.prompt)
        for call in response.tool_calls:
            yield ToolCallReady(call)
        yield Completed(response)
        return
    async with aclosing(batches_of(model, request.prompt)) as events:
        async for event in events:
            yield event


def chain(advisors: Iterable[Advisor], model: ChatModel) -> CallNext:
    """Fold advisors around a model: what is returned runs a request through all of them.

    It may give `Deltas`, where the outermost advisors let them pass.
    """
    call_next: CallNext = partial(call_model, model)
    for advisor in sorted(advisors, key=attrgetter("order"))[::-1]:
        if not hasattr(advisor.advise, _MARK):
            call_next = partial(_call_singly, call_next)
        call_next = partial(advisor.advise, call_next=call_next)
    return call_next


def _call_singly(call_next: CallNext, request: ChatRequest) -> ChatEvents:
    return one_by_one(call_next(request))
