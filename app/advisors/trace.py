"""One log line for each model call: what it was, how it ended, what it used. Never what was said.

Tool and model names are written quoted, as they are the model server's words and may hold line ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import aclosing

from app.chat import CallNext, ChatEvents, ChatRequest, ChatResponse, Completed, ModelError, Usage, passes_deltas

_log = logging.getLogger(__name__)


class TraceAdvisor:
    """Logs at INFO each round that gave an answer or was left by its reader, at WARNING each that failed.

    Args:
        order: above the tool loop's, or else a whole turn is one line.
        logger: where the lines go.
    """

    DEFAULT_ORDER = 900

    def __init__(self, order: int = DEFAULT_ORDER, logger: logging.Logger = _log) -> None:
        self.order = order
        self._logger = logger

    @passes_deltas
    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Pass everything through and log how it ended. See `Advisor.advise`."""
        started = time.perf_counter()
        is_logged = False
        try:
            async with aclosing(call_next(request)) as events:
                async for event in events:
                    if isinstance(event, Completed):
                        is_logged = True
                        if self._logger.isEnabledFor(logging.INFO):
                            self._log(logging.INFO, request, started, _told_by(event.response))
                    yield event
        except Exception as error:
            is_logged = True
            self._log(logging.WARNING, request, started, _told_by_error(error))
            raise
        finally:
            if not is_logged:
                self._log(logging.INFO, request, started, {"ended": "abandoned"})

    def _log(self, level: int, request: ChatRequest, started: float, told: Mapping[str, object]) -> None:
        ms = round((time.perf_counter() - started) * 1000)
        told = {"model": request.options.model, **told, "ms": ms}
        line = " ".join([f"{name}={value!r}" for name, value in told.items() if value is not None])
        self._logger.log(level, "round=%d %s", request.round, line)


def _told_by(response: ChatResponse) -> dict[str, object]:
    # What is asked for stands where the server told no name.
    model = {"model": response.model} if response.model else {}
    return {
        **model,
        "target": response.rounds[-1].target if response.rounds else None,
        "finish_reason": response.finish_reason.value,
        "tool_calls": [call.name for call in response.tool_calls],
        **_told_by_usage(response.usage),
    }


def _told_by_error(error: Exception) -> dict[str, object]:
    # Its class and the server's own codes only: its message may quote what was said.
    told: dict[str, object] = {"failed": type(error).__name__}
    if isinstance(error, ModelError):
        told |= {"status": error.status, "code": error.code, "target": error.target, **_told_by_usage(error.usage)}
    return told


def _told_by_usage(usage: Usage | None) -> dict[str, object]:
    if usage is None:
        return {}
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
