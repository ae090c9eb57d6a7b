"""A transport over the openai SDK's client, for servers that it knows how to authenticate with (Azure, Entra, Bedrock).

Only its authentication, its addresses and its connections are used: it neither retries nor parses. Importing this
module costs most of a second, which is why nothing else imports it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any, cast

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, AsyncStream, OpenAIError

from app.chat import ModelProtocolError, ModelTimeout, ModelUnavailable
from app.providers.transport import WireRequest, lower_names, not_http


class OpenAITransport:
    """Sends requests through an SDK client.

    The request's URL is not used: the client knows where its server is.

    Args:
        client: an `AsyncOpenAI`, `AsyncAzureOpenAI` or the like, on its own HTTP client (httpx2). Closed with this.
    """

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client
        # All callers share the client: what a server sets for one must not go with another.
        http_client = client._client  # noqa: SLF001 - the SDK has no option for it
        http_client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The client's API key, if it has one. Tokens that it fetches are not known beforehand."""
        return (self._client.api_key,) if self._client.api_key else ()

    async def send(self, request: WireRequest) -> _Response:
        """See `Transport.send`."""
        try:
            response = await self._client.post(
                "/chat/completions",
                body=json.loads(request.body),  # the client wants it decoded: some addresses hold the model's name
                cast_to=httpx2.Response,
                stream=True,
                stream_cls=AsyncStream[Any],
                options={
                    "headers": request.headers,
                    "max_retries": 0,
                    "follow_redirects": False,
                    "timeout": httpx2.Timeout(None, connect=request.connect_timeout, pool=request.connect_timeout),
                },
            )
        except APIStatusError as error:
            return _Response(error.response, self._closing)
        except APITimeoutError:
            raise ModelTimeout(
                f"No connection to the model server could be had in {request.connect_timeout} s.",
                code="connect_timeout",
            ) from None
        except APIConnectionError as error:
            if _is_not_http(error.__cause__):
                raise not_http(request) from None
            raise _unreachable(error.__cause__ or error) from None  # the cause may hold the key
        except OpenAIError as error:
            raise _unreachable(error) from None
        except (httpx2.HTTPError, OSError):  # in the body of an error, which the client reads before it raises
            raise _broken() from None
        return _Response(cast("httpx2.Response", response), self._closing)

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.close()


class _Response:
    def __init__(self, response: httpx2.Response, closing: set[asyncio.Task[None]]) -> None:
        self._response = response
        self._pieces: AsyncIterator[bytes] | None = None
        self._closing = closing

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        return lower_names(self._response.headers)

    def take(self) -> bytes | None:
        return None

    async def read(self) -> bytes:
        if self._pieces is None:
            self._pieces = aiter(self._response.aiter_bytes())
        try:
            return await anext(self._pieces, b"")
        except (httpx2.HTTPError, OSError):
            raise _broken() from None

    async def aclose(self) -> None:
        closing = asyncio.ensure_future(self._response.aclose())  # goes on where the caller is cancelled once more
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        await asyncio.shield(closing)


def _broken() -> ModelProtocolError:
    return ModelProtocolError("The connection to the model server broke in the middle of its answer.", code="truncated")


def _is_not_http(error: BaseException | None) -> bool:
    return isinstance(error, httpx2.RemoteProtocolError) and "disconnected" not in str(error)


def _unreachable(error: BaseException) -> ModelUnavailable:
    return ModelUnavailable(f"The model server cannot be reached: {type(error).__name__}.", code="unreachable")
