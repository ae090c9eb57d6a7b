"""Why a run was not begun, was ended from outside, or cannot be read."""

from __future__ import annotations

from app.chat import GatewayError


class RunRefused(GatewayError):
    """A run was not begun; nothing was sent or stored. `retry_after` is in seconds, None = cannot be told."""

    retry_after: float | None = None


class ConversationBusy(RunRefused):
    """Another run of the same conversation is still going."""


class GatewayFull(RunRefused):
    """As many runs are going as may."""

    retry_after = 1.0


class ShuttingDown(RunRefused):
    """The gateway is on its way out: new runs are refused and, when their time is over, old ones ended."""

    retry_after = 5.0


class IdempotencyKeyReused(RunRefused):
    """The key has begun a run already, for another request."""


class RunNotFound(GatewayError):
    """There never was a run of this id."""


class RunGone(GatewayError):
    """The run has ended, and is no longer kept."""


class EventsGone(GatewayError):
    """The run is there, but not all the events that a reader lacks: its journal is bounded, and older ones fall out.

    Args:
        first: the number of the oldest event that is kept.
        had: the number of the last event that the reader has.
    """

    def __init__(self, first: int, had: int) -> None:
        super().__init__(
            f"events up to {first - 1} are no longer kept, and this reader had {had}: read on after {first - 1}, "
            "or take the answer from the run itself when it has ended"
        )
        self.first = first


class SharedStateUnavailable(RunRefused):
    """What the replicas share cannot be asked right now, and the request needs it."""

    retry_after = 2.0


class RunLost(GatewayError):
    """The replica that the run was going on is gone, and the run with it."""


def afresh(error: Exception) -> Exception:
    """The error as if nobody had raised it: it is kept, and where it was raised holds all that was at work there."""
    behind: list[BaseException | None] = [error]
    while behind:
        one = behind.pop()
        if one is not None and one.__traceback__ is not None:
            one.__traceback__ = None
            behind += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return error
