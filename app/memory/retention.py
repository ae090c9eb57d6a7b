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


async def forget_old(memory: ConversationStore, keep: timedelta) -> NoReturn:
    """Look again and again, until it is cancelled.

    Args:
        memory: where conversations are kept.
        keep: for how long after their last turn.
    """
    while True:
        try:
            count = await memory.prune(datetime.now(UTC) - keep)
        except MemoryUnavailable:
            logger.warning("old conversations cannot be forgotten now; trying again in an hour")
        else:
            if count:
                logger.info("forgot %d conversations that nobody added to for %s", count, keep)
        await asyncio.sleep(_EVERY)
