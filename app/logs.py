"""Logging as an operator wants it: `logging.toml` where there is one, the same written here where not."""

from __future__ import annotations

import logging
import logging.config
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from app.chat import ConfigurationError

_TELLTALE = {"level": "WARNING"}
"""Of libraries whose debug lines hold whole requests, with headers and prompts, or what is kept of conversations."""
_LIBRARIES = ("openai", "httpx", "httpx2", "httpcore", "httpcore2", "sqlalchemy", "alembic")

DEFAULT: Mapping[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request_id": {"()": "app.web.request_ids.RequestIdFilter"},
        "probes": {"()": "app.logs.NoProbes"},
    },
    "formatters": {
        "line": {
            "class": "app.logs.LineFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s",
        },
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request_id"]}},
    "root": {"level": "INFO", "handlers": ["stderr"]},
    "loggers": {
        "uvicorn.access": {"filters": ["probes"]},
        **dict.fromkeys(_LIBRARIES, _TELLTALE),
    },
}


def configure_logging(file: Path, *, level: str | None, scrub: Callable[[str], str]) -> None:
    """Set logging up for this process.

    Args:
        file: the `logging.toml`; it may be missing.
        level: the root logger's level, None = as the file says.
        scrub: takes secrets out of every line, whoever logs it.

    Raises:
        ConfigurationError: the file cannot be read or is not a logging configuration.
    """
    try:
        config = tomllib.loads(file.read_text(encoding="utf-8-sig")) if file.exists() else DEFAULT
        logging.config.dictConfig({"disable_existing_loggers": False, **config})
    except (OSError, ValueError, TypeError, AttributeError, ImportError) as error:
        reason = f": {error.__cause__}" if error.__cause__ else ""
        raise ConfigurationError(f"{file} is not usable: {error}{reason}") from error
    if level is not None:
        logging.getLogger().setLevel(level.upper())
    for handler in _handlers():
        handler.setFormatter(_Scrubbing(handler.formatter or logging.Formatter(), scrub))


class NoProbes(logging.Filter):
    """Leaves good answers to health checks out of the access log: there is one every few seconds."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the record is logged."""
        match record.args:
            case (_, "GET", "/healthz" | "/readyz", _, 200):
                return False
        return True


class LineFormatter(logging.Formatter):
    """Formats as its base does. Of a time the text of its second is made once: many lines share one."""

    _second: tuple[int | None, str] = (None, "")

    def usesTime(self) -> bool:  # noqa: N802 - theirs
        """Say that the format names the time: to look for its name takes as long as to make it."""
        return True

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - theirs
        """The record's time, in a format of one's own or the usual one."""
        if datefmt:
            return super().formatTime(record, datefmt)
        second, text = self._second
        if second != int(record.created):
            second = int(record.created)
            text = time.strftime(self.default_time_format, self.converter(second))
            self._second = (second, text)
        return f"{text},{int(record.msecs):03d}"


class _Scrubbing(logging.Formatter):
    def __init__(self, formatter: logging.Formatter, scrub: Callable[[str], str]) -> None:
        super().__init__()
        self._formatter = formatter
        self._scrub = scrub

    def format(self, record: logging.LogRecord) -> str:
        return self._scrub(self._formatter.format(record))


def _handlers() -> Iterator[logging.Handler]:
    named = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    for logger in (logging.getLogger(), *named):
        yield from logger.handlers
