"""What can go wrong with remembering."""

from __future__ import annotations

from app.chat import GatewayError


class MemoryUnavailable(GatewayError):
    """The store of conversations cannot be asked right now; nothing of what was to be done was done.

    Attributes:
        retry_after: seconds after which to try again.
    """

    retry_after = 2.0


class ConversationNotFound(GatewayError):
    """There is no conversation of this id."""


class ConversationExists(GatewayError):
    """There is a conversation of this id already."""


class TurnNotFound(GatewayError):
    """The conversation has no turn of this number, or no longer."""
