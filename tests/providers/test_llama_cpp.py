"""What a llama.cpp server sends, recorded from `tests/real_model/llama_server.py`, read without the server."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from app.chat import ChatEvent, Completed, FinishReason, ModelRejected, TextDelta, ToolCallArguments, ToolCallReady
from app.providers.openai.reader import ChatCompletionReader
from tests.support.reading import singly

RECORDED = Path(__file__).with_name("llama_cpp")
as_json_and_as_stream = pytest.mark.parametrize("form", ["json", "sse"])
in_pieces_of = pytest.mark.parametrize("size", [1, 13, 1 << 20])


def read(name: str, size: int) -> list[ChatEvent]:
    body = (RECORDED / name).read_bytes()
    reader = ChatCompletionReader()
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    return list(singly(chain(chain.from_iterable(map(reader.feed, pieces)), reader.close())))


@as_json_and_as_stream
@in_pieces_of
def test_a_call_is_read(form: str, size: int) -> None:
    *deltas, last = read(f"tool_call.{form}", size)

    assert isinstance(last, Completed)
    (call,) = last.response.tool_calls
    assert (call.name, call.arguments) == ("get_weather", '{"city": "Paris"}')
    assert "".join(delta.text for delta in deltas if isinstance(delta, ToolCallArguments)) == call.arguments
    assert [delta.call for delta in deltas if isinstance(delta, ToolCallReady)] == [call]
    assert last.response.finish_reason is FinishReason.TOOL_CALLS
    assert last.response.content == ""


@as_json_and_as_stream
@in_pieces_of
def test_text_is_read(form: str, size: int) -> None:
    *deltas, last = read(f"answer.{form}", size)

    assert isinstance(last, Completed)
    assert last.response.content == "It is 23 C with clouds in Paris."
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == last.response.content
    assert last.response.finish_reason is FinishReason.STOP
    assert last.response.model == "smollm2"
    usage = last.response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cached_tokens) == (457, 12, 469, 0)


@as_json_and_as_stream
@in_pieces_of
def test_a_call_cut_by_the_token_limit_is_told_and_never_ready(form: str, size: int) -> None:
    *deltas, last = read(f"cut_call.{form}", size)

    assert isinstance(last, Completed)
    assert last.response.finish_reason is FinishReason.LENGTH
    assert [call.arguments for call in last.response.tool_calls] == ['{"city":']
    assert not any(isinstance(delta, ToolCallReady) for delta in deltas)


def test_a_refusal_says_why() -> None:
    with pytest.raises(ModelRejected, match="exceeds the available context size") as caught:
        read("refused.json", 1 << 20)
    assert caught.value.status == 400
