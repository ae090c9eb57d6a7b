"""What an operator is told when the gateway starts."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

logger = logging.getLogger(__name__)

DEMO_NOTE = (
    "No model is configured: the built-in demo model answers, which matches words and is no language model. "
    "Set GATEWAY_MODEL__BASE_URL and GATEWAY_MODEL__NAME (and GATEWAY_MODEL__API_KEY where the server wants one)."
)

_WORKERS = re.compile(r"(?:-w|--workers)[= ]?(\d+)")


def announce(*, model: str, tools: Sequence[str], demo: bool) -> None:
    """Log what was put together, and loudly that the demo model answers where it does.

    Args:
        model: its name.
        tools: names of the tools there are at the start.
        demo: whether the demo model answers.
    """
    logger.info("model %r, tools: %s", model, ", ".join(tools) or "none")
    if demo:
        logger.warning(DEMO_NOTE)


def warn_of_lone_memory(environ: Mapping[str, str], arguments: Sequence[str]) -> None:
    """Log that conversations are kept in each process by itself, where there are to be several processes.

    Args:
        environ: the environment; servers read `WEB_CONCURRENCY`.
        arguments: the server's command line.
    """
    given = _WORKERS.search(" ".join(arguments)) or re.fullmatch(r"\s*(\d+)\s*", environ.get("WEB_CONCURRENCY", ""))
    if given is not None and int(given[1]) > 1:
        logger.warning(
            "%s workers, and each remembers conversations by itself: whether a conversation is known will be luck. "
            "Run one worker, or keep conversations where all of them find them, by GATEWAY_MEMORY__URL.",
            given[1],
        )
