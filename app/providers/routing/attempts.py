"""Which target one call asks next, and when: pure, told what happened by whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.chat import ModelError, Usage
from app.providers.routing.retry import RetryBudget, RetryPolicy
from app.providers.routing.target import Lane
from app.providers.routing.verdicts import came_to_nothing, is_of_this_target, may_pass

_ANSWERS_FOR_NOTHING = 2
"""From this one on an answer that is empty or breaks off is what there is to be had, and each costs tokens."""


@dataclass(slots=True)
class _Chance:
    """A lane that may still be asked.

    Attributes:
        tries: how often it was.
        due: when it may be asked again.
    """

    lane: Lane
    tries: int = 0
    due: float = 0.0


@dataclass(frozen=True, slots=True)
class Next:
    """The lanes that are to be asked next, the first that has room, after `wait` seconds."""

    lanes: Sequence[Lane]
    wait: float = 0.0


class Attempts:
    """The tries of one call.

    Targets that were not asked come first, without a wait and without a charge to the budget: to ask each once
    multiplies nothing. After that the one that may be asked again soonest is.

    Args:
        lanes: in order of preference for this call.
        policy: how often and how patiently.
        budget: what the process may still repeat.
        now: a clock in seconds.
        uniform: gives a number from 0 to 1.
        ends: when the caller's time is over.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        policy: RetryPolicy,
        budget: RetryBudget,
        *,
        now: Callable[[], float],
        uniform: Callable[[], float],
        ends: float | None = None,
    ) -> None:
        self._policy = policy
        self._budget = budget
        self._now = now
        self._uniform = uniform
        self._ends = ends
        self.lanes = _admitted(lanes)
        """Those of the first try."""
        self._for_nothing = 0
        self.usage: Usage | None = None

    @cached_property
    def _chances(self) -> list[_Chance]:
        """Made by the first failure, which hardly a call has."""
        return [_Chance(lane) for lane in self.lanes]

    @property
    def time_left(self) -> float | None:
        """Seconds of the caller's time, to the thousandth as messages tell them; None = no end."""
        return None if self._ends is None else round(max(0.0, self._ends - self._now()), 3)

    def spent(self, usage: Usage | None) -> None:
        """Count what a try that failed used."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def after(self, lane: Lane, error: ModelError) -> Next | None:
        """What to do after `lane` failed with `error` before anything was delivered; None = tell the caller."""
        if not is_of_this_target(error) or self._is_for_nothing_again(error):
            return None
        self._note(lane, error)
        fresh = [chance.lane for chance in self._chances if chance.tries == 0 and chance.lane.breaker.admits]
        if fresh:
            return self._in_time(Next(fresh))
        again = [chance for chance in self._chances if chance.tries and chance.lane.breaker.admits]
        if not again:
            return None
        soonest = min(again, key=lambda chance: chance.due)
        found = self._in_time(Next((soonest.lane,), max(0.0, soonest.due - self._now())))
        return found if found and self._budget.take() else None

    def _is_for_nothing_again(self, error: ModelError) -> bool:
        self._for_nothing += came_to_nothing(error)
        return came_to_nothing(error) and self._for_nothing >= _ANSWERS_FOR_NOTHING

    def _note(self, lane: Lane, error: ModelError) -> None:
        chance = next(chance for chance in self._chances if chance.lane is lane)
        chance.tries += 1
        delay = self._policy.delay(chance.tries, error.retry_after, self._uniform) if may_pass(error) else None
        if delay is None:
            self._chances.remove(chance)
        else:
            chance.due = self._now() + delay

    def _in_time(self, found: Next) -> Next | None:
        left = self.time_left
        return found if left is None or found.wait < left else None


def _admitted(lanes: Sequence[Lane]) -> Sequence[Lane]:
    """The lanes whose breakers let a call in.

    Where none does, the one that has waited longest for its probe: a breaker chooses between targets, it never refuses
    a call.
    """
    admitted = [lane for lane in lanes if lane.breaker.admits]
    return admitted or [min(lanes, key=lambda lane: lane.breaker.due)]
