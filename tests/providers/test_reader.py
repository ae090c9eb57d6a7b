"""What a reader makes of answers that are whole, however odd. Each is read in three ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.chat import Completed, Deltas, FinishReason, ModelError, TextDelta, Usage
from app.providers.openai.reader import ChatCompletionReader
from app.providers.profiles import Profile
from tests.support.chunks import DONE, USAGE, call, calls, chunk, completion, event, stream, text_stream, usage_chunk
from tests.support.reading import WAYS, read

in_every_way = pytest.mark.parametrize("way", WAYS)
KNOWN = Usage(input_tokens=21, output_tokens=4, total_tokens=25)


def said(text: str, finish: str | None = "stop") -> list[dict[str, Any]]:
    return [chunk({"role": "assistant", "content": text}), chunk(finish=finish)]


@in_every_way
@pytest.mark.parity(160, 163)
def test_text_is_told_piece_by_piece_and_then_whole(way: str) -> None:
    reading = read(text_stream("The lift ", "is ", "out of order."), way)

    assert [event for event in reading.events if isinstance(event, TextDelta)] == [
        TextDelta("The lift "),
        TextDelta("is "),
        TextDelta("out of order."),
    ]
    response = reading.response
    assert response.content == "The lift is out of order."
    assert (response.finish_reason, response.usage) == (FinishReason.STOP, KNOWN)
    assert (response.id, response.model) == ("cmpl-1", "probe")
    assert response.generated == (response.message,)


def test_a_piece_is_told_as_soon_as_its_event_is_read() -> None:
    reader = ChatCompletionReader()

    assert list(reader.feed(event(chunk({"content": "first"})))) == [TextDelta("first")]
    assert list(reader.feed(event(chunk({"content": "second"}))[:-1])) == []
    assert list(reader.feed(b"\n")) == [TextDelta("second")]


def test_deltas_of_one_read_come_together_and_the_end_by_itself() -> None:
    reader = ChatCompletionReader()

    together, end = reader.feed(text_stream("one ", "two"))

    assert together == Deltas((TextDelta("one "), TextDelta("two")))
    assert isinstance(end, Completed)


def test_deltas_that_came_with_an_error_come_before_it() -> None:
    reading = ChatCompletionReader().feed(
        stream(chunk({"content": "one "}), chunk({"content": "two"}), {"error": "out of memory"})
    )

    assert next(reading) == Deltas((TextDelta("one "), TextDelta("two")))
    with pytest.raises(ModelError, match="out of memory"):
        next(reading)


@in_every_way
@pytest.mark.fault("U18")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(stream(*said("Open.")), id="finish reason and end mark"),
        pytest.param(stream(*said("Open."), done=False), id="finish reason, then the end"),
        pytest.param(stream(*said("Open.", finish=None)), id="end mark alone"),
        pytest.param(stream(*said("Open.", finish=None), usage_chunk(), done=False), id="usage, then the end"),
        pytest.param(stream(*said("Open.")) + event(chunk({"content": " Shut."})), id="more after the end mark"),
        pytest.param(stream(*said("Open.")) + b"data: {broken\n\n", id="rubbish after the end mark"),
        pytest.param(stream(*said("Open."), done=False) + b'data: {"choices": [{"del', id="usage cut off"),
        pytest.param(stream(*said("Open."), done=False) + b"data: [done]", id="end mark without a line end"),
    ],
)
def test_an_answer_may_end_in_many_ways(body: bytes, way: str) -> None:
    response = read(body, way).response

    assert (response.content, response.finish_reason) == ("Open.", FinishReason.STOP)


@in_every_way
@pytest.mark.fault("U31")
def test_a_last_event_without_its_blank_line_counts(way: str) -> None:
    body = stream(chunk({"content": "Open."}), done=False) + event(chunk(finish="length")).rstrip()

    assert read(body, way).response.finish_reason is FinishReason.LENGTH


def test_nothing_is_read_after_the_end_mark() -> None:
    reader = ChatCompletionReader()
    list(reader.feed(text_stream("Done.")))

    assert reader.done
    assert list(reader.feed(event(chunk({"content": "ghost"})))) == []
    assert list(reader.close()) == []


@pytest.mark.parity(173)
@pytest.mark.fault("U17")
@pytest.mark.parametrize("between", [None, ""])
def test_a_reason_that_says_nothing_is_no_end(between: str | None) -> None:
    reader = ChatCompletionReader()
    list(reader.feed(event(chunk({"content": "a"}, finish=between))))

    assert not reader.finished
    list(reader.feed(event(chunk({"content": "b"}, finish="stop"))))
    assert reader.finished


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("end_turn", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("max_tokens", FinishReason.LENGTH),
        ("model_length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("SAFETY", FinishReason.CONTENT_FILTER),
        ("tool_calls", FinishReason.STOP),
    ],
)
def test_reasons_are_normalised(sent: str, reason: FinishReason) -> None:
    assert read(stream(*said("Well.", finish=sent))).response.finish_reason is reason


@in_every_way
@pytest.mark.fault("U22", "U23")
def test_events_that_say_nothing_are_let_by(way: str) -> None:
    body = stream(
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}], "id": "", "model": ""},
        {"id": "cmpl-1"},
        chunk({"content": "Plat"}),
        {"choices": None},
        None,
        [],
        {"choices": [{"delta": None, "finish_reason": None}]},
        {"choices": [{"index": 0}]},
        {"choices": ["what"]},
        chunk({"content": "form 4", "tool_calls": None, "refusal": None, "function_call": None}),
        {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]},
    )

    response = read(body, way).response

    assert response.content == "Platform 4"
    assert (response.id, response.model) == ("cmpl-1", "probe")


@in_every_way
@pytest.mark.fault("U32")
@pytest.mark.parametrize(
    "alive",
    [
        b": still here\n\n",
        b"data: : still here\n\n",
        b"data:\n\n",
        b"id: 7\n: still here\n\n",
        b"event: ping\ndata: 12:30\n\n",
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b"data: null\n\n",
        b"\n\n\n",
    ],
)
def test_keep_alives_are_neither_content_nor_errors(alive: bytes, way: str) -> None:
    body = alive + stream(chunk({"content": "Plat"}), alive, chunk({"content": "form"}), alive, chunk(finish="stop"))

    assert read(body, way).response.content == "Platform"


@pytest.mark.fault("D10", "U32")
def test_keep_alives_and_empty_chunks_do_not_make_the_answer_grow() -> None:
    reader = ChatCompletionReader()
    list(reader.feed(event(chunk({"content": "a"}))))
    before = reader.size
    list(reader.feed(b": x\n\ndata: : x\n\n" + event(chunk({"role": "assistant", "content": ""})) + event(None)))

    assert reader.size == before > 0


@in_every_way
@pytest.mark.fault("U33")
def test_a_chunk_may_be_spread_over_data_lines(way: str) -> None:
    spread = json.dumps(chunk({"content": "In four lines."}), indent=1).replace("\n", "\ndata: ")

    assert read(f"\ufeffdata: {spread}\n\n".encode() + stream(chunk(finish="stop")), way).text == "In four lines."


@in_every_way
@pytest.mark.fault("U34", "U35")
def test_every_character_arrives_as_it_was_sent(way: str) -> None:
    text = "línea\u2028päron\u2029東京\u0085🚋\x0b end"
    raw = json.dumps(chunk({"content": text}), ensure_ascii=False).encode()

    assert read(stream(b"data: " + raw + b"\r\n\r\n", chunk(finish="stop")), way).response.content == text


@in_every_way
@pytest.mark.fault("U36")
@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ([r"tram \ud83d", r"\ude8b stops"], "tram 🚋 stops"),
        ([r"tram \ud83d", "", r"\ude8b"], "tram 🚋"),
        ([r"lone \ud83d here"], "lone \ufffd here"),
        ([r"lone \ud83d", "here"], "lone \ufffdhere"),
        ([r"low \ude8b"], "low \ufffd"),
        ([r"at the end \ud83d"], "at the end \ufffd"),
    ],
)
@pytest.mark.parametrize("field", ["content", "reasoning_content", "refusal"])
def test_halves_of_a_character_are_joined_or_replaced(pieces: list[str], told: str, field: str, way: str) -> None:
    chunks = [b'data: {"choices":[{"delta":{"%b":"%b"}}]}\n\n' % (field.encode(), piece.encode()) for piece in pieces]

    message = read(stream(*chunks, chunk(finish="stop")), way).response.message

    got = {"content": message.content, "reasoning_content": message.reasoning, "refusal": message.refusal}[field]
    assert got == told
    assert got.encode()


@in_every_way
@pytest.mark.fault("U26", "U25")
def test_equal_neighbours_are_all_kept_and_roles_are_not_text(way: str) -> None:
    deltas = [chunk({"role": "assistant", "content": piece}) for piece in ("ho", "ho", "\n", "\n", "ho")]

    assert read(stream(*deltas, chunk(finish="stop")), way).response.content == "hoho\n\nho"


@pytest.mark.parity(164)
@in_every_way
@pytest.mark.fault("U27")
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_the_text_under_any_of_its_names(field: str, way: str) -> None:
    reading = read(
        stream(
            chunk({field: "Check ", "content": None}),
            chunk({field: "the board.", "content": ""}),
            chunk({"content": "Track 2.", field: None}),
            chunk(finish="stop"),
        ),
        way,
    )

    message = reading.response.message
    assert (message.content, message.reasoning) == ("Track 2.", "Check the board.")
    assert (reading.text, reading.reasoning) == ("Track 2.", "Check the board.")
    assert message.extra == {field: "Check the board."}


def test_reasoning_that_comes_under_two_names_at_once_is_taken_once() -> None:
    both = chunk({"reasoning_content": "Hm.", "reasoning": "Hm."})

    assert read(stream(both, *said("Yes."))).response.message.reasoning == "Hm."


@in_every_way
@pytest.mark.fault("U28")
def test_content_may_be_a_list_of_parts(way: str) -> None:
    thought = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": "Read the "}, {"type": "text", "text": "map."}],
    }
    reading = read(
        stream(
            chunk({"content": [thought]}),
            chunk({"content": [{"type": "text", "text": "North "}, {"type": "reference", "reference_ids": [1]}]}),
            chunk({"content": ["exit", {"type": "refusal", "refusal": "no"}]}),
            chunk({"content": {"type": "text", "text": "."}}),
            chunk(finish="stop"),
        ),
        way,
    )

    message = reading.response.message
    assert (message.content, message.reasoning, message.refusal) == ("North exit.", "Read the map.", "no")


@in_every_way
def test_a_refusal_is_kept_apart_from_the_text(way: str) -> None:
    reading = read(stream(chunk({"refusal": "I can not "}), chunk({"refusal": "do that."}), chunk(finish="stop")), way)

    assert (reading.response.content, reading.response.message.refusal) == ("", "I can not do that.")
    assert reading.text == ""


@in_every_way
@pytest.mark.fault("U27", "U29")
@pytest.mark.parametrize(
    "text", ["<think>count</think>Nine.", '<tool_call>{"name": "clock"}</tool_call>'], ids=["think", "tool_call"]
)
def test_tags_in_the_text_stay_text(text: str, way: str) -> None:
    response = read(
        stream(chunk({"content": text[:9]}), chunk({"content": text[9:]}), chunk(finish="stop")), way
    ).response

    assert (response.content, response.message.reasoning, response.tool_calls) == (text, None, ())


@pytest.mark.fault("U27")
@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>count</think>Nine.", "count", "Nine."),
        (" \n<think>a < b </thin</think>\n\nNine.", "a < b </thin", "\n\nNine."),
        ("<think>never closed </thi", "never closed </thi", ""),
        ("The tag <think> is HTML.", None, "The tag <think> is HTML."),
        ("<thin air", None, "<thin air"),
        ("<thi", None, "<thi"),
    ],
)
def test_think_tags_are_parted_where_the_profile_says_so(
    text: str, reasoning: str | None, content: str, size: int
) -> None:
    pieces = [chunk({"content": text[at : at + size]}) for at in range(0, len(text), size)]

    reading = read(stream(*pieces, chunk(finish="stop")), profile=Profile(think_tags=True))

    message = reading.response.message
    assert (message.reasoning, message.content) == (reasoning, content)
    assert (reading.reasoning, reading.text) == (reasoning or "", content)
    assert message.extra == {}, "the server sent it as text: it is not given back as a field"


@in_every_way
@pytest.mark.parity(162)
@pytest.mark.fault("U24")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(text_stream("Hi."), id="in a chunk of its own"),
        pytest.param(stream(chunk({"content": "Hi."}, "stop", usage=USAGE)), id="with the last content"),
        pytest.param(
            stream(
                chunk({"content": "H"}, usage={"prompt_tokens": 21, "completion_tokens": 1, "total_tokens": 22}),
                chunk({"content": "i."}, "stop", usage=USAGE),
            ),
            id="running totals",
        ),
        pytest.param(stream(*said("Hi."), usage_chunk(), {"choices": [], "usage": None}), id="null afterwards"),
        pytest.param(
            stream(*said("Hi."), usage_chunk(), usage_chunk({"prompt_tokens": 0, "completion_tokens": 0})),
            id="zero afterwards",
        ),
        pytest.param(
            stream({"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop", "usage": USAGE}]}),
            id="in the choice",
        ),
        pytest.param(stream(chunk({"content": "Hi."}, "stop", x_groq={"usage": USAGE})), id="in a vendor's field"),
    ],
)
def test_the_last_usage_that_says_something_counts(body: bytes, way: str) -> None:
    response = read(body, way).response

    assert (response.content, response.usage) == ("Hi.", KNOWN)
    assert response.rounds[0].usage == KNOWN


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (None, Usage()),
        ({}, Usage()),
        ({"prompt_tokens": None, "completion_tokens": True, "total_tokens": -1}, Usage()),
        ({"input_tokens": 3, "output_tokens": 2}, Usage(input_tokens=3, output_tokens=2)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 8,
                "total_tokens": 17,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            Usage(9, 8, 17, cached_tokens=0, reasoning_tokens=7),
        ),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 5, "prompt_tokens_details": None}, Usage(9, cached_tokens=5)),
        ({"prompt_tokens": 9, "cache_read_input_tokens": 5}, Usage(9, cached_tokens=5)),
        (
            {
                "input_tokens": 9,
                "output_tokens": 8,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens_details": {"reasoning_tokens": 7},
            },
            Usage(9, 8, cached_tokens=4, reasoning_tokens=7),
        ),
    ],
)
def test_what_usage_does_not_tell_is_unknown_and_not_zero(told: Any, usage: Usage) -> None:
    assert read(stream(*said("Hi."), {"choices": [], "usage": told})).response.usage == usage


@pytest.mark.parametrize(
    ("told", "timings", "cached"),
    [
        ({"prompt_tokens": 9}, {"cache_n": 6, "prompt_n": 3}, 6),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 5}}, {"cache_n": 6}, 5),
        ({"prompt_tokens": 9}, {"prompt_n": 3}, None),
        ({"prompt_tokens": 9}, "none", None),
    ],
)
def test_what_was_cached_is_read_from_timings_where_usage_does_not_say(told: Any, timings: Any, cached: Any) -> None:
    body = stream(*said("Hi."), {"choices": [], "usage": told, "timings": timings})

    assert read(body).response.usage == Usage(9, cached_tokens=cached)


@pytest.mark.fault("U24")
def test_of_usage_told_in_parts_each_part_is_kept() -> None:
    body = stream(
        chunk({"content": "Hi."}, usage={"prompt_tokens": 9, "total_tokens": 10, "cached_tokens": 2}),
        chunk(finish="stop", usage={"completion_tokens": 4}),
    )

    assert read(body).response.usage == Usage(9, 4, None, cached_tokens=2), "the total was that of an earlier moment"


@in_every_way
def test_only_the_first_choice_is_the_answer(way: str) -> None:
    other = chunk({"content": "other"}, index=1)

    response = read(
        stream(chunk({"content": "one"}), other, chunk(finish="length", index=1), chunk(finish="stop")), way
    ).response

    assert (response.content, response.finish_reason) == ("one", FinishReason.STOP)


@in_every_way
@pytest.mark.fault("U42")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(completion("Line 3."), id="a completion"),
        pytest.param(b"\xef\xbb\xbf\r\n " + completion("Line 3.") + b"\n", id="with blanks around"),
        pytest.param(completion("Line 3.") + b"\n\ndata: [DONE]\n\n", id="with an end mark glued on"),
        pytest.param(b"[" + completion("Line 3.") + b"]", id="in a list"),
        pytest.param(b"data: " + completion("Line 3.") + b"\n\n" + DONE, id="as an event"),
        pytest.param(completion("Line 3.", finish=None), id="without a finish reason"),
    ],
)
def test_a_whole_completion_is_an_answer_under_any_label(body: bytes, way: str) -> None:
    reading = read(body, way)

    response = reading.response
    assert (response.content, response.finish_reason, response.usage) == ("Line 3.", FinishReason.STOP, KNOWN)
    assert (reading.text, response.id) == ("Line 3.", "cmpl-2")


@in_every_way
def test_a_whole_completion_gets_the_same_care_as_a_stream(way: str) -> None:
    message = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Ask the clock.",
        "tool_calls": [{"function": {"name": "clock", "arguments": {"zone": "CET"}}, "signature": "s1"}],
    }

    reading = read(completion(message), way)

    response = reading.response
    [only] = response.tool_calls
    assert (only.name, only.arguments, only.extra) == ("clock", '{"zone":"CET"}', {"signature": "s1"})
    assert only.id.startswith("call_")
    assert (response.finish_reason, response.message.reasoning) == (FinishReason.TOOL_CALLS, "Ask the clock.")
    assert reading.told_calls == {only.id: ("clock", '{"zone":"CET"}')}


def test_a_message_at_the_end_of_a_stream_does_not_say_everything_twice() -> None:
    last = {"choices": [{"index": 0, "message": {"content": "Once."}, "finish_reason": "stop"}]}

    assert read(stream(chunk({"content": "Once."}), last)).response.content == "Once."


@in_every_way
def test_a_legal_empty_answer_is_an_answer(way: str) -> None:
    response = read(stream(*said("")), way).response

    assert (response.content, response.finish_reason, response.tool_calls) == ("", FinishReason.STOP, ())


@pytest.mark.parity(176)
def test_fields_that_the_server_wants_back_are_kept_and_others_are_not() -> None:
    reading = read(
        stream(
            chunk({"reasoning_details": [{"text": "a"}], "annotations": [1], "extra_content": {"x": 1}}),
            chunk({"reasoning_details": [{"text": "b"}], "extra_content": {"y": 2}, "thought_signature": "s"}),
            chunk({"reasoning_details": None}),
            *said("Yes."),
        )
    )

    assert reading.response.message.extra == {
        "reasoning_details": [{"text": "a"}, {"text": "b"}],
        "extra_content": {"x": 1, "y": 2},
        "thought_signature": "s",
    }


@pytest.mark.parity(159)
@pytest.mark.parametrize("extra", [{}, {"rate_limits": {"x-ratelimit-remaining-requests": "7"}}])
def test_what_is_told_beside_the_answer_is_kept_with_it(extra: dict[str, Any]) -> None:
    assert read(text_stream("Hi."), extra=extra).response.extra == extra


@pytest.mark.parity(165)
def test_every_reader_begins_anew() -> None:
    body = stream(calls(call("clock", "{}", call_id="call_a")), chunk(finish="tool_calls"))

    assert read(body).response == read(body).response
