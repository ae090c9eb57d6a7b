"""A model behind an OpenAI-compatible chat completions server.

It sends chat completions and nothing else: no list of models, no probing. Its parts are pure but for the transport:
`request` writes the body, `reader` reads the answer, `errors` judges what went wrong.

Nothing is tried twice here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus

from app.chat import (
    ChatEvents,
    ChatOptions,
    ChatResponse,
    Completed,
    Prompt,
    one_by_one,
)
from app.providers.address import Address, bearer, checked_headers, secrets_of
from app.providers.clock import Alarms, Clock, Timeouts
from app.providers.openai.errors import error_of_status
from app.providers.openai.exchange import Exchange
from app.providers.openai.reader import MAX_ANSWER, MAX_EVENT, ChatCompletionReader
from app.providers.openai.repair import repaired
from app.providers.openai.request import RequestWriter
from app.providers.profiles import Profile, profile_for
from app.providers.scrubbing import Scrubber, is_recognisable
from app.providers.transport import Transport, WireRequest, WireResponse
from app.providers.transport_http import HttpTransport

_SUCCESS = range(HTTPStatus.OK, HTTPStatus.MULTIPLE_CHOICES)
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
        own = {**self._address.headers, **bearer(key), **checked_headers(headers or {})}
        self._headers = {"Accept": "application/json", **own}
        self._stream_headers = {"Accept": "text/event-stream", **own}
        self._transport = transport or HttpTransport()
        secrets = (key, *self._transport.secrets, *self._address.secrets, *secrets_of((headers or {}).items()))
        self._scrub = Scrubber(frozenset(secrets))
        self._secrets = frozenset(filter(is_recognisable, secrets))
        self._model = model
        self._profile = profile or profile_for(self._address.url)
        self._requests = RequestWriter(model, self._profile)
        self._timeouts = timeouts or Timeouts()
        self._alarms = Alarms()
        self._caps = {"max_event": max_event, "max_answer": max_answer}
        self.name = name or model or "model"
        self.default_options = default_options or ChatOptions()

    def __repr__(self) -> str:
        return f"OpenAIModel({self._address.shown!r}, model={self._model!r})"

    async def call(self, prompt: Prompt) -> ChatResponse:
        """See `ChatModel.call`. A server that streams all the same is understood."""
        async with await self._ask(prompt, stream=False) as exchange:
            while True:
                for event in await exchange.more():
                    if isinstance(event, Completed):
                        await exchange.drain()
                        return event.response

    def stream(self, prompt: Prompt) -> ChatEvents:
        """See `ChatModel.stream`. A server that does not stream is understood: its answer is one piece.

        Closing the generator closes the connection, which is how a server learns that nobody listens any more.
        """
        return one_by_one(self.stream_batches(prompt))

    async def stream_batches(self, prompt: Prompt) -> ChatEvents:
        """See `BatchingModel.stream_batches`."""
        async with await self._ask(prompt, stream=True) as exchange:
            while True:
                for event in await exchange.more():
                    if isinstance(event, Completed):
                        await exchange.drain()
                        yield event
                        return
                    yield event

    async def aclose(self) -> None:
        """Close the transport."""
        self._alarms.close()
        await self._transport.aclose()

    async def _ask(self, prompt: Prompt, *, stream: bool) -> Exchange:
        prompt = Prompt(repaired(prompt.messages), prompt.options.over(self.default_options))
        request = WireRequest(
            url=self._address.url,
            body=self._requests.body(prompt, stream=stream),
            headers=self._stream_headers if stream else self._headers,
            connect_timeout=self._timeouts.connect,
            shown_url=self._address.shown,
        )
        clock = Clock(self._timeouts, prompt.options.timeout, self._alarms, stream=stream)
        try:
            response = await clock.head(partial(self._transport.send, request))
        except BaseException:
            clock.close()
            raise
        exchange = Exchange(response, self._reader(response), clock)
        if response.status not in _SUCCESS:
            async with exchange:
                body = await exchange.error_body()
                raise error_of_status(response.status, response.headers, body, self._scrub)
        return exchange

    def _reader(self, response: WireResponse) -> ChatCompletionReader:
        limits = {name: value for name, value in response.headers.items() if name.startswith(_RATE_LIMIT_HEADERS)}
        extra = {"rate_limits": limits} if limits else {}
        return ChatCompletionReader(self._profile, scrub=self._scrub, secrets=self._secrets, extra=extra, **self._caps)
