"""What becomes of an exception of a tool: who gets to see how much of it."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass

from app.chat import ToolCall, ToolError

logger = logging.getLogger(__name__)

LOGGED_FRAMES = 12
"""How many of the innermost frames are logged."""


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What the model, the log and the caller are told.

    A `ToolError` is written for the model and always goes to it whole. Of other exceptions the message may hold
    anything (a password in a URL, a customer's record), so it goes nowhere unless switched on.

    Attributes:
        error_details: the model gets an exception's type and message.
        log_details: the log gets an exception's message and whole traceback.
        raise_errors: which exceptions go to the caller instead of the model: True for all but `ToolError`s, or
            types, whose subclasses count too. What is no `Exception` always goes to the caller.
    """

    error_details: bool = False
    log_details: bool = False
    raise_errors: bool | tuple[type[Exception], ...] = False

    def raises(self, error: BaseException) -> bool:
        """Whether `error` goes to the caller."""
        if not isinstance(error, Exception):
            return True
        if isinstance(self.raise_errors, tuple):
            return isinstance(error, self.raise_errors)
        return self.raise_errors and not isinstance(error, ToolError)

    def text(self, call: ToolCall, error: BaseException) -> str:
        """What the model reads in place of a result."""
        if isinstance(error, ToolError):
            return _message(error) or f"The tool {call.name} failed without saying why ({type(error).__name__})."
        if not self.error_details:
            return f"The tool {call.name} failed. The details are in the gateway's log."
        message = _message(error)
        kind = type(error).__name__
        return f"The tool {call.name} failed: {kind}: {message}" if message else f"The tool {call.name} failed: {kind}"

    def log(self, call: ToolCall, error: BaseException) -> None:
        """Log an exception that the tool's author did not foresee; a `ToolError` is no news."""
        if isinstance(error, ToolError):
            return
        logger.error(
            "tool %s failed in call %r: %s at %s",
            call.name,
            call.id,
            _kinds(error),
            _frames(error),
            exc_info=error if self.log_details else None,
        )


def _message(error: BaseException) -> str:
    try:
        return str(error).strip()
    except Exception:  # noqa: BLE001 - an exception that cannot be printed must not hide that the tool failed
        return ""


def _kinds(error: BaseException) -> str:
    """The exception's type and those of its causes."""
    kinds = [_kind(error)]
    seen = {id(error)}
    cause = error.__cause__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        kinds.append(_kind(cause))
        cause = cause.__cause__
    return " caused by ".join(kinds)


def _kind(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _frames(error: BaseException) -> str:
    frames = list(traceback.walk_tb(error.__traceback__))[-LOGGED_FRAMES:]
    return " > ".join(f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}" for frame, line in frames)
