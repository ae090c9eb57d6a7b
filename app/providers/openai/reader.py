"""From the bytes of a model server's answer to chat events: pure, and the same for every way the network cuts them.

What the body is follows from its first bytes, not from its label or from what was asked for: a stream of events, or a
JSON completion, which is a stream of one chunk. Anything else is an error that shows what came.

When an answer is whole (everything else is an error, never a short success):

- a finish reason came, and then `[DONE]` or the end of the body;
- no finish reason, but `[DONE]`, or a last chunk that holds nothing but usage; there must be something in the answer,
  and no tool call may be cut;
- a JSON completion that parses.

An event that the end of the body left without its blank line counts if it can be read. What comes after `[DONE]` is
not part of the answer. Tags that models write into their text (`<think>`, `<tool_call>`) stay text, unless the profile
parts the thinking from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from app.chat import ChatEvent, ChatResponse, Completed, Deltas, ModelError, ModelProtocolError, Usage
from app.chat.events import Delta
from app.chat.messages import EMPTY
from app.providers.openai.assembly import AnswerAssembly
from app.providers.openai.errors import (
    BASE_URL_HINT,
    Scrub,
    error_in_answer,
    excerpt,
    protocol_error,
    tells_of_an_error,
)
from app.providers.openai.plain_chunk import plain_chunk
from app.providers.openai.wire_json import decode, is_cut
from app.providers.profile import Profile
from app.providers.scrubbing import Scrubber
from app.providers.sse import ServerSentEvent, SseDecoder

MAX_EVENT = 8 * 2**20
MAX_ANSWER = 32 * 2**20

_BOM = b"\xef\xbb\xbf"
_DONE = b"[done]"
_KEEP_ALIVES = frozenset({"ping", "heartbeat", "keepalive", "keep-alive"})
_SHOWN = 4000
_MISSES = 3
"""Chunks of an answer that are not plain, after which the others are not expected to be: looking costs a little."""


class ChatCompletionReader:
    """Reads one answer: `feed` it what comes, then `close` it. `Completed` is the last event of one or the other.

    Args:
        profile: the server's dialect.
        scrub: masks secrets in messages.
        secrets: texts masked in the answer itself, see `StreamMask`.
        max_event: bytes that one event may have.
        max_answer: bytes that the whole answer may have, or a JSON body.
        extra: what is told beside the answer, see `ChatResponse.extra`.
    """

    def __init__(
        self,
        profile: Profile | None = None,
        *,
        scrub: Scrub | None = None,
        secrets: Collection[str] = (),
        max_event: int = MAX_EVENT,
        max_answer: int = MAX_ANSWER,
        extra: Mapping[str, Any] = EMPTY,
    ) -> None:
        self._scrub = scrub or Scrubber()
        self._max_answer = max_answer
        self._max_event = max_event
        self._answer = AnswerAssembly(
            profile or Profile(), self._scrub, secrets=secrets, max_answer=max_answer, extra=extra
        )
        self._kind: Literal["unknown", "events", "json", "other"] = "unknown"
        self._body = bytearray()  # a JSON body; of others the beginning, to be shown
        self._response: ChatResponse | None = None
        self.grew = False
        """Whether there was content in the last read, or the reason why the answer ended."""
        self.done = False
        """Whether the answer is whole and told: nothing more need be read."""

    @property
    def finished(self) -> bool:
        """Whether the server has said why the answer ended: what may still come is usage."""
        return self._answer.finished

    @property
    def usage(self) -> Usage | None:
        """What the server has told of the tokens used so far, also where the answer then cannot be used."""
        return self._answer.usage

    @property
    def size(self) -> int:
        """How much content has come. Keep-alives do not make it grow."""
        return self._answer.size + (len(self._body) if self._kind == "json" else 0)

    def feed(self, chunk: bytes) -> Iterator[ChatEvent]:
        """Read on: the deltas of this read together, and the end where it is in it. To be iterated to its end.

        Raises:
            ModelError: while iterating, after what could be read: the answer cannot be used.
        """
        answer = self._answer
        size, finished = answer.size, answer.finished
        told: list[Delta] = []  # a generator in a generator for each chunk would cost more than what they do
        try:
            self._feed(chunk, told)
        except ModelError:
            yield from _together(told)
            raise
        self.grew = self._kind == "json" or answer.size != size or answer.finished is not finished
        yield from self._told(told)

    def close(self) -> Iterator[ChatEvent]:
        """The body has ended. The last event is `Completed`, if `feed` has not given it already.

        Raises:
            ModelError: while iterating: the answer cannot be used.
        """
        told: list[Delta] = []
        try:
            self._close(told)
        except ModelError:
            yield from _together(told)
            raise
        yield from self._told(told)

    def _feed(self, chunk: bytes, told: list[Delta]) -> None:
        if self._kind == "unknown":
            chunk = self._recognise(chunk)
        if self.done or not chunk:
            return
        if self._kind == "json":
            self._body += chunk
            if len(self._body) > self._max_answer:
                raise protocol_error(f"an answer larger than the {self._max_answer} bytes allowed", "too_large")
            return
        if not self._answer.begun and len(self._body) < _SHOWN:
            self._body += chunk[:_SHOWN]
        if self._kind == "events":
            self._take(self._events.feed(chunk), told)
        elif len(self._body) >= _SHOWN:
            raise self._not_a_completion()

    def _close(self, told: list[Delta]) -> None:
        if self.done:
            return
        if self._kind == "json":
            self._answer.add(self._whole_body(), told)
            self._end(told, marked=True)
            return
        if self._kind == "events":
            self._take(self._events.close(), told)
            if self._events.strange and not self._answer.begun:
                raise self._not_a_completion()
        elif self._kind == "other":
            raise self._not_a_completion()
        self._end(told, marked=False)

    def _recognise(self, chunk: bytes) -> bytes:
        """Find out what the body is. Returns what is to be read of it by now."""
        begun = bytes(self._body) + chunk if self._body else chunk
        self._body.clear()
        if _BOM.startswith(begun):
            self._body += begun
            return b""
        begun = begun.removeprefix(_BOM).lstrip()
        if not begun:
            return b""
        if begun[:1] in b"{[":
            self._kind = "json"
        elif begun[:1] == b"<":
            self._kind = "other"
        else:
            self._kind = "events"
            self._events = SseDecoder(self._max_event)
            self._misses = 0 if self._answer.takes_plain else _MISSES
        return begun

    def _take(self, events: Iterable[ServerSentEvent], told: list[Delta]) -> None:
        for event in events:
            if self.done:
                continue  # what comes after the end is no part of the answer
            data = event.data
            if self._misses < _MISSES and data.startswith(b"{") and not event.event:
                if plain := plain_chunk(data):
                    self._answer.add_plain(plain, told)
                    continue
                self._misses += 1
            data = data.strip()
            if not data or data.startswith(b":"):
                continue  # a keep-alive
            if len(data) == len(_DONE) and data.lower() == _DONE:
                self._end(told, marked=True)
            else:
                self._take_any(event, data, told)

    def _take_any(self, event: ServerSentEvent, data: bytes, told: list[Delta]) -> None:
        try:
            payload = decode(data)
        except ValueError:
            if event.cut or event.event.lower() in _KEEP_ALIVES:
                return
            payload = data.decode("utf-8", "replace")
        if event.event == "error":
            raise error_in_answer(payload, self._scrub)
        for chunk in payload if isinstance(payload, list) else [payload]:
            if isinstance(chunk, dict):
                self._answer.add(chunk, told)
            elif chunk is not None and not event.cut:
                shown = excerpt(data, self._scrub, 120)
                raise protocol_error(f"an event that is no chunk of a chat completion: {shown}")

    def _whole_body(self) -> dict[str, Any]:
        body = bytes(self._body)
        if body.rstrip()[-len(_DONE) :].lower() == _DONE:
            before, _, last = body.rpartition(b"data:")
            if last.strip().lower() == _DONE:
                body = before  # a stream's end glued to a body that is none
        try:
            payload = decode(body)
        except ValueError:
            raise self._unreadable(body) from None
        if isinstance(payload, list) and len(payload) == 1:
            payload = payload[0]  # some wrap errors in a list
        if isinstance(payload, dict) and ("choices" in payload or tells_of_an_error(payload)):
            return payload
        raise self._not_a_completion()

    def _unreadable(self, body: bytes) -> ModelProtocolError:
        if is_cut(body):
            return protocol_error("half a JSON body: the connection ended early", "truncated")
        return protocol_error(f"a body that is neither JSON nor a stream: {excerpt(body, self._scrub, 120)}")

    def _end(self, told: list[Delta], *, marked: bool) -> None:
        answer = self._answer
        if self.done:
            return
        if not answer.begun or (marked and not answer.finished and not answer.size):
            raise protocol_error("an empty answer: no text, no tool call, no finish reason", "empty")
        if not answer.finished and not (answer.is_whole and (marked or answer.ends_in_usage)):
            raise protocol_error("half an answer: it ended without a finish reason", "truncated")
        self.done = True
        self._response = answer.close(told)

    def _told(self, told: list[Delta]) -> Sequence[ChatEvent]:
        if self._response is None:
            return _together(told)
        response, self._response = self._response, None
        return (*_together(told), Completed(response))

    def _not_a_completion(self) -> ModelProtocolError:
        shown = excerpt(bytes(self._body), self._scrub, 200)
        return protocol_error(
            f"something else than a chat completion; {BASE_URL_HINT}. It began: {shown}", "not_a_completion"
        )


def _together(told: list[Delta]) -> Sequence[ChatEvent]:
    return told if len(told) <= 1 else (Deltas(tuple(told)),)
