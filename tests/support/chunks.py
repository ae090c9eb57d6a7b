"""What a model server writes: chunks, streams and whole completions, as bytes."""

from __future__ import annotations

import json
from typing import Any

USAGE = {"prompt_tokens": 21, "completion_tokens": 4, "total_tokens": 25}
DONE = b"data: [DONE]\n\n"


def chunk(delta: Any = None, finish: str | None = None, *, index: int = 0, **fields: Any) -> dict[str, Any]:
    """One chunk of a stream. Further fields stand beside its choice."""
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "cmpl-1", "object": "chat.completion.chunk", "model": "probe", "choices": [choice], **fields}


def usage_chunk(usage: Any = None, **fields: Any) -> dict[str, Any]:
    """The chunk that holds usage and no choice."""
    return {"id": "cmpl-1", "model": "probe", "choices": [], "usage": USAGE if usage is None else usage, **fields}


def call(
    name: str | None = None, arguments: Any = None, *, call_id: str | None = None, index: int | None = 0, **extra: Any
) -> dict[str, Any]:
    """One fragment of a tool call. What is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fragment: dict[str, Any] = {"function": function, **extra}
    if index is not None:
        fragment["index"] = index
    if call_id is not None:
        fragment |= {"id": call_id, "type": "function"}
    return fragment


def calls(*fragments: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The chunk that holds these fragments."""
    return chunk({"tool_calls": list(fragments), **fields})


def event(data: Any) -> bytes:
    """One event; bytes stay what they are."""
    return data if isinstance(data, bytes) else b"data: " + json.dumps(data).encode() + b"\n\n"


def stream(*chunks: Any, done: bool = True) -> bytes:
    """A stream's body."""
    return b"".join(map(event, chunks)) + (DONE if done else b"")


def text_stream(*pieces: str, usage: Any = None) -> bytes:
    """A stream that says these pieces and ends as it should."""
    said = [chunk({"content": piece}) for piece in pieces]
    return stream(chunk({"role": "assistant", "content": ""}), *said, chunk(finish="stop"), usage_chunk(usage))


def completion(message: Any, finish: str | None = "stop", **fields: Any) -> bytes:
    """A whole completion's body; a text stands for a message that says it."""
    if isinstance(message, str):
        message = {"role": "assistant", "content": message}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    whole = {"id": "cmpl-2", "object": "chat.completion", "model": "probe", "choices": [choice], "usage": USAGE}
    return json.dumps({**whole, **fields}).encode()
