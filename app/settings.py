"""What an operator can set, with its defaults and rules. Only `app.main` and `app.__main__` read it.

A value comes from the first place that gives one: arguments, the environment, `.env`, `gateway.toml`, the default
written here. `app.settings_sources` knows these places; `config/gateway.toml` lists every setting.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.chat import ConfigurationError
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
    "LoggingSettings",
    "MemorySettings",
    "ModelSettings",
    "ProfileSettings",
    "RunsSettings",
    "ServerSettings",
    "Settings",
    "StreamSettings",
    "ToolCallingSettings",
    "ToolsSettings",
]

OPENAI_BASE_URL = "https://api.openai.com/v1"
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")


def _stripped(value: object) -> object:
    """Drop what copying leaves around a text; an empty text is a value that was not given."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return (value.strip() or None) if isinstance(value, str) else value


def _none_for_a_word(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() in {"none", "unlimited"} else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _base_url(value: str) -> str:
    rule = ValueError("must be an http:// or https:// address, such as http://localhost:11434/v1")
    try:
        url = urlsplit(value)
        port = url.port
    except ValueError:
        raise rule from None
    if url.scheme not in {"http", "https"} or not url.hostname or port == 0 or not _VISIBLE.fullmatch(value):
        raise rule
    return value


def _api_key(value: SecretStr) -> SecretStr:
    if not _VISIBLE.fullmatch(value.get_secret_value()):
        raise ValueError("holds white space, a control character or one outside ASCII: look at its ends and quotes")
    return value


def _readable(value: Path) -> Path:
    if not value.is_file() or not os.access(value, os.R_OK):
        raise ValueError("must name a file that the gateway can read")
    return value


def _headers(value: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    for name, text in value.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(text.get_secret_value()):
            raise ValueError("must map header names to one line of ASCII text each")
    return value


def _importable(value: str) -> str:
    if not all(part.isidentifier() for part in value.split(".")):
        raise ValueError("must be the importable name of a package or module, such as tools")
    return value


def _factory(value: str) -> str:
    module, separator, name = value.partition(":")
    if not separator or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise ValueError("must have the form package.module:factory")
    return value


def _origin(value: str) -> str:
    url = urlsplit(value)
    if value != "*" and (value != f"{url.scheme}://{url.netloc}" or not url.scheme or not url.netloc):
        raise ValueError('must be "*" or scheme://host[:port] with nothing behind it, such as https://app.example.org')
    return value


def _peer(value: str) -> str:
    try:
        if value != "*":
            ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise ValueError('must be an IP address, a network such as 10.0.0.0/8, or "*" for everyone') from None
    return value


Text = Annotated[str, Field(min_length=1)]
OptionalText = Annotated[str | None, BeforeValidator(_stripped)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
OptionalSeconds = Annotated[
    Seconds | None, BeforeValidator(_none_for_a_word), AfterValidator(lambda value: value or None)
]
Limit = Annotated[
    Annotated[int, Field(ge=0)] | None,
    BeforeValidator(_none_for_a_word),
    AfterValidator(lambda value: value or None),
]
Count = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())


class ProfileSettings(_Section):
    """The server's dialect, where its host does not say it. None leaves a flag as the host has it."""

    max_tokens_field: Annotated[Literal["max_tokens", "max_completion_tokens"] | None, BeforeValidator(_stripped)] = (
        None
    )
    stream_usage: Annotated[bool | None, BeforeValidator(_stripped)] = None
    empty_content: Annotated[Literal["null", "empty", "omit"] | None, BeforeValidator(_stripped)] = None
    reasoning_back: Annotated[Literal["turn", "always", "never"] | None, BeforeValidator(_stripped)] = None
    think_tags: Annotated[bool | None, BeforeValidator(_stripped)] = None


class ModelSettings(_Section):
    """The model server. Without a base URL and a key none is configured, and the built-in demo model answers."""

    base_url: Annotated[Annotated[str, AfterValidator(_base_url)] | None, BeforeValidator(_stripped)] = Field(
        default=None,
        repr=False,  # it may hold a password or a key
    )
    api_key_file: Annotated[Annotated[Path, AfterValidator(_readable)] | None, BeforeValidator(_stripped)] = None
    api_key: Annotated[
        Annotated[SecretStr, AfterValidator(_api_key)] | None,
        BeforeValidator(_stripped),
        Field(validate_default=True),
    ] = None
    name: Annotated[Text, BeforeValidator(_stripped)] = "gpt-4o-mini"
    system: OptionalText = Field(default=None, repr=False)
    headers: Annotated[Mapping[str, SecretStr], AfterValidator(_headers)] = {}
    connect_timeout: OptionalSeconds = 10.0
    first_byte_timeout: OptionalSeconds = 300.0
    idle_timeout: OptionalSeconds = 300.0
    total_timeout: OptionalSeconds = 900.0
    max_connections: Count = 1000
    profile: ProfileSettings = ProfileSettings()

    @field_validator("api_key", mode="before")
    @classmethod
    def _key_from_file(cls, value: object, info: ValidationInfo) -> object:
        file = info.data.get("api_key_file")
        if file is None:
            return value
        if value:
            raise ValueError("is given twice, by itself and as a file: give one of them")
        return _stripped(Path(file).read_bytes().decode("latin-1"))

    @property
    def configured(self) -> bool:
        """Whether there is a model server to talk to: an address or a key was given."""
        return self.base_url is not None or self.api_key is not None

    @property
    def server_url(self) -> str:
        """The address requests go to: `base_url`, or OpenAI's own API where only a key was given."""
        return self.base_url or OPENAI_BASE_URL


class ToolsSettings(_Section):
    """Where tools are found, and what they are told beside their arguments."""

    packages: tuple[Annotated[str, AfterValidator(_importable)], ...] = ("tools",)
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
    tool_timeout: OptionalSeconds = 60.0
    max_concurrency: Count = 8
    threads: Count = 32
    error_details: bool = False
    log_details: bool = False
    raise_errors: bool = False


class StreamSettings(_Section):
    """`/chat/stream`."""

    heartbeat: OptionalSeconds = 15.0
    commit_after: Seconds = 1.0


class ServerSettings(_Section):
    """The HTTP server."""

    host: Text = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    cors_origins: tuple[Annotated[str, AfterValidator(_origin)], ...] = ()
    forwarded_allow_ips: tuple[Annotated[str, AfterValidator(_peer)], ...] = ()
    max_body_bytes: Count = 4 * 1024 * 1024
    docs: bool = True
    drain: Seconds = 10.0


class MemorySettings(_Section):
    """What is remembered of a conversation, in this process."""

    enabled: bool = True
    max_messages: Count = 200
    max_conversations: Count = 10_000


class RunsSettings(_Section):
    """Runs of one process."""

    max_active: Count = 256


class LoggingSettings(_Section):
    """How much is logged, over what `logging.toml` says."""

    level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"] | None,
        BeforeValidator(_lower),
        BeforeValidator(_stripped),
    ] = None


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
    tools: ToolsSettings = ToolsSettings()
    tool_calling: ToolCallingSettings = ToolCallingSettings()
    stream: StreamSettings = StreamSettings()
    server: ServerSettings = ServerSettings()
    memory: MemorySettings = MemorySettings()
    runs: RunsSettings = RunsSettings()
    logging: LoggingSettings = LoggingSettings()
    advisors: tuple[Annotated[str, AfterValidator(_factory)], ...] = ()

    def __init__(self, **arguments: Any) -> None:
        try:
            super().__init__(**arguments)
        except ValidationError as error:
            problem = explain(error, type(self), arguments)
        else:
            return
        raise ConfigurationError(problem)

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
