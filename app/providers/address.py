"""Where a model server is and what opens it, checked once, at the start."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from app.chat import ConfigurationError

_COMPLETIONS = "/chat/completions"
_SECRET_WORDS = ("auth", "cookie", "key", "password", "secret", "sig", "token")


@dataclass(frozen=True, slots=True)
class Address:
    """A server's chat completions address.

    Attributes:
        url: where requests go, with the query of the base URL.
        shown: the base URL without credentials and query, for messages.
        headers: what credentials in the base URL become.
        secrets: what of it must never be seen.
    """

    url: str = field(repr=False)
    shown: str
    headers: Mapping[str, str] = field(repr=False, default_factory=dict)
    secrets: tuple[str, ...] = field(repr=False, default=())

    @classmethod
    def of(cls, base_url: str) -> Self:
        """The address below `base_url`.

        Raises:
            ConfigurationError: it is no URL that requests can be sent to.
        """
        try:
            parts = urlsplit(base_url.strip())
            _ = parts.port
        except ValueError:
            raise _unusable("it is no URL") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise _unusable("it must begin with http:// or https:// and a host")
        path = parts.path.rstrip("/").removesuffix(_COMPLETIONS).rstrip("/")
        host = parts.netloc.rpartition("@")[2]
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        headers = {"Authorization": _basic(user, password)} if user or password else {}
        return cls(
            urlunsplit((parts.scheme, host, path + _COMPLETIONS, parts.query, "")),
            urlunsplit((parts.scheme, host, path, "", "")),
            headers,
            tuple(_secrets(parts, password, headers)),
        )


def bearer(key: str) -> dict[str, str]:
    """The header that shows `key`; none for an empty one.

    Raises:
        ConfigurationError: the key cannot stand in a header.
    """
    if not key:
        return {}
    _check(key, "The API key (GATEWAY_MODEL__API_KEY)")
    return {"Authorization": f"Bearer {key}"}


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Further headers.

    Raises:
        ConfigurationError: one cannot be sent.
    """
    for name, value in headers.items():
        _check(name + value, f"The header {name!r}")
    return dict(headers)


def secrets_of(values: Iterable[tuple[str, str]]) -> list[str]:
    """The values of headers or query parameters whose names speak of a secret."""
    return [value for name, value in values if any(word in name.lower() for word in _SECRET_WORDS)]


def _check(text: str, what: str) -> None:
    if not (text.isascii() and text.isprintable()):
        raise ConfigurationError(
            f"{what} holds a character that cannot be sent (a line end, a control character or one beyond ASCII): "
            "copy it anew."
        )


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _secrets(parts: SplitResult, password: str, headers: Mapping[str, str]) -> list[str]:
    in_query = secrets_of(parse_qsl(parts.query))
    return [password, *(value.removeprefix("Basic ") for value in headers.values()), *in_query]


def _unusable(why: str) -> ConfigurationError:
    return ConfigurationError(f"The model server's base URL (GATEWAY_MODEL__BASE_URL) cannot be used: {why}.")
