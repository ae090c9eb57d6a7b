"""A model that stands for several servers: asks the one that is wanted and well, and another where it fails.

Everything here holds only until the first event of an answer. From then on the answer is that target's, and where it
breaks off it fails: a second server would not say the same words again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace

from app.chat import (
    ChatEvents,
    ChatModel,
    ChatOptions,
    ChatResponse,
    Completed,
    ConfigurationError,
    ModelError,
    ModelNotFound,
    Prompt,
    TargetState,
    batches_of,
    one_by_one,
)
from app.providers.routing.attempts import Attempts, Next
from app.providers.routing.breaker import BreakerPolicy, Permit
from app.providers.routing.retry import RetryBudget, RetryPolicy
from app.providers.routing.target import Lane, Route, Target
from app.providers.routing.verdicts import breaks

_log = logging.getLogger(__name__)


class RoutedModel:
    """Chooses a target by the alias that the options name, and stands by it or goes on to the next.

    With a single target it is that model with retries and a limit of calls. Where there is but one alias, another name
    in the options goes to its targets as the name of the model; with several it is an error.

    Args:
        routes: targets in order of preference, by alias. Closed with this model.
        default: the alias of requests that name none; None = the first.
        retry: how often and how patiently a target is asked.
        budget: bounds the retries of all calls together.
        breaker: when a target is left alone.
        now: a clock in seconds.
        sleep: waits so many seconds.
        uniform: gives a number from 0 to 1, 1 not included.

    Raises:
        ConfigurationError: there is no alias, one without targets, or no default.
    """

    def __init__(
        self,
        routes: Mapping[str, Sequence[Target]],
        *,
        default: str | None = None,
        retry: RetryPolicy | None = None,
        budget: RetryBudget | None = None,
        breaker: BreakerPolicy | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        if not routes:
            raise ConfigurationError("there is no alias to route to")
        default = next(iter(routes)) if default is None else default
        if default not in routes:
            raise ConfigurationError(f"the default model {default!r} is none of the aliases {', '.join(routes)}")
        self._routes = {
            alias: Route(alias, targets, breaker=breaker, now=now)
            for alias, targets in sorted(routes.items(), key=lambda item: item[0] != default)
        }
        self._retry = retry or RetryPolicy()
        self._budget = budget or RetryBudget(now=now)
        self._now = now
        self._sleep = sleep
        self._uniform = uniform
        self.name = default

    @property
    def default_options(self) -> ChatOptions:
        """None of its own: each target's model has its defaults."""
        return ChatOptions()

    @property
    def aliases(self) -> tuple[str, ...]:
        """See `RoutingModel.aliases`."""
        return tuple(self._routes)

    @property
    def targets(self) -> tuple[TargetState, ...]:
        """See `RoutingModel.targets`."""
        return tuple(state for route in self._routes.values() for state in route.states)

    async def call(self, prompt: Prompt) -> ChatResponse:
        """See `ChatModel.call`.

        Raises:
            ModelBusy: every target has the calls that it may have, and as many wait.
        """
        asking = self._asking(prompt)
        while True:
            await asking.enter()
            with asking:
                return asking.labelled(await asking.model.call(asking.prompt))

    def stream(self, prompt: Prompt) -> ChatEvents:
        """See `ChatModel.stream`.

        Raises:
            ModelBusy: while iterating: every target has the calls that it may have, and as many wait.
        """
        return one_by_one(self.stream_batches(prompt))

    async def stream_batches(self, prompt: Prompt) -> ChatEvents:
        """See `BatchingModel.stream_batches`."""
        asking = self._asking(prompt)
        while True:
            await asking.enter()
            with asking:
                async with aclosing(batches_of(asking.model, asking.prompt)) as events:
                    async for event in events:
                        if not asking.is_delivered:
                            asking.begun()
                        yield Completed(asking.labelled(event.response)) if isinstance(event, Completed) else event
                return

    async def aclose(self) -> None:
        """Close the models of all targets."""
        async with AsyncExitStack() as closing:
            for route in self._routes.values():
                for lane in route.lanes:
                    closing.push_async_callback(lane.target.model.aclose)

    def _asking(self, prompt: Prompt) -> _Asking:
        route, prompt = self._routed(prompt)
        timeout = route.timeout if prompt.options.timeout is None else prompt.options.timeout
        attempts = Attempts(
            route.order(self._uniform),
            self._retry,
            self._budget,
            now=self._now,
            uniform=self._uniform,
            ends=None if timeout is None else self._now() + timeout,
        )
        self._budget.called()
        return _Asking(prompt, route, attempts, self._sleep)

    def _routed(self, prompt: Prompt) -> tuple[Route, Prompt]:
        """The route that the prompt names, and the prompt as its targets get it: each has a model name of its own."""
        wanted = prompt.options.model
        if wanted is None:
            return self._routes[self.name], prompt
        if wanted in self._routes:
            return self._routes[wanted], replace(prompt, options=replace(prompt.options, model=None))
        if len(self._routes) == 1:
            return self._routes[self.name], prompt
        known = ", ".join(map(repr, self._routes))
        raise ModelNotFound(f"unknown model {wanted!r}; known: {known}", code="unknown_alias")


class _Asking:
    """The tries of one call.

    while True:  # until one is left by `return`, or by the error
        await asking.enter()
        with asking:  # a failure after which another try is due ends the block and nothing more
            return await asking.model.call(asking.prompt)

    Args:
        prompt: what is asked, without the alias.
        route: whom.
        attempts: who is asked when.
        sleep: waits so many seconds.
    """

    _permit: Permit
    _lane: Lane
    model: ChatModel
    """Who is asked."""
    prompt: Prompt
    """What it is asked, with the time that this try has."""

    def __init__(
        self, prompt: Prompt, route: Route, attempts: Attempts, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._asked = prompt
        self._route = route
        self._attempts = attempts
        self._sleep = sleep
        self._lanes = attempts.lanes
        self._wait = 0.0
        self.is_delivered = False

    async def enter(self) -> None:
        """Take a place at the target that is next, when its time has come.

        Raises:
            ModelBusy: all that could be asked are full.
        """
        if self._wait:
            await self._sleep(self._wait)
        lane = self._lane = await _entered(self._lanes, self._attempts)
        self._permit = lane.breaker.enter()
        self.model = lane.target.model
        self.prompt = _within(self._asked, self._attempts.time_left, lane.target)

    def begun(self) -> None:
        """The first event of an answer came: it is delivered, and nobody else is asked any more."""
        self._permit.begun()
        self.is_delivered = True

    def labelled(self, response: ChatResponse) -> ChatResponse:
        """The answer with what the target cannot know: the alias, its own name, and what the tries before it used."""
        target, spent = self._lane.target.name, self._attempts.usage
        if not response.model:
            response = replace(response, model=self._route.alias)
        return response if target is None and spent is None else response.from_target(target).with_usage(spent)

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        try:
            if error is None:
                self._permit.succeeded()
            return isinstance(error, ModelError) and self._goes_on_after(error)
        finally:
            self._permit.abandoned()
            self._lane.limiter.leave()

    def _goes_on_after(self, error: ModelError) -> bool:
        lane, attempts = self._lane, self._attempts
        if breaks(error) and not _was_hurried(self.prompt, lane.target, error):
            self._permit.failed()
        else:
            self._permit.succeeded()
        attempts.spent(error.usage)
        error.target, error.usage = lane.target.name, attempts.usage
        found = None if self.is_delivered else attempts.after(lane, error)
        if found is None:
            return False
        _log.warning("%s; asking %s", _told(self._route, lane, error), _planned(found))
        self._lanes, self._wait = found.lanes, found.wait
        return True


async def _entered(lanes: Sequence[Lane], attempts: Attempts) -> Lane:
    """The first lane that has a place, or else the first that has a queue, when it has one; a place is taken there.

    Raises:
        ModelBusy: all of them are full.
    """
    for lane in lanes:
        if lane.limiter.entered():
            return lane
    lane = next((lane for lane in lanes if lane.limiter.has_queue), lanes[0])
    await lane.limiter.enter(attempts.time_left)
    return lane


def _within(prompt: Prompt, left: float | None, target: Target) -> Prompt:
    """The prompt with the time this try has: what is left of the call's, or the target's own where that is less."""
    own = target.timeout if prompt.options.timeout is None else None
    seconds = left if own is None or (left is not None and left < own) else own
    return prompt if seconds is None else Prompt(prompt.messages, prompt.options.within(seconds))


def _was_hurried(asked: Prompt, target: Target, error: ModelError) -> bool:
    """Whether the time that ran out was the caller's and not what the target is given: that is not its fault."""
    return error.code == "total_timeout" and asked.options.timeout not in {None, target.timeout}


def _told(route: Route, lane: Lane, error: ModelError) -> str:
    """A failure without its message, which may quote what was said."""
    told = {
        "model": route.alias,
        "target": lane.target.name,
        "failed": type(error).__name__,
        "status": error.status,
        "code": error.code,
    }
    return " ".join(f"{name}={value!r}" for name, value in told.items() if value is not None)


def _planned(found: Next) -> str:
    who = found.lanes[0].target.name
    return f"{'again' if who is None else repr(who)} in {found.wait:.1f} s"
