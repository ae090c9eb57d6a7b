"""What a model server wants that others do not: flags, read where requests are made and answers are put together.

A profile is given by configuration or follows from the server's host; the default is what most servers take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Profile:
    """The dialect of one kind of server.

    Attributes:
        max_tokens_field: the field that limits the answer's tokens.
        stream_usage: whether a stream is asked for its usage by `stream_options`, which some servers refuse.
        empty_content: how the content of an assistant message that holds calls only is written: as null, as an empty
            text, or not at all.
        reasoning_back: whether reasoning is sent back with the assistant message it came with, under the name it came
            under: within the turn only (thinking models want it while they call tools), always, or never.
        think_tags: whether `<think>…</think>` at the beginning of a text is reasoning; else it stays text.
        kept_fields: fields of an answer's message that the server wants back unchanged. Lists in them grow with the
            deltas, objects are united.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    empty_content: Literal["null", "empty", "omit"] = "null"
    reasoning_back: Literal["turn", "always", "never"] = "turn"
    think_tags: bool = False
    kept_fields: frozenset[str] = frozenset(
        {"reasoning_details", "thinking_blocks", "extra_content", "thought_signature"}
    )


_BY_HOST = {
    "api.openai.com": Profile(max_tokens_field="max_completion_tokens"),
    "openai.azure.com": Profile(max_tokens_field="max_completion_tokens"),
    "api.mistral.ai": Profile(stream_usage=False),  # refuses unknown fields, and reports usage unasked
}


def profile_for(base_url: str) -> Profile:
    """The profile of the server at `base_url`: by its host or a domain it belongs to, else the default."""
    host = urlsplit(base_url).hostname or ""
    labels = host.lower().split(".")
    domains = (".".join(labels[start:]) for start in range(len(labels)))
    return next((_BY_HOST[domain] for domain in domains if domain in _BY_HOST), Profile())
