"""Logging is the process's, and so every other test's too."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from app.logs import DEFAULT


@contextmanager
def logging_as_before() -> Iterator[None]:
    """Put back what a configuration of logging changes."""
    loggers = [logging.getLogger(name) for name in (None, *DEFAULT["loggers"])]
    before = [(logger, logger.level, logger.handlers[:], logger.filters[:]) for logger in loggers]
    try:
        yield
    finally:
        for logger, level, handlers, filters in before:
            logger.setLevel(level)
            logger.handlers[:] = handlers
            logger.filters[:] = filters
