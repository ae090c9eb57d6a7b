"""What the model server writes, encoded before it is asked: calls of `get_weather`, and texts of numbered tokens.

The chunks have all the fields that OpenAI's own API sends, so that nobody reads less than in real life. A token is
nineteen characters, of which sixteen are a number: its place in the text or, where tokens are paced, the microsecond at
which it was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

TOOL = "get_weather"
RESULT = "sunny"
TOKEN = re.compile(r" t(\d{16})\.")
"""A token; its group is the number."""
_PIECE = 4
"""Characters of a call's arguments that come in one chunk."""
_COMMON = {"id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWx", "created": 1_700_000_000, "model": "mock"}
_KIND = {"service_tier": "default", "system_fingerprint": "fp_44709d6fcb"}
_USAGE = {
    "prompt_tokens": 82,
    "completion_tokens": 17,
    "total_tokens": 99,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
}
_NO_STAMP = b" t%016d."


def token(number: int) -> bytes:
    """A token with a number."""
    return _NO_STAMP % number


def text(tokens: int) -> str:
    """A text of so many tokens, numbered from 0."""
    return b"".join(map(token, range(tokens))).decode()


def arguments(round_: int) -> str:
    """The arguments of a round's call, each other than those before: a gateway may stop a model that repeats itself."""
    return json.dumps({"city": f"Paris {round_}"}, separators=(",", ":"))


def pieces(written: str) -> list[str]:
    """The pieces in which a call's arguments come in a stream."""
    return [written[at : at + _PIECE] for at in range(0, len(written), _PIECE)]


@dataclass(frozen=True, slots=True)
class Replies:
    """All that a model server says in one scenario, as it goes over the wire.

    Attributes:
        whole: by round, and last the text: answers that are not streamed.
        streams: the same for streams, without and with usage.
        head: the beginning of a stream whose tokens are paced.
        token: one of its tokens, as an event, with a number that is to be overwritten.
        stamp: the place of that number.
        tails: its end, without and with usage.
    """

    whole: Sequence[bytes]
    streams: tuple[Sequence[bytes], Sequence[bytes]]
    head: bytes
    token: bytes
    stamp: slice
    tails: tuple[bytes, bytes]

    @classmethod
    def of(cls, tokens: int, rounds: int) -> Replies:
        """Those for a text of so many tokens after so many rounds of tools."""
        calls = [_call(round_) for round_ in range(rounds)]
        whole = [_whole({"content": None, "tool_calls": [call]}, "tool_calls") for call in calls]
        single = _chunk({"content": token(0).decode()}, usage=True)
        at = single.index(token(0)) + len(" t")
        return cls(
            whole=[*whole, _whole({"content": text(tokens)}, "stop")],
            streams=(_streams(calls, tokens, usage=False), _streams(calls, tokens, usage=True)),
            head=_HEAD + _chunk(_FIRST, usage=True),
            token=single,
            stamp=slice(at, at + 16),
            tails=(_tail("stop", usage=False), _tail("stop", usage=True)),
        )


_FIRST: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
_FIELDS = b"server: mock\r\nx-request-id: req_0123456789abcdef\r\nopenai-version: 2020-10-01\r\n"
_HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    + _FIELDS
    + b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


def _streams(calls: Iterable[dict[str, Any]], tokens: int, *, usage: bool) -> list[bytes]:
    said = [_chunk({"content": token(place).decode()}, usage=usage) for place in range(tokens)]
    texts = b"".join([_HEAD, _chunk(_FIRST, usage=usage), *said, _tail("stop", usage=usage)])
    return [*(_call_stream(call, usage=usage) for call in calls), texts]


def _call_stream(call: dict[str, Any], *, usage: bool) -> bytes:
    function = call["function"]
    begun = {"index": 0, **call, "function": {"name": function["name"], "arguments": ""}}
    told = pieces(function["arguments"])
    deltas = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in told]
    first: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [begun], "refusal": None}
    chunks = [_chunk(delta, usage=usage) for delta in (first, *deltas)]
    return b"".join([_HEAD, *chunks, _tail("tool_calls", usage=usage)])


def _call(round_: int) -> dict[str, Any]:
    return {
        "id": f"call_{round_:020d}",
        "type": "function",
        "function": {"name": TOOL, "arguments": arguments(round_)},
    }


def _chunk(delta: dict[str, Any], finish: str | None = None, *, usage: bool) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _event(_json({**_COMMON, "object": "chat.completion.chunk", **_KIND, "choices": [choice]}, usage, None))


def _tail(finish: str, *, usage: bool) -> bytes:
    counted = _json({**_COMMON, "object": "chat.completion.chunk", **_KIND, "choices": []}, usage, _USAGE)
    return _chunk({}, finish, usage=usage) + (_event(counted) if usage else b"") + _event(b"[DONE]") + b"0\r\n\r\n"


def _json(document: dict[str, Any], usage: bool, counted: dict[str, Any] | None) -> bytes:
    return json.dumps(document | ({"usage": counted} if usage else {}), separators=(",", ":")).encode()


def _event(data: bytes) -> bytes:
    return b"%x\r\ndata: %b\n\n\r\n" % (len(data) + len(b"data: \n\n"), data)


def _whole(message: dict[str, Any], finish: str) -> bytes:
    message = {"role": "assistant", **message, "refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    body = _json({**_COMMON, "object": "chat.completion", "choices": [choice], **_KIND}, True, _USAGE)
    fields = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return b"HTTP/1.1 200 OK\r\n" + _FIELDS + fields + body
