"""A circuit breaker: after failures in a row a target is left alone for a while, then tried with one call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.chat import BreakerState


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a breaker opens and for how long.

    Attributes:
        failures: failures in a row after which it opens; None = never.
        recovery: seconds it stays open before one call may try.
    """

    failures: int | None = 5
    recovery: float = 30.0


class Permit:
    """The right to make one call; how the call went is to be told once, and `abandoned` closes what is left open."""

    def __init__(self, breaker: Breaker, *, probing: bool) -> None:
        self._breaker = breaker
        self._probing = probing
        self._told = False

    def begun(self) -> None:
        """The target began to answer: a probe has found it well, however its answer ends."""
        if self._probing:
            self._probing = False
            self._breaker.close()

    def succeeded(self) -> None:
        """The call ended, or its failure does not speak against the target."""
        self._told = True
        if self._probing:
            self._breaker.close()
        else:
            self._breaker.forgive()

    def failed(self) -> None:
        """The call failed by the target's fault."""
        self._told = True
        if self._probing:
            self._breaker.open()
        else:
            self._breaker.count()

    def abandoned(self) -> None:
        """The call was given up by its caller, which says nothing of the target. Harmless after an outcome."""
        if self._probing and not self._told:
            self._breaker.forget_probe()


class Breaker:
    """The state of one target.

    Calls that began before it opened and end later change nothing: what counts then is the probe.

    Args:
        policy: when it opens.
        now: a clock in seconds.
    """

    def __init__(self, policy: BreakerPolicy | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy or BreakerPolicy()
        self._now = now
        self._in_a_row = 0
        self._opened: float | None = None
        self._probed = False

    @property
    def state(self) -> BreakerState:
        """`closed`: calls go through; `open`: none does; `half_open`: one may."""
        if self._opened is None:
            return "closed"
        return "open" if self.due > self._now() else "half_open"

    @property
    def due(self) -> float:
        """When it lets, or let, a call through."""
        return self._now() if self._opened is None else self._opened + self._policy.recovery

    @property
    def admits(self) -> bool:
        """Whether a call would be let through now."""
        return self._opened is None or (self.state == "half_open" and not self._probed)

    def enter(self) -> Permit:
        """Make a call: a probe, unless the breaker is closed. Whether it should be made is the caller's care."""
        probing = self._opened is not None and not self._probed
        self._probed = self._probed or probing
        return Permit(self, probing=probing)

    def close(self) -> None:
        """Let calls through again."""
        self._opened, self._probed, self._in_a_row = None, False, 0

    def open(self) -> None:
        """Let none through from now on."""
        self._opened, self._probed = self._now(), False

    def count(self) -> None:
        """One more failure in a row."""
        if self._opened is not None:
            return
        self._in_a_row += 1
        if self._policy.failures is not None and self._in_a_row >= self._policy.failures:
            self.open()

    def forgive(self) -> None:
        """The row of failures has ended."""
        self._in_a_row = 0

    def forget_probe(self) -> None:
        """The probe told nothing: the next call may be one."""
        self._probed = False
