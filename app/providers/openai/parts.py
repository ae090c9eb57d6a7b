"""The content of a message, which is a text or a list of typed parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from app.providers.openai.errors import protocol_error

PartKind: TypeAlias = Literal["text", "reasoning", "refusal"]

_KINDS: dict[str, PartKind] = {"thinking": "reasoning", "reasoning": "reasoning", "refusal": "refusal"}
_TEXT_KEYS = ("text", "thinking", "reasoning", "refusal", "content", "summary")
_DEEPEST = 4


class Part(NamedTuple):
    """A piece of what the model said, and whether it belongs to the answer."""

    kind: PartKind
    text: str


def parts_of(content: Any, kind: PartKind = "text", depth: int = 0) -> Iterator[Part]:
    """The texts in `content`, in order. Parts without a text, such as references, are let by.

    Raises:
        ModelProtocolError: while iterating: it is neither text nor parts.
    """
    if content is None or content == "":
        return
    if isinstance(content, str):
        yield Part(kind, content)
    elif isinstance(content, list) and depth < _DEEPEST:
        for item in content:
            yield from parts_of(item, kind, depth + 1)
    elif isinstance(content, dict) and depth < _DEEPEST:
        kind = _KINDS.get(str(content.get("type")), kind)
        said = next((content[key] for key in _TEXT_KEYS if content.get(key)), None)
        yield from parts_of(said, kind, depth + 1)
    else:
        raise protocol_error(f"content that is a {type(content).__name__}")
