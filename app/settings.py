"""What an operator can set, with its defaults and rules. Only `app.main` and `app.__main__` read it.

A value comes from the first place that gives one: arguments, the environment, `.env`, `gateway.toml`, the default
written here. `app.settings_sources` knows these places, `app.settings_models` what is said of model servers,
`app.settings_rules` what single values may be, and `config/gateway.toml` shows every setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.chat import ConfigurationError
from app.settings_models import (
    BreakerSettings,
    ModelServerSettings,
    ModelSettings,
    ProfileSettings,
    RetrySettings,
    Section,
    Targets,
    TargetSettings,
)
from app.settings_problems import explain
from app.settings_rules import (
    Count,
    FactoryName,
    ImportableName,
    Level,
    Limit,
    Origin,
    OrNone,
    Peer,
    Port,
    Seconds,
    Text,
    TimeLimit,
    passwords_in,
)
from app.settings_sources import (
    DotEnvFile,
    Environment,
    OpenAIFallback,
    TomlFile,
    config_dir,
    env_file,
)
from app.settings_state import MemorySettings, RedisSettings, RunsSettings

__all__ = [
    "BreakerSettings",
    "LoggingSettings",
    "MemorySettings",
    "ModelServerSettings",
    "ModelSettings",
    "ProfileSettings",
    "RedisSettings",
    "RetrySettings",
    "RunsSettings",
    "ServerSettings",
    "Settings",
    "StreamSettings",
    "TargetSettings",
    "ToolCallingSettings",
    "ToolsSettings",
]


class ToolsSettings(Section):
    """Where tools are found, and what they are told beside their arguments."""

    packages: tuple[ImportableName, ...] = ("tools",)
    context: Mapping[str, Any] = Field(default={}, repr=False)


class ToolCallingSettings(Section):
    """The tool loop. A limit or time of 0, "none" or "unlimited" is none at all."""

    auto_register: bool = True
    max_rounds: Limit = 25
    max_calls_per_tool: Limit = 40
    max_total_calls: Limit = 150
    max_identical_calls: Limit = 3
    uncounted: tuple[Text, ...] = ()
    on_limit: Literal["raise", "return_error"] = "raise"
    tool_timeout: TimeLimit = 60.0
    max_concurrency: Count = 8
    threads: Count = 32
    error_details: bool = False
    log_details: bool = False
    raise_errors: bool = False


class StreamSettings(Section):
    """`/chat/stream`."""

    heartbeat: TimeLimit = 15.0
    commit_after: Seconds = 1.0


class ServerSettings(Section):
    """The HTTP server."""

    host: Text = "127.0.0.1"
    port: Port = 8000
    cors_origins: tuple[Origin, ...] = ()
    forwarded_allow_ips: tuple[Peer, ...] = ()
    max_body_bytes: Count = 4 * 1024 * 1024
    docs: bool = True
    keep_alive: Count = 75
    drain: Seconds = 10.0


class LoggingSettings(Section):
    """How much is logged, over what `logging.toml` says."""

    level: OrNone[Level] = None


class Settings(BaseSettings):
    """All settings, read once at the start and never changed.

    Args:
        arguments: sections by name, as mappings or as their own classes; they win over every other place. A mapping
            is merged key by key with what the other places say of its section, an instance replaces the section.

    Raises:
        ConfigurationError: names every key that is unknown or has a wrong value, where it was set and what is
            allowed. No value is repeated, since it may be a secret.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        protected_namespaces=(),
        env_prefix="GATEWAY_",
        env_nested_delimiter="__",
    )

    model: ModelSettings = ModelSettings()
    models: Mapping[Text, Targets] = {}
    retry: RetrySettings = RetrySettings()
    breaker: BreakerSettings = BreakerSettings()
    tools: ToolsSettings = ToolsSettings()
    tool_calling: ToolCallingSettings = ToolCallingSettings()
    stream: StreamSettings = StreamSettings()
    server: ServerSettings = ServerSettings()
    memory: MemorySettings = MemorySettings()
    runs: RunsSettings = RunsSettings()
    redis: RedisSettings = RedisSettings()
    logging: LoggingSettings = LoggingSettings()
    advisors: tuple[FactoryName, ...] = ()

    def __init__(self, **arguments: Any) -> None:
        try:
            super().__init__(**arguments)
        except ValidationError as error:
            problem = explain(error, type(self), arguments)
        else:
            return
        raise ConfigurationError(problem)  # out here, so that no traceback shows the other error and its values

    @property
    def passwords(self) -> tuple[str, ...]:
        """Passwords of databases, as they stand in addresses and as they are meant."""
        addresses = [url.get_secret_value() for url in (self.memory.url, self.redis.url) if url is not None]
        return tuple(dict.fromkeys(form for address in addresses for form in passwords_in(address)))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Say where values come from, strongest first.

        pydantic-settings' own sources overlook misspelt variables and do not say which variable was wrong.
        """
        environment = Environment(settings_cls)
        dot_env = DotEnvFile(settings_cls, env_file())
        toml = TomlFile(settings_cls, config_dir() / "gateway.toml")
        return init_settings, environment, dot_env, toml, OpenAIFallback(settings_cls, environment, dot_env, toml)
