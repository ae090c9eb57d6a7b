"""What an operator can set, with its defaults and rules. Only `app.main` and `app.__main__` read it.

A value comes from the first place that gives one: arguments, the environment, `.env`, `gateway.toml`, the default
written here. `app.settings_sources` knows these places, `app.settings_rules` what single values may be, and
`config/gateway.toml` shows every setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.chat import ConfigurationError
from app.settings_rules import (
    ApiKey,
    BaseUrl,
    Count,
    FactoryName,
    Headers,
    ImportableName,
    Level,
    Limit,
    Origin,
    OrNone,
    Peer,
    Port,
    ReadableFile,
    Seconds,
    Text,
    TimeLimit,
    stripped,
)
from app.settings_sources import (
    DotEnvFile,
    Environment,
    OpenAIFallback,
    TomlFile,
    config_dir,
    env_file,
    explain,
)

__all__ = [
    "BreakerSettings",
    "LoggingSettings",
    "MemorySettings",
    "ModelServerSettings",
    "ModelSettings",
    "ProfileSettings",
    "RetrySettings",
    "RunsSettings",
    "ServerSettings",
    "Settings",
    "StreamSettings",
    "TargetSettings",
    "ToolCallingSettings",
    "ToolsSettings",
]

OPENAI_BASE_URL = "https://api.openai.com/v1"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())


class ProfileSettings(_Section):
    """The server's dialect, where its address does not say it. None leaves a flag as the named profile has it."""

    name: OrNone[Text] = None
    system_role: OrNone[Literal["system", "developer"]] = None
    system_messages: OrNone[Literal["one", "many"]] = None
    strict_tools: OrNone[bool] = None
    refused_keywords: OrNone[tuple[Text, ...]] = None
    parallel_tool_calls: OrNone[bool] = None
    tool_choice: OrNone[Literal["all", "words", "auto"]] = None
    max_tokens_field: OrNone[Literal["max_tokens", "max_completion_tokens"]] = None
    seed_field: OrNone[Literal["seed", "random_seed"]] = None
    unsent_options: OrNone[tuple[Literal["temperature", "top_p", "stop", "seed", "response_format"], ...]] = None
    stream_usage: OrNone[bool] = None
    tool_results: OrNone[Literal["text", "parts"]] = None
    tool_names: OrNone[bool] = None
    call_ids: OrNone[Literal["any", "at_most_40", "exactly_9"]] = None
    empty_content: OrNone[Literal["null", "empty", "omit"]] = None
    reasoning_back: OrNone[Literal["turn", "always", "never"]] = None
    reasoning_field: OrNone[Literal["reasoning_content", "reasoning"]] = None
    extra_back: OrNone[bool] = None
    think_tags: OrNone[bool] = None
    kept_fields: OrNone[tuple[Text, ...]] = None

    @property
    def flags(self) -> dict[str, Any]:
        """The flags that are set, by name."""
        return self.model_dump(exclude={"name"}, exclude_none=True)


class ModelServerSettings(_Section):
    """A model server: where it is, and how it is talked to."""

    base_url: OrNone[BaseUrl] = Field(default=None, repr=False)  # it may hold a password or a key
    api_key_file: OrNone[ReadableFile] = None
    api_key: OrNone[ApiKey] = Field(default=None, validate_default=True)
    headers: Headers = {}
    connect_timeout: TimeLimit = 10.0
    first_byte_timeout: TimeLimit = 300.0
    idle_timeout: TimeLimit = 300.0
    total_timeout: TimeLimit = 900.0
    max_connections: Count = 1000
    max_concurrency: Limit = None
    max_queue: Annotated[int, Field(ge=0)] = 100
    queue_timeout: TimeLimit = 30.0
    max_event_bytes: Count = 8 * 1024 * 1024
    max_answer_bytes: Count = 32 * 1024 * 1024
    profile: ProfileSettings = ProfileSettings()

    @field_validator("api_key", mode="before")
    @classmethod
    def _key_from_file(cls, value: object, info: ValidationInfo) -> object:
        file = info.data.get("api_key_file")
        if file is None:
            return value
        if value:
            raise ValueError("is given twice, by itself and as a file: give one of them")
        return stripped(Path(file).read_bytes().decode("latin-1"))

    @property
    def server_url(self) -> str:
        """The address requests go to: `base_url`, or OpenAI's own API where only a key was given."""
        return self.base_url or OPENAI_BASE_URL

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key and the headers' values."""
        given = (*self.headers.values(), *([self.api_key] if self.api_key else ()))
        return tuple(secret.get_secret_value() for secret in given)


class ModelSettings(ModelServerSettings):
    """The model server. Without a base URL and a key none is configured, and the built-in demo model answers."""

    name: Text = "gpt-4o-mini"
    system: OrNone[str] = Field(default=None, repr=False)

    @property
    def configured(self) -> bool:
        """Whether there is a model server to talk to: an address or a key was given."""
        return self.base_url is not None or self.api_key is not None


class TargetSettings(ModelServerSettings):
    """One of the model servers behind an alias. Without a name of the model, the alias is the name."""

    name: OrNone[Text] = None
    target: OrNone[Text] = None
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _is_somewhere(self) -> TargetSettings:
        if self.base_url is None and self.api_key is None:
            raise ValueError("needs a base_url, or a key for OpenAI's own API")
        return self


def _as_list(value: object) -> object:
    return (value,) if isinstance(value, Mapping | TargetSettings) else value


Targets: TypeAlias = Annotated[tuple[TargetSettings, ...], BeforeValidator(_as_list), Field(min_length=1)]
"""The model servers behind an alias in order of preference; one may stand for a list of one."""


class RetrySettings(_Section):
    """Asking a model server again, before anything of its answer was delivered."""

    attempts: Count = 3
    base_delay: Seconds = 0.5
    max_delay: Seconds = 8.0
    max_retry_after: Seconds = 30.0
    budget_ratio: Seconds = 0.2
    budget_floor: Annotated[int, Field(ge=0)] = 10


class BreakerSettings(_Section):
    """Leaving a model server alone that fails, where the alias has others."""

    failures: Limit = 5
    recovery: Seconds = 30.0


class ToolsSettings(_Section):
    """Where tools are found, and what they are told beside their arguments."""

    packages: tuple[ImportableName, ...] = ("tools",)
    context: Mapping[str, Any] = Field(default={}, repr=False)


class ToolCallingSettings(_Section):
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


class StreamSettings(_Section):
    """`/chat/stream`."""

    heartbeat: TimeLimit = 15.0
    commit_after: Seconds = 1.0


class ServerSettings(_Section):
    """The HTTP server."""

    host: Text = "127.0.0.1"
    port: Port = 8000
    cors_origins: tuple[Origin, ...] = ()
    forwarded_allow_ips: tuple[Peer, ...] = ()
    max_body_bytes: Count = 4 * 1024 * 1024
    docs: bool = True
    drain: Seconds = 10.0


class MemorySettings(_Section):
    """What is remembered of a conversation, in this process."""

    enabled: bool = True
    inside_loop: bool = False
    max_messages: Count = 200
    max_conversations: Count = 10_000


class RunsSettings(_Section):
    """Runs of one process."""

    max_active: Count = 256
    deadline: TimeLimit = None


class LoggingSettings(_Section):
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
