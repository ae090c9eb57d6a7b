"""Forgetting conversations that nobody added to for a long time."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from app.memory.chat_memory import ConversationStore
from app.memory.errors import MemoryUnavailable

logger = logging.getLogger(__name__)

_EVERY = 3600.0
"""Seconds between two looks."""


async def forget_old(memory: ConversationStore, keep: timedelta, every: float = _EVERY) -> NoReturn:
    """Look again and again, until it is cancelled.

    Args:
        memory: where conversations are kept.
        keep: for how long after their last turn.
        every: seconds between two looks.
    """
    while True:
        try:
            count = await memory.prune(datetime.now(UTC) - keep)
        except MemoryUnavailable:
            logger.warning("old conversations cannot be forgotten now; the next look is in %.0f s", every)
        except Exception:  # a store of somebody else's, which is not to be left alone for good
            logger.exception("old conversations cannot be forgotten; the next look is in %.0f s", every)
        else:
            if count:
                logger.info("forgot %d conversations that nobody added to for %s", count, keep)
        await asyncio.sleep(every)
