"""The chunks that answers are nearly made of: a piece of text, of reasoning or of a call, or the end of them.

They are decoded into a shape of their own, which takes half the time that a dictionary does, and need not be looked
through for anything else, but for the pieces of calls. What does not fit the shape to the letter (another field,
another type, a reason of the server's own why the answer ended, usage) is no plain chunk, and is read as any JSON is:
so nothing is let by here.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.json import Decoder


class PlainDelta(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A piece of what the model says."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    role: str | None = None
    refusal: None = None
    tool_calls: list[dict[str, Any]] | None = None
    function_call: None = None


class _Choice(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    delta: PlainDelta
    index: Literal[0] = 0
    logprobs: None = None
    finish_reason: Literal["stop", "length", "tool_calls"] | None = None


class PlainChunk(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A chunk with a single choice, the answer's."""

    choices: tuple[_Choice]
    id: str | None = None
    model: str | None = None
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: float | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    obfuscation: str | None = None
    provider: str | None = None
    usage: None = None


DELTA_FIELDS = frozenset(PlainDelta.__struct_fields__)
"""What a plain delta may have."""

_decode = Decoder(PlainChunk).decode


def plain_chunk(data: bytes) -> PlainChunk | None:
    """The chunk in a JSON text, None where it is another one or none."""
    try:
        return _decode(data)
    except ValueError:  # also of what is no JSON
        return None
