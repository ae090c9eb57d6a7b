"""What the model server says: bytes that are made before anything is counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.chunks import DONE, call, calls, chunk, completion, event, usage_chunk

TOOL = "look_up"
"""The tool that the model asks for."""
WORD = " word"
"""A token."""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The answer to one request.

    Attributes:
        pieces: what is written, in order.
        is_paced: whether a piece comes only when all was done that can be done with the one before.
    """

    pieces: Sequence[bytes]
    is_paced: bool = False

    @classmethod
    def text(cls, words: int, *, stream: bool, is_paced: bool = False) -> ModelAnswer:
        """So many tokens of text."""
        if not stream:
            return cls([_whole(completion(WORD * words))])
        said = [chunk({"role": "assistant", "content": ""}), *[chunk({"content": WORD})] * words, chunk(finish="stop")]
        return cls(list(_streamed([*said, usage_chunk()])), is_paced)

    @classmethod
    def tool_call(cls, number: int, *, stream: bool) -> ModelAnswer:
        """A call of the tool, with arguments that no other number has."""
        asked = call(TOOL, json.dumps({"key": f"key {number}"}), call_id=f"call_{number}")
        if not stream:
            message = {"role": "assistant", "content": None, "tool_calls": [asked]}
            return cls([_whole(completion(message, "tool_calls"))])
        return cls(list(_streamed([calls(asked, role="assistant"), chunk(finish="tool_calls"), usage_chunk()])))


def _whole(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


def _streamed(said: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    """A chunk of the body for each that is said, as servers flush them; the head goes with the first."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    for one in said:
        yield head + _framed(event(one))
        head = b""
    yield _framed(DONE) + b"0\r\n\r\n"


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
