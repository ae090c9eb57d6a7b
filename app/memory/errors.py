"""What can go wrong with remembering."""

from __future__ import annotations

from app.chat import GatewayError


class MemoryUnavailable(GatewayError):
    """The store of conversations cannot be asked right now; nothing of what was to be done was done.

    Args:
        reason: what the store said, for operators and not for callers.

    Attributes:
        reason: as given.
        retry_after: seconds after which to try again.
    """

    retry_after = 2.0

    def __init__(self, reason: str = "") -> None:
        super().__init__("the memory of conversations cannot be asked right now; try again in a moment")
        self.reason = reason


class ConversationNotFound(GatewayError):
    """There is no conversation of this id."""


class ConversationExists(GatewayError):
    """There is a conversation of this id already."""


class TurnNotFound(GatewayError):
    """The conversation has no turn of this number, or no longer."""
