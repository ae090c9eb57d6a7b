"""The line to a model server: bytes out, status, headers and bytes back. What they mean is decided elsewhere.

A transport raises the gateway's own errors only, and none of its messages holds a secret. It does not retry what
a server answered or could not take, follows no redirect, and keeps no cookies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from app.chat import ModelProtocolError


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One POST.

    Attributes:
        url: where to, with its query; may hold a secret.
        body: JSON.
        headers: beside those of every JSON request; hold the key.
        connect_timeout: seconds until a connection must stand, with the wait for a free one.
        shown_url: `url` as messages may show it.
    """

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    connect_timeout: float | None = None
    shown_url: str = ""


class WireResponse(Protocol):
    """What came back: at first its head; the body is read piece by piece."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case."""

    def take(self) -> bytes | None:
        """What has come of the body and was not read yet; empty at its end, None where it has to be waited for.

        Raises:
            ModelProtocolError: see `read`.
        """

    async def read(self) -> bytes:
        """The next piece of the body as soon as there is one; empty at its end.

        Raises:
            ModelProtocolError: the connection broke before the body's end (`code` is `truncated`).
        """

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else close it. To be called on every path.

        Closing must begin before the first suspension, so that a cancelled task closes too.
        """


class Transport(Protocol):
    """How requests get to a model server. One may serve several models."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What it adds to requests by itself and must never be seen."""

    async def send(self, request: WireRequest) -> WireResponse:
        """Send a request and wait for the head of the answer, whatever its status.

        Raises:
            ModelUnavailable: no answer came (`code` is `unreachable`, `status` None).
            ModelTimeout: no connection in time.
            ModelProtocolError: what came is not HTTP (`code` is `not_http`).
        """

    async def aclose(self) -> None:
        """Close all connections. Harmless when called twice."""


def not_http(request: WireRequest) -> ModelProtocolError:
    """The error for an answer that has no head of HTTP; what came is not shown, as it may be anything."""
    return ModelProtocolError(
        f"What answers at {request.shown_url} does not speak HTTP; check the base URL (GATEWAY_MODEL__BASE_URL): "
        "its scheme, https or http, and its port.",
        code="not_http",
    )


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers by their names in lower case; of several of one name the last."""
    return {name.lower(): value for name, value in headers.items()}
