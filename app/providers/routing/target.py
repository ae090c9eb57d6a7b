"""The servers behind an alias, and in which order a call asks them.

The list's order is the preference. Neighbours in it that have a weight stand on one step: they share the calls in
proportion to their weights, and the rest of the step is asked where the chosen one fails. A target without a weight is
a step of its own.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from app.chat import ChatModel, ConfigurationError, TargetState
from app.providers.routing.breaker import Breaker, BreakerPolicy
from app.providers.routing.limiter import Limiter, Limits


@dataclass(frozen=True, slots=True)
class Target:
    """One server that can answer for an alias.

    Attributes:
        model: asks it. Its own name for the model is what the server is asked for.
        name: told in answers and logs; None where there is nothing to tell apart.
        weight: its share among neighbours that have one too; None = it stands alone.
        limits: how many calls it gets at a time.
        timeout: seconds for a whole call, where the request says nothing; None leaves it to the model. All tries of a
            call together have the longest time that one of its targets has.
    """

    model: ChatModel
    name: str | None = None
    weight: float | None = None
    limits: Limits = field(default_factory=Limits)
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.weight is not None and not (math.isfinite(self.weight) and self.weight > 0):
            raise ConfigurationError(f"the weight of target {self.name!r} must be above 0; leave it out for none")


class Lane:
    """A target with what is known of it: its breaker and who is in it."""

    def __init__(self, target: Target, breaker: Breaker) -> None:
        self.target = target
        self.breaker = breaker
        self.limiter = Limiter(target.limits)


class Route:
    """The lanes of one alias.

    Attributes:
        alias: its name.
        lanes: one a target.
        timeout: seconds for a call with all its tries; None = no end.

    Args:
        alias: its name.
        targets: in order of preference.
        breaker: when a target is left alone. The only target of an alias never is: there is nobody else to ask.
        now: a clock in seconds.

    Raises:
        ConfigurationError: there is no target, or two have the same name.
    """

    def __init__(
        self,
        alias: str,
        targets: Sequence[Target],
        *,
        breaker: BreakerPolicy | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if not targets:
            raise ConfigurationError(f"the alias {alias!r} has no target")
        names = [target.name for target in targets if target.name is not None]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigurationError(f"two targets of the alias {alias!r} are named {twice[0]!r}")
        policy = BreakerPolicy(failures=None) if len(targets) == 1 else breaker
        self.alias = alias
        self.lanes = tuple(Lane(target, Breaker(policy, now=now)) for target in targets)
        self._steps = _steps(self.lanes)
        times = [target.timeout for target in targets if target.timeout is not None]
        self.timeout = max(times) if len(times) == len(targets) else None

    @property
    def states(self) -> tuple[TargetState, ...]:
        """How the targets are."""
        return tuple(
            TargetState(self.alias, lane.target.name, lane.breaker.state, lane.limiter.active, lane.limiter.waiting)
            for lane in self.lanes
        )

    def order(self, uniform: Callable[[], float] = random.random) -> Sequence[Lane]:
        """The lanes in the order in which one call asks them.

        Args:
            uniform: gives a number from 0 to 1, 1 not included.
        """
        if len(self._steps) == len(self.lanes):
            return self.lanes  # no two share
        return [lane for step in self._steps for lane in _drawn(step, uniform)]


def _steps(lanes: Sequence[Lane]) -> list[list[Lane]]:
    steps: list[list[Lane]] = []
    for lane in lanes:
        if steps and lane.target.weight is not None and steps[-1][-1].target.weight is not None:
            steps[-1].append(lane)
        else:
            steps.append([lane])
    return steps


def _drawn(step: list[Lane], uniform: Callable[[], float]) -> list[Lane]:
    """The lanes of a step by lot: each next one is drawn from those left, in proportion to the weights."""
    if len(step) == 1:
        return step
    return sorted(step, key=lambda lane: -math.log(1.0 - uniform()) / (lane.target.weight or 1.0))
