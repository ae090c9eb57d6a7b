"""A model behind an OpenAI-compatible chat completions server.

It sends chat completions and nothing else: no list of models, no probing. Its parts are pure but for the transport:
`request` writes the body, `reader` reads the answer, `errors` judges what went wrong.

Nothing is tried twice here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing, suppress
from functools import partial
from http import HTTPStatus

from app.chat import (
    ChatEvents,
    ChatOptions,
    ChatResponse,
    Completed,
    ModelError,
    ModelProtocolError,
    ModelTimeout,
    Prompt,
    one_by_one,
)
from app.providers.address import Address, bearer, checked_headers, secrets_of
from app.providers.clock import Clock, Timeouts
from app.providers.openai.errors import error_of_status
from app.providers.openai.reader import MAX_ANSWER, MAX_EVENT, ChatCompletionReader
from app.providers.openai.repair import repaired
from app.providers.openai.request import request_body
from app.providers.openai.tool_offer import Offers
from app.providers.profiles import Profile, profile_for
from app.providers.scrubbing import Scrubber, is_recognisable
from app.providers.transport import Transport, WireRequest, WireResponse
from app.providers.transport_http import HttpTransport

_ERROR_BODY = 64 * 2**10
_ERROR_BODY_TIME = 10.0
_DRAIN_TIME = 0.1
_RATE_LIMIT_HEADERS = ("x-ratelimit-", "ratelimit-")


class OpenAIModel:
    """Asks an OpenAI-compatible server.

    Args:
        base_url: where its API lies, usually ending in `/v1`; with or without `/chat/completions`, a query is kept.
        model: what the server calls the model; None leaves it to the options, or to a server that has but one.
        api_key: sent as a bearer token.
        transport: sends the requests; None makes a transport of the model's own. Closed with the model.
        profile: the server's dialect; None = by its address.
        default_options: see `ChatModel.default_options`.
        timeouts: how long the server may take.
        headers: further request headers. The values of those that speak of keys and tokens are kept secret.
        name: what answers are labelled with where the server names no model; None = `model`.
        max_event: bytes that one event of a stream may have.
        max_answer: bytes that a whole answer may have.

    Raises:
        ConfigurationError: the URL, the key or a header cannot be used; no message holds them.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        transport: Transport | None = None,
        profile: Profile | None = None,
        default_options: ChatOptions | None = None,
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        max_event: int = MAX_EVENT,
        max_answer: int = MAX_ANSWER,
    ) -> None:
        self._address = Address.of(base_url)
        key = (api_key or "").strip()
        self._headers = {**self._address.headers, **bearer(key), **checked_headers(headers or {})}
        self._transport = transport or HttpTransport()
        secrets = (key, *self._transport.secrets, *self._address.secrets, *secrets_of((headers or {}).items()))
        self._scrub = Scrubber(frozenset(secrets))
        self._secrets = frozenset(filter(is_recognisable, secrets))
        self._model = model
        self._profile = profile or profile_for(self._address.url)
        self._offers = Offers()
        self._timeouts = timeouts or Timeouts()
        self._caps = {"max_event": max_event, "max_answer": max_answer}
        self.name = name or model or "model"
        self.default_options = default_options or ChatOptions()

    def __repr__(self) -> str:
        return f"OpenAIModel({self._address.shown!r}, model={self._model!r})"

    async def call(self, prompt: Prompt) -> ChatResponse:
        """See `ChatModel.call`. A server that streams all the same is understood."""
        async with aclosing(self._exchange(prompt, stream=False)) as events:
            [response] = [event.response async for event in events if isinstance(event, Completed)]
        return response

    def stream(self, prompt: Prompt) -> ChatEvents:
        """See `ChatModel.stream`. A server that does not stream is understood: its answer is one piece.

        Closing the generator closes the connection, which is how a server learns that nobody listens any more.
        """
        return one_by_one(self._exchange(prompt, stream=True))

    def stream_batches(self, prompt: Prompt) -> ChatEvents:
        """See `BatchingModel.stream_batches`."""
        return self._exchange(prompt, stream=True)

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()

    async def _exchange(self, prompt: Prompt, *, stream: bool) -> ChatEvents:
        prompt = Prompt(repaired(prompt.messages), prompt.options.over(self.default_options))
        request = WireRequest(
            url=self._address.url,
            body=request_body(prompt, self._model, self._profile, stream=stream, offers=self._offers),
            headers={"Accept": "text/event-stream" if stream else "application/json", **self._headers},
            connect_timeout=self._timeouts.connect,
            shown_url=self._address.shown,
        )
        async with (
            Clock(self._timeouts, prompt.options.timeout, stream=stream) as clock,
            aclosing(await clock.head(partial(self._transport.send, request))) as response,
        ):
            if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                raise await self._error(response, clock)
            reader = self._reader(response)
            try:
                while not reader.done:
                    try:
                        chunk = await clock.piece(response, at_end=reader.finished)
                    except (ModelTimeout, ModelProtocolError):
                        if not reader.finished:
                            raise
                        chunk = b""  # the answer is whole, only its end mark is missing
                    for event in reader.feed(chunk) if chunk else reader.close():
                        if isinstance(event, Completed):
                            await _drain(response)
                        yield event
                    if reader.grew:
                        clock.content_came()
            except ModelError as error:
                error.usage = reader.usage  # a failed answer is billed all the same
                raise

    def _reader(self, response: WireResponse) -> ChatCompletionReader:
        limits = {name: value for name, value in response.headers.items() if name.startswith(_RATE_LIMIT_HEADERS)}
        extra = {"rate_limits": limits} if limits else {}
        return ChatCompletionReader(self._profile, scrub=self._scrub, secrets=self._secrets, extra=extra, **self._caps)

    async def _error(self, response: WireResponse, clock: Clock) -> ModelError:
        body = b""
        with suppress(ModelError, TimeoutError):  # what came of it is enough
            async with asyncio.timeout_at(clock.at_most(_ERROR_BODY_TIME)):
                while len(body) < _ERROR_BODY and (piece := await response.read()):
                    body += piece
        return error_of_status(response.status, response.headers, body, self._scrub)


async def _drain(response: WireResponse) -> None:
    """Read what is left after an answer's end, which is nothing, so that the connection can be used again."""
    with suppress(ModelError, TimeoutError):
        while piece := response.take():
            pass
        if piece is None:
            async with asyncio.timeout(_DRAIN_TIME):
                while await response.read():
                    pass
