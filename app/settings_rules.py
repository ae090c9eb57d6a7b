"""What single settings may be. A rule's text says what is allowed, and never repeats the value."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo

T = TypeVar("T")

_VISIBLE = re.compile(r"[\x21-\x7e]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")


def stripped(value: object) -> object:
    """Drop what copying leaves around a text; an empty text is a value that was not given."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return (value.strip() or None) if isinstance(value, str) else value


def from_file(field: str) -> Callable[[object, ValidationInfo], object]:
    """A validator that takes a value from the file that another field names."""

    def read(value: object, info: ValidationInfo) -> object:
        file = info.data.get(field)
        if file is None:
            return value
        if value:
            raise ValueError("is given twice, by itself and as a file: give one of them")
        return stripped(Path(file).read_bytes().decode("latin-1"))

    return read


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


def _redis_url(value: SecretStr) -> SecretStr:
    url = urlsplit(value.get_secret_value())
    if url.scheme not in {"redis", "rediss", "unix"} or not (url.netloc or url.path):
        raise ValueError("must be an address such as redis://[:password@]host:6379/0, rediss:// for TLS")
    return value


def _memory_url(value: SecretStr) -> SecretStr:
    rule = ValueError("must be a path, sqlite:///path, postgresql://user:password@host/name or memory://")
    scheme, separator, rest = value.get_secret_value().partition("://")
    if not scheme or (
        separator and scheme not in {"sqlite", "postgresql", "postgres"} and (scheme, rest) != ("memory", "")
    ):
        raise rule
    try:
        passwords_in(value.get_secret_value())
    except ValueError:
        raise rule from None
    return value


def passwords_in(address: str) -> tuple[str, ...]:
    """The passwords in the address of a database, as they stand there and as they are meant.

    Raises:
        ValueError: it is no address.
    """
    url = urlsplit(address)
    given = [url.password, *(text for name, text in parse_qsl(url.query) if "password" in name)]
    return tuple(form for password in given if password for form in dict.fromkeys((password, unquote(password))))


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
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]

OrNone = Annotated[T | None, BeforeValidator(stripped)]
"""A text that is empty counts as None."""

OrUnlimited = Annotated[T | None, BeforeValidator(_none_for_a_word), AfterValidator(lambda value: value or None)]
"""0, "none" and "unlimited" are None."""

Limit = OrUnlimited[Annotated[int, Field(ge=0)]]
TimeLimit = OrUnlimited[Seconds]
Port = Annotated[int, Field(ge=0, le=65535)]
BaseUrl = Annotated[str, AfterValidator(_base_url)]
ApiKey = Annotated[SecretStr, AfterValidator(_api_key)]
ReadableFile = Annotated[Path, AfterValidator(_readable)]
Headers = Annotated[Mapping[str, SecretStr], AfterValidator(_headers)]
ImportableName = Annotated[str, AfterValidator(_importable)]
FactoryName = Annotated[str, AfterValidator(_factory)]
MemoryUrl = Annotated[SecretStr, AfterValidator(_memory_url)]
RedisUrl = Annotated[SecretStr, AfterValidator(_redis_url)]
Origin = Annotated[str, AfterValidator(_origin)]
Peer = Annotated[str, AfterValidator(_peer)]
Level = Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_lower)]
