"""What an operator can set of model servers: where they are, their dialects, and what is done when they fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from app.settings_rules import (
    ApiKey,
    BaseUrl,
    Count,
    Headers,
    Limit,
    OrNone,
    ReadableFile,
    Seconds,
    Text,
    TimeLimit,
    from_file,
)

OPENAI_BASE_URL = "https://api.openai.com/v1"


class Section(BaseModel):
    """Settings that belong together. They never change, and a key that is not among them is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())


class ProfileSettings(Section):
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


class ModelServerSettings(Section):
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

    _key_from_file = field_validator("api_key", mode="before")(from_file("api_key_file"))

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


class RetrySettings(Section):
    """Asking a model server again, before anything of its answer was delivered."""

    attempts: Count = 3
    base_delay: Seconds = 0.1
    max_delay: Seconds = 2.0
    max_retry_after: Seconds = 2.0
    budget_ratio: Seconds = 0.2
    budget_floor: Annotated[int, Field(ge=0)] = 10


class BreakerSettings(Section):
    """Leaving a model server alone that fails, where the alias has others."""

    failures: Limit = 5
    recovery: Seconds = 30.0
