"""How runs are to be run: all of them, and a single one."""

from __future__ import annotations

from dataclasses import dataclass

from app.runs.local_run import OnDisconnect
from app.runs.store import WhenBusy


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How much there may be of runs.

    Attributes:
        active: how many may be going at once, those that wait for their conversation included; None = any number.
        deadline: seconds that one may take, see `Run`; None = any number.
        grace: seconds in which a reader may come back before a run that nobody reads is cancelled.
    """

    active: int | None = None
    deadline: float | None = None
    grace: float = 0.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How one run is to be run.

    Attributes:
        tool_calling: see `ChatClient.run`.
        when_busy: what to do when another run of the conversation is still going. One that was told to end is waited
            for in any case.
        on_disconnect: see `Run`.
        request_id: see `Run`.
    """

    tool_calling: bool | None = None
    when_busy: WhenBusy = "reject"
    on_disconnect: OnDisconnect = "cancel"
    request_id: str | None = None
