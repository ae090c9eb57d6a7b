"""Why a run was not begun, or was ended from outside."""

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
