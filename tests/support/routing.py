"""Routed models with a clock of their own: waits are kept, not waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.chat import ChatModel
from app.providers.routing import RetryPolicy, RoutedModel, Target

PATIENT = RetryPolicy(attempts=3, base_delay=0.5, max_delay=8.0, max_retry_after=30.0)
"""What tests go by, whatever the defaults are."""


class VirtualTime:
    """A clock that stands still but for `sleep` and what a test adds.

    Attributes:
        now: seconds.
        waits: what was slept, in order.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let so much time pass, at once."""
        self.waits.append(round(seconds, 3))
        self.now += seconds


def routed(
    routes: Mapping[str, Sequence[Target]] | None = None,
    /,
    *models: ChatModel,
    time: VirtualTime | None = None,
    **arguments: Any,
) -> RoutedModel:
    """A routed model in virtual time whose jitter is always the whole back-off.

    Args:
        routes: targets by alias; None = one alias `main` of `models`, named by the letters from `a`.
        *models: the models of `main`.
        time: the clock.
        **arguments: further ones of `RoutedModel`; `retry` is `PATIENT` unless given.
    """
    time = time or VirtualTime()
    if routes is None:
        routes = {"main": [Target(model, name) for model, name in zip(models, "abcdef", strict=False)]}
    given = {"uniform": lambda: 0.999_999, "retry": PATIENT, **arguments}
    return RoutedModel(routes, now=time, sleep=time.sleep, **given)
