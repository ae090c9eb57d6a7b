"""Streams of real servers, replayed by a small server: the gateway tells what a plain reading of the chunks gives.

`TEST_RECORDINGS` names a folder with them: `NAME.chunks.txt`, a JSON chunk a line. One of our own, in the
manner of several servers at once, is always there.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.bodies import value_of
from tests.support.chunks import DONE, call, calls, chunk
from tests.support.gates import PATIENCE
from tests.support.model_server import Answer, ModelServer
from tests.support.modes import both_modes
from tests.support.web import ask, gateway

pytestmark = pytest.mark.server

FOLDER = os.environ.get("TEST_RECORDINGS")
OWN = [
    {"choices": [], "id": "", "prompt_filter_results": [{"prompt_index": 0}]},
    chunk({"role": "assistant", "content": "", "reasoning_content": "Ask "}, usage=None, service_tier="default"),
    chunk({"reasoning_content": "the board.", "content": None}, obfuscation="k2"),
    chunk({"content": "One "}),
    chunk({"content": [{"type": "text", "text": "moment."}]}),
    calls(call("clock", "", call_id="c8")),
    calls(call(None, '{"zone":')),
    calls(call(None, '"CET"}')),
    chunk(finish="tool_calls"),
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 31,
            "completion_tokens": 12,
            "total_tokens": 43,
            "prompt_tokens_details": {"cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
    },
]


@dataclass
class Plain:
    """What a recording says, read plainly: everything is joined as it comes. Real servers' fragments have labels."""

    content: str = ""
    reasoning: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    finish: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)

    def take(self, chunk: dict[str, Any]) -> None:
        """One more chunk."""
        self.usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage") or self.usage
        for choice in chunk["choices"]:
            delta = choice["delta"]
            self.finish = choice.get("finish_reason") or self.finish
            self.reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
            content = delta.get("content") or ""
            parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for part in parts:
                if part["type"] == "thinking":
                    self.reasoning += "".join(piece["text"] for piece in part["thinking"])
                else:
                    self.content += part["text"]
            for position, fragment in enumerate(delta.get("tool_calls") or []):
                made = self.calls.setdefault(fragment.get("index", position), {"id": "", "name": "", "arguments": ""})
                made["id"] = fragment.get("id") or made["id"]
                made["name"] += fragment["function"].get("name") or ""
                made["arguments"] += fragment["function"].get("arguments") or ""

    def counted(self) -> dict[str, int | None]:
        """The usage as the gateway names it."""
        details = [self.usage.get(f"{kind}_tokens_details") or {} for kind in ("prompt", "completion")]
        return {
            "input_tokens": self.usage.get("prompt_tokens"),
            "output_tokens": self.usage.get("completion_tokens"),
            "total_tokens": self.usage.get("total_tokens"),
            "cached_tokens": details[0].get("cached_tokens"),
            "reasoning_tokens": details[1].get("reasoning_tokens"),
        }


def recordings() -> Iterator[Any]:
    """The recordings as parameters of a test."""
    yield pytest.param([json.dumps(one) for one in OWN], id="our own")
    for path in sorted(Path(FOLDER).glob("*.chunks.txt")) if FOLDER else ():
        lines = path.read_text(encoding="utf-8").split("\n")
        yield pytest.param([line for line in lines if line.strip()], id=path.name.removesuffix(".chunks.txt"))


@both_modes
@pytest.mark.parametrize("recording", list(recordings()))
@pytest.mark.fault("U24", "U27", "U28")
async def test_a_recorded_stream_is_told_as_a_plain_reading_of_it_gives(recording: Sequence[str], stream: bool) -> None:
    plain = Plain()
    for line in recording:
        plain.take(json.loads(line))
    finish = "tool_calls" if plain.calls and plain.finish in ("stop", "tool_calls") else plain.finish

    async with ModelServer() as server:
        server.always(Answer(*(f"data: {line}\n\n".encode() for line in recording), DONE))
        async with gateway(tools=[], settings={"model": {"base_url": server.base_url}}) as client:
            async with asyncio.timeout(PATIENCE):
                reply = await ask(client, stream=stream, tool_calling=False)

    document = reply.document
    assert reply.status == 200
    assert document["content"] == plain.content
    assert document["reasoning"] == (plain.reasoning or None)
    assert document["tool_calls"] == [
        {**one, "arguments": made["arguments"]}
        for one, made in zip(plain.calls.values(), document["tool_calls"], strict=True)
    ]
    assert [value_of(made["arguments"]) for made in document["tool_calls"]] == [
        value_of(one["arguments"]) for one in plain.calls.values()
    ]
    assert document["finish_reason"] == finish
    assert document["usage"] == plain.counted()
    if stream:
        assert "".join(data["text"] for data in reply.of("text.delta")) == plain.content
        assert "".join(data["text"] for data in reply.of("reasoning.delta")) == plain.reasoning
