"""What an operator can say of runs, of what is remembered, and of what replicas share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from app.settings_models import Section
from app.settings_rules import (
    Count,
    Limit,
    MemoryUrl,
    OrNone,
    OrUnlimited,
    ReadableFile,
    RedisUrl,
    Seconds,
    TimeLimit,
    from_file,
)


class MemorySettings(Section):
    """What is remembered of conversations, and where."""

    enabled: bool = True
    url_file: OrNone[ReadableFile] = None
    url: OrNone[MemoryUrl] = Field(default=None, validate_default=True)
    inside_loop: bool = False
    max_messages: Count = 200
    max_tokens: Limit = None
    max_conversations: Count = 10_000
    keep_days: OrUnlimited[Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)]] = None
    summarize: bool = False

    _url_from_file = field_validator("url", mode="before")(from_file("url_file"))

    @property
    def address(self) -> str:
        """Where the memory is."""
        return "data/gateway.db" if self.url is None else self.url.get_secret_value()


class RunsSettings(Section):
    """Runs of one process, and what is kept of them."""

    max_active: Count = 256
    deadline: TimeLimit = None
    disconnect_grace: Seconds = 0.0
    max_events: Count = 20_000
    max_bytes: Count = 8 * 1024 * 1024
    max_kept: Annotated[int, Field(ge=0)] = 1_000
    keep: Seconds = 600.0


class RedisSettings(Section):
    """What replicas share; without an address this process is alone."""

    url_file: OrNone[ReadableFile] = None
    url: OrNone[RedisUrl] = Field(default=None, validate_default=True)
    lease: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 10.0

    _url_from_file = field_validator("url", mode="before")(from_file("url_file"))
