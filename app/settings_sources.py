"""The places settings come from."""

from __future__ import annotations

import io
import json
import os
import re
import tomllib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from dotenv.parser import parse_stream
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from app.chat import ConfigurationError

Key: TypeAlias = tuple[str, ...]
"""Where a setting stands: `("model", "name")`."""

CONFIG_DIR = "GATEWAY_CONFIG_DIR"
ENV_FILE = "GATEWAY_ENV_FILE"

_SERVICE_NAMES = re.compile(r"GATEWAY_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_SERVICE_PORT = re.compile(r"GATEWAY_(\w+_)?PORT")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def config_dir() -> Path:
    """Return the folder of `gateway.toml` and `logging.toml`: `GATEWAY_CONFIG_DIR`, or `config` in the working folder.

    Raises:
        ConfigurationError: `GATEWAY_CONFIG_DIR` names no folder.
    """
    given = os.environ.get(CONFIG_DIR)
    if given and not Path(given).is_dir():
        raise ConfigurationError(f"{CONFIG_DIR} must name a folder; there is none at {given}")
    return Path(given or "config")


def env_file() -> Path:
    """Return the path of the file of variables: `GATEWAY_ENV_FILE`, or `.env` in the working folder.

    Raises:
        ConfigurationError: `GATEWAY_ENV_FILE` names no file.
    """
    given = os.environ.get(ENV_FILE)
    if given and (not Path(given).exists() or Path(given).is_dir()):
        raise ConfigurationError(f"{ENV_FILE} must name a file; there is none at {given}")
    return Path(given or ".env")


class Source(PydanticBaseSettingsSource):
    """One place: the values it gives, and the names it has for them."""

    @abstractmethod
    def name(self, key: Key) -> str | None:
        """Return how the value at `key` is written in this place, None where this place gives none."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return one top-level value; part of the base class's contract."""
        return self().get(field_name), field_name, False


class Variables(Source):
    """Variables named `GATEWAY_SECTION__KEY`.

    A name that is unknown stays in the result under itself, so that validation finds it like any other extra key.
    An empty variable counts as not given: compose files write `NAME=${NAME:-}`.
    """

    def __init__(self, settings_cls: type[BaseSettings], variables: Mapping[str, str], place: str) -> None:
        super().__init__(settings_cls)
        self.place = place
        self.known = {variable_name(key, settings_cls): (key, field) for key, field in fields(settings_cls)}
        prefix = self.config["env_prefix"]
        self.given = {name.upper(): (name, value) for name, value in variables.items() if value.strip()}
        self.ours = {
            name: value
            for name, (_, value) in self.given.items()
            if name.startswith(prefix) and name not in {CONFIG_DIR, ENV_FILE} and not _of_a_service(name, value)
        }

    def __call__(self) -> dict[str, Any]:
        """Return the values, nested by section."""
        values: dict[str, Any] = {}
        for name, text in self.ours.items():
            if name not in self.known:
                values[name] = text
                continue
            (*sections, last), field = self.known[name]
            section = values
            for part in sections:
                section = section.setdefault(part, {})
            section[last] = _decoded(text) if self.field_is_complex(field) else text
        return values

    def name(self, key: Key) -> str | None:
        """Return the variable as it was written, and its place."""
        name = key[0] if key[0] in self.ours else variable_name(key, self.settings_cls)
        return f"{self.given[name][0]} ({self.place})" if name in self.ours else None


class Environment(Variables):
    """The process's environment."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, os.environ, "environment")


class DotEnvFile(Variables):
    """A file of variables. Other programs' variables may stand in it too; values are taken as they are written."""

    def __init__(self, settings_cls: type[BaseSettings], path: Path) -> None:
        super().__init__(settings_cls, _read_env_file(path), str(path))


class TomlFile(Source):
    """`gateway.toml`: sections as tables. As with variables, an empty text counts as not given."""

    def __init__(self, settings_cls: type[BaseSettings], path: Path) -> None:
        super().__init__(settings_cls)
        self.path = path
        self.values = _read_toml(path)
        for (*sections, last), _ in fields(settings_cls):
            section = value_at(self.values, tuple(sections))
            if isinstance(section, dict) and section.get(last) == "":
                del section[last]

    def __call__(self) -> dict[str, Any]:
        """Return the values, nested by section."""
        return self.values

    def name(self, key: Key) -> str | None:
        """Return the dotted key, and the file."""
        return f"{'.'.join(key)} ({self.path})" if value_at(self.values, key) is not None else None


class OpenAIFallback(Source):
    """`OPENAI_BASE_URL` and `OPENAI_API_KEY`, each where no place gives the gateway's own setting."""

    def __init__(
        self, settings_cls: type[BaseSettings], environment: Variables, dot_env: Variables, toml: TomlFile
    ) -> None:
        super().__init__(settings_cls)
        self.places = (environment, dot_env, toml)
        self.found = {
            key: (variable, place)
            for key, variable in (("base_url", "OPENAI_BASE_URL"), ("api_key", "OPENAI_API_KEY"))
            for place in (dot_env, environment)
            if variable in place.given
        }

    def __call__(self) -> dict[str, Any]:
        """Return the values, nested by section."""
        stronger = self.current_state.get("model", {})
        key_file = isinstance(stronger, Mapping) and stronger.get("api_key_file")
        return {
            "model": {
                key: place.given[variable][1]
                for key, (variable, place) in self.found.items()
                if key != "api_key" or not key_file
            }
        }

    def name(self, key: Key) -> str | None:
        """Return the variable, and its place."""
        if key[0] != "model" or key[-1] not in self.found:
            return None
        if any(place.name(("model", "api_key_file")) for place in self.places):
            return None
        variable, place = self.found[key[-1]]
        return f"{variable} ({place.place})"


def fields(settings_cls: type[BaseModel], above: Key = ()) -> Iterator[tuple[Key, FieldInfo]]:
    """Yield every setting with its key, sections opened."""
    for name, field in settings_cls.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from fields(field.annotation, (*above, name))
        else:
            yield (*above, name), field


def variable_name(key: Key, settings_cls: type[BaseSettings]) -> str:
    """Return the environment variable of a setting: `GATEWAY_MODEL__NAME`."""
    config = settings_cls.model_config
    return (config["env_prefix"] + str(config["env_nested_delimiter"]).join(key)).upper()


def value_at(values: Any, key: Key) -> Any:
    """Return what stands at `key`, None for nothing."""
    for part in key:
        if not isinstance(values, Mapping):
            return None
        values = values.get(part)
    return values


def _of_a_service(name: str, value: str) -> bool:
    """Say whether Kubernetes made the variable, for a service whose name begins with `gateway`."""
    if _SERVICE_NAMES.fullmatch(name):
        return True
    return bool(_SERVICE_PORT.fullmatch(name) and _SERVICE_ADDRESS.match(value))


def _decoded(text: str) -> Any:
    """Return the JSON value; text that is none stays, for validation to refuse it with the rule of its setting."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read as UTF-8 text: {type(error).__name__}") from None


def _read_env_file(path: Path) -> dict[str, str]:
    text = _read_text(path)
    if text is None:
        return {}
    bindings = list(parse_stream(io.StringIO(text)))
    broken = [str(binding.original.line) for binding in bindings if binding.error]
    if broken:
        raise ConfigurationError(f"{path} has lines that are not NAME=value: {', '.join(broken)}")
    return {binding.key: binding.value for binding in bindings if binding.key and binding.value is not None}


def _read_toml(path: Path) -> dict[str, Any]:
    text = _read_text(path)
    if text is None:
        return {}
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
