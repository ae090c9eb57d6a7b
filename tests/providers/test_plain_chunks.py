"""Chunks that are decoded into a shape of their own say the same as those that are read as any JSON is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import Completed, ReasoningDelta, TextDelta
from app.chat.events import Delta
from app.providers.openai.assembly import AnswerAssembly
from app.providers.openai.plain_chunk import DELTA_FIELDS, plain_chunk
from app.providers.openai.reader import ChatCompletionReader
from app.providers.openai.wire_json import decode
from app.providers.profile import Profile
from app.providers.scrubbing import Scrubber
from tests.support.chunks import DONE, chunk, event
from tests.support.reading import read, singly

TEXTS = st.none() | st.text(max_size=8)
FRAGMENTS = st.builds(
    lambda index, name, arguments: {"index": index, "id": f"of {index}", "function": {"name": name, **arguments}},
    st.integers(0, 2),
    st.just("trams"),
    st.fixed_dictionaries({}, optional={"arguments": st.sampled_from(["{", '"line": 4', ""])}),
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": TEXTS,
        "reasoning_content": TEXTS,
        "reasoning": TEXTS,
        "role": TEXTS,
        "refusal": st.none(),
        "tool_calls": st.none() | st.lists(FRAGMENTS, max_size=2),
        "function_call": st.none(),
    },
)
CHUNKS = st.fixed_dictionaries(
    {
        "choices": st.builds(
            lambda delta, finish: [{"index": 0, "delta": delta, "finish_reason": finish}],
            DELTAS,
            st.sampled_from([None, None, None, "stop", "length", "tool_calls"]),
        )
    },
    optional={"id": TEXTS, "model": TEXTS, "usage": st.none(), "created": st.integers(0, 2**40)},
)


def assembly() -> AnswerAssembly:
    return AnswerAssembly(Profile(), Scrubber(), max_answer=2**20)


@given(st.lists(CHUNKS, max_size=5))
def test_plain_chunks_make_the_same_deltas_and_the_same_answer_either_way(chunks: list[dict[str, Any]]) -> None:
    plainly, at_length = assembly(), assembly()
    told: tuple[list[Delta], list[Delta]] = ([], [])
    for one in chunks:
        data = json.dumps(one).encode()
        plain = plain_chunk(data)
        assert plain is not None
        plainly.add_plain(plain, told[0])
        at_length.add(decode(data), told[1])

    assert told[0] == told[1]
    assert (plainly.size, plainly.begun, plainly.finished, plainly.ends_in_usage) == (
        at_length.size,
        at_length.begun,
        at_length.finished,
        at_length.ends_in_usage,
    )
    assert plainly.close([]) == at_length.close([])


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(chunk({"content": "a"}, finish="content_filter")),
        json.dumps(chunk({"content": "a"}, finish="error")),
        json.dumps(chunk({"content": "a", "tool_calls": {"index": 0}})),
        json.dumps(chunk({"content": "a", "tool_calls": ["trams"]})),
        json.dumps(chunk({"content": "a", "function_call": {"name": "trams"}})),
        json.dumps(chunk({"content": [{"type": "text", "text": "a"}]})),
        json.dumps(chunk({"content": "a", "thought_signature": "b"})),
        json.dumps({**chunk({"content": "a"}), "usage": {"prompt_tokens": 1}}),
        json.dumps({**chunk({"content": "a"}), "error": {"message": "out of memory"}}),
        json.dumps({**chunk({"content": "a"}), "object": "error"}),
        json.dumps({"choices": [{"index": 1, "delta": {"content": "a"}}]}),
        json.dumps({"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]}),
        json.dumps({"choices": []}),
        r'{"choices": [{"delta": {"content": "\ud83d"}}]}',
        '{"choices": [{"delta": {"content": "cut',
        "[1]",
        "null",
    ],
)
def test_what_holds_anything_else_is_not_plain(data: str) -> None:
    assert plain_chunk(data.encode()) is None


def test_bytes_that_are_not_utf_8_are_not_plain() -> None:
    assert plain_chunk(b'{"choices": [{"delta": {"content": "\xff"}}]}') is None


def test_an_answer_of_plain_and_other_chunks_is_told_in_its_order() -> None:
    other = {"content": "b", "annotations": []}
    body = b"".join(map(event, [chunk({"content": "a"}), chunk(other), chunk({"content": "c"}), chunk(finish="stop")]))

    assert read(body + DONE).text == "abc"


def test_where_no_chunk_is_plain_each_is_read_all_the_same() -> None:
    deltas = [chunk({"content": str(number), "annotations": []}) for number in range(9)]
    reading = read(b"".join(map(event, [*deltas, chunk(finish="stop")])) + DONE)

    assert [delta for delta in reading.events if isinstance(delta, TextDelta)] == [TextDelta(str(n)) for n in range(9)]


@pytest.mark.parametrize("field", sorted(DELTA_FIELDS))
def test_a_field_that_is_to_be_kept_as_it_is_is_kept_though_a_plain_chunk_may_have_it(field: str) -> None:
    reader = ChatCompletionReader(Profile(kept_fields=frozenset({field})))
    value = None if field in {"refusal", "tool_calls", "function_call"} else "kept"
    told = list(
        singly(reader.feed(event(chunk({field: value})) + event(chunk({"content": "."}, finish="stop")) + DONE))
    )

    last = told[-1]
    assert isinstance(last, Completed)
    assert last.response.message.extra.get(field) == (value if field != "content" else ".")


def test_reasoning_is_told_by_the_first_name_that_says_something() -> None:
    said = [{"reasoning_content": "", "reasoning": "Hm"}, {"reasoning_content": "m", "reasoning": "no"}]
    told = list(singly(ChatCompletionReader().feed(b"".join(event(chunk(delta)) for delta in said))))

    assert told == [ReasoningDelta("Hm"), ReasoningDelta("m")]
