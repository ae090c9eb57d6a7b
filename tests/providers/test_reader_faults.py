"""What is no whole answer is an error that says what came: never a short success, never a crash."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import (
    Completed,
    ModelError,
    ModelProtocolError,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
    ToolCallArguments,
    ToolCallStarted,
)
from app.providers.openai.reader import ChatCompletionReader
from app.providers.profiles import Profile
from tests.support.chunks import DONE, call, calls, chunk, completion, event, stream, text_stream, usage_chunk
from tests.support.reading import WAYS, Reading, cut, read, read_pieces

in_every_way = pytest.mark.parametrize("way", WAYS)
HALF = chunk({"content": "Half a"})
END = chunk(finish="stop")


@in_every_way
@pytest.mark.fault("U19")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(stream(HALF, done=False), id="text, then the end"),
        pytest.param(stream(HALF, chunk(), done=False), id="an empty chunk, then the end"),
        pytest.param(stream(HALF, usage_chunk(), HALF, done=False), id="usage in the middle"),
        pytest.param(stream(chunk({"role": "assistant"}), done=False), id="only a role"),
        pytest.param(stream(HALF, done=False) + event(chunk(finish="stop"))[:-30], id="the finish reason is cut"),
        pytest.param(stream(HALF, done=False) + b"data: [DO", id="the end mark is cut"),
        pytest.param(stream(calls(call("clock", "{", call_id="a")), done=False), id="half a call"),
        pytest.param(completion("Half a sentence")[:60], id="half a completion"),
        pytest.param(b"{", id="the beginning of a completion"),
    ],
)
def test_half_an_answer_is_truncated(body: bytes, way: str) -> None:
    reading = read(body, way)

    assert isinstance(reading.error, ModelProtocolError)
    assert reading.error.code == "truncated"
    assert not any(isinstance(told, Completed) for told in reading.events)


@in_every_way
@pytest.mark.fault("U40")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n \r\n", id="blanks"),
        pytest.param(b"\xef\xbb", id="half a byte-order mark"),
        pytest.param(DONE, id="only the end mark"),
        pytest.param(b": hello\n\n: hello\n\n", id="only keep-alives"),
        pytest.param(stream(usage_chunk()), id="only usage"),
        pytest.param(stream(usage_chunk(), done=False), id="only usage, no end mark"),
        pytest.param(stream(chunk({"role": "assistant", "content": ""})), id="only a role"),
        pytest.param(json.dumps({"id": "x", "choices": []}).encode(), id="no choices"),
        pytest.param(json.dumps({"id": "x", "choices": None}).encode(), id="choices are null"),
        pytest.param(completion("", finish=None), id="no text and no finish reason"),
    ],
)
def test_an_answer_with_nothing_in_it_is_empty(body: bytes, way: str) -> None:
    reading = read(body, way)

    assert isinstance(reading.error, ModelProtocolError)
    assert reading.error.code == "empty"
    assert reading.events == ()


@in_every_way
@pytest.mark.fault("C05", "U41")
@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            b"<!DOCTYPE html>\n<html><head><title> Harbour\nOffice </title></head><body>Hi</body></html>",
            "Harbour Office",
        ),
        (b"\xef\xbb\xbf  <html><body>no title</body></html>", "a web page"),
        (b"<html>" + b"<p>long</p>" * 2000, "a web page"),
        (b"Internal Server Error", "Internal Server Error"),
        (b"upstream: timed out\ntry later\n", "upstream: timed out try later"),
        (b'{"status": "ok"}', '{"status": "ok"}'),
        (b'{"error": null, "data": []}', "data"),
        (b"[1, 2]", "[1, 2]"),
        (b"[]", "[]"),
    ],
)
def test_a_body_that_is_no_completion_is_shown_shortly_with_what_to_check(body: bytes, shown: str, way: str) -> None:
    reading = read(body, way)

    assert isinstance(reading.error, ModelProtocolError)
    assert reading.error.code == "not_a_completion"
    assert shown in str(reading.error)
    assert "GATEWAY_MODEL__BASE_URL" in str(reading.error)
    assert "/v1" in str(reading.error)
    assert len(str(reading.error)) < 500


@in_every_way
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(stream(HALF, b'data: {"choices": [{"delta": {"conte\n\n', chunk(finish="stop")), id="broken JSON"),
        pytest.param(stream(HALF, b"data: tram\n\n", chunk(finish="stop")), id="no JSON"),
        pytest.param(stream(HALF, b"data: 7\n\n", chunk(finish="stop")), id="a number"),
        pytest.param(stream(HALF, b'data: "more"\n\n', chunk(finish="stop")), id="a text"),
        pytest.param(
            stream(HALF, b'data: [{"choices": []}, 3]\n\n', chunk(finish="stop")), id="a list of more than chunks"
        ),
        pytest.param(stream(HALF, b"data: " + b"[" * 5000 + b"\n\n", chunk(finish="stop")), id="nested too deeply"),
        pytest.param(stream(HALF, b"data: " + b"9" * 5000 + b"\n\n", chunk(finish="stop")), id="a number too long"),
        pytest.param(stream(HALF, chunk("a text"), chunk(finish="stop")), id="a delta that is a text"),
        pytest.param(stream(HALF, chunk({"content": 5}), chunk(finish="stop")), id="content that is a number"),
        pytest.param(stream(HALF, chunk({"content": [[[[["deep"]]]]]}), chunk(finish="stop")), id="content too deep"),
        pytest.param(stream(HALF, chunk({"tool_calls": 5}), chunk(finish="stop")), id="calls that are a number"),
        pytest.param(b'{"choices": [}', id="a broken body"),
        pytest.param(b'{"choices": [} [DONE]', id="a broken body with an end mark that is none"),
    ],
)
def test_what_may_be_content_and_cannot_be_read_is_malformed(body: bytes, way: str) -> None:
    reading = read(body, way)

    assert isinstance(reading.error, ModelProtocolError)
    assert reading.error.code == "malformed"
    assert len(str(reading.error)) < 300


@in_every_way
@pytest.mark.fault("U38")
@pytest.mark.parametrize(
    ("data", "kind", "message", "known"),
    [
        (
            {"error": {"message": "used up", "type": "rate_limit", "code": 429}},
            ModelRateLimited,
            "used up",
            ("429", 429),
        ),
        ({"error": "engine lost"}, ModelUnavailable, "engine lost", (None, None)),
        ({"error": {"message": "gone", "code": 502}}, ModelUnavailable, "gone", ("502", 502)),
        ({"error": {"message": "no", "code": "503"}}, ModelUnavailable, "no", ("503", 503)),
        ({"error": {"message": "long", "code": "context_length"}}, ModelRejected, "long", ("context_length", None)),
        ({"error": {"message": "pay", "type": "quota"}}, ModelRateLimited, "pay", ("quota", None)),
        (
            {"error": {"type": "overheated", "message": "m"}, "type": "error"},
            ModelUnavailable,
            "m",
            ("overheated", None),
        ),
        ({"object": "error", "message": "bad image", "code": 400}, ModelRejected, "bad image", ("400", 400)),
        ({"code": 4077, "description": "busy"}, ModelUnavailable, "busy", ("4077", None)),
        ({"code": "Throttling", "message": "slow down"}, ModelRateLimited, "slow down", ("Throttling", None)),
        ({"error": {"code": 500}}, ModelUnavailable, "failed", ("500", 500)),
        ({"error": [{"message": "in a list"}]}, ModelUnavailable, "in a list", (None, None)),
        ({"error": True}, ModelUnavailable, "no reason", (None, None)),
        ({"choices": [{"error": {"message": "here", "code": 500}}]}, ModelUnavailable, "here", ("500", 500)),
        ({"choices": [{"delta": {}, "finish_reason": "error"}]}, ModelUnavailable, "error", ("error", None)),
    ],
)
def test_an_error_inside_an_answer_is_raised_as_what_it_is(
    data: Any, kind: type[ModelError], message: str, known: tuple[str | None, int | None], way: str
) -> None:
    for body, text in (
        (stream(data), ""),
        (stream(HALF, data), "Half a"),
        (stream(HALF, {**chunk(finish="error"), **data}), "Half a"),
        (json.dumps(data).encode(), ""),
    ):
        reading = read(body, way)

        assert type(reading.error) is kind
        assert message in str(reading.error)
        assert (reading.error.code, reading.error.status) == known
        assert reading.text == text


@in_every_way
@pytest.mark.fault("U38")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"message":"overheated","code":"overheated"}', "overheated"),
        (b"Bad Gateway", "Bad Gateway"),
        (b'["odd"]', "odd"),
    ],
)
def test_an_event_named_error_is_one_whatever_it_holds(data: bytes, message: str, way: str) -> None:
    reading = read(stream(chunk({"role": "assistant"}), b"event: error\ndata: " + data + b"\n\n"), way)

    assert isinstance(reading.error, ModelUnavailable)
    assert message in str(reading.error)


@in_every_way
@pytest.mark.fault("U38")
def test_words_in_the_place_of_a_chunk_are_an_error_though_the_end_mark_follows(way: str) -> None:
    reading = read(stream(HALF, {"detail": "worker lost"}), way)

    assert isinstance(reading.error, ModelUnavailable)
    assert "worker lost" in str(reading.error)


@in_every_way
@pytest.mark.fault("U38")
def test_an_error_after_the_finish_reason_still_is_one(way: str) -> None:
    reading = read(stream(HALF, chunk(finish="stop"), {"error": {"message": "lost"}}), way)

    assert isinstance(reading.error, ModelUnavailable)


@in_every_way
@pytest.mark.fault("U38")
def test_an_error_within_arguments_leaves_the_call_unready(way: str) -> None:
    reading = read(stream(calls(call("note", '{"te', call_id="a")), {"error": {"message": "restarted"}}), way)

    assert isinstance(reading.error, ModelUnavailable)
    assert reading.events == (ToolCallStarted("a", "note"), ToolCallArguments("a", "note", '{"te'))


@pytest.mark.parametrize("none", [None, False, "", {}, []])
def test_a_field_for_errors_that_is_empty_tells_of_none(none: Any) -> None:
    assert read(stream(chunk({"content": "Fine."}, error=none), chunk(finish="stop"))).response.content == "Fine."


@pytest.mark.parametrize(
    "note", [{"code": 0, "message": "ok"}, {"type": "ping", "message": "hi"}, {"id": "x", "msg": "hi"}]
)
def test_a_note_that_is_no_error_is_let_by(note: Any) -> None:
    assert read(stream(note, chunk({"content": "Fine."}, "stop"))).response.content == "Fine."


@pytest.mark.fault("U37")
@in_every_way
@pytest.mark.parametrize(
    ("body", "options"),
    [
        pytest.param(text_stream("x" * 600), {"max_event": 500}, id="an event"),
        pytest.param(text_stream(*["x" * 60] * 10), {"max_answer": 500}, id="text"),
        pytest.param(stream(*[chunk({"reasoning": "x" * 60})] * 10), {"max_answer": 500}, id="reasoning"),
        pytest.param(stream(*[chunk({"refusal": "x" * 60})] * 10), {"max_answer": 500}, id="refusal"),
        pytest.param(stream(*[calls(call("f", "x" * 60, call_id="a"))] * 10), {"max_answer": 500}, id="arguments"),
        pytest.param(stream(*[calls(call("f", call_id=f"a{n}")) for n in range(10)]), {"max_answer": 500}, id="calls"),
        pytest.param(
            stream(*[calls(call("f", call_id="a", x="y" * 60))] * 10), {"max_answer": 500}, id="fields of calls"
        ),
        pytest.param(stream(*[chunk({"reasoning_details": ["x" * 60]})] * 10), {"max_answer": 500}, id="kept fields"),
        pytest.param(
            text_stream(*[" " * 60] * 10), {"max_answer": 500, "profile": Profile(think_tags=True)}, id="white space"
        ),
        pytest.param(completion("x" * 600), {"max_answer": 500}, id="a completion"),
        pytest.param(text_stream(*["é" * 30] * 10), {"max_answer": 500}, id="text in bytes"),
        pytest.param(
            stream(*[calls(call("f", "é" * 30, call_id="a"))] * 10), {"max_answer": 500}, id="arguments in bytes"
        ),
    ],
)
def test_more_than_the_cap_is_an_error_and_not_a_growing_buffer(body: bytes, options: Any, way: str) -> None:
    reading = read(body, way, **options)

    assert isinstance(reading.error, ModelProtocolError)
    assert reading.error.code == "too_large"
    assert "500" in str(reading.error)


@pytest.mark.fault("U37")
def test_large_answers_are_read_with_the_default_caps() -> None:
    large = "x" * 300_000
    many = [chunk({"content": "ab"})] * 5000

    assert read(text_stream(large)).response.content == large
    assert read(stream(*many, chunk(finish="stop"))).response.content == "ab" * 5000


@pytest.mark.fault("U37")
@pytest.mark.parametrize(
    ("body", "options"),
    [
        pytest.param(text_stream("secret-key-0123456789" * 80_000), {"secrets": ["secret-key-0123456789"]}, id="a key"),
        pytest.param(
            stream(event(chunk({"content": " " * 50})) * 20_000, END),
            {"profile": Profile(think_tags=True)},
            id="white space before tags",
        ),
        pytest.param(
            stream(calls(call("f", "{}", call_id="a")), event(calls(call(None, " " * 50, call_id="a"))) * 20_000, END),
            {},
            id="white space after arguments",
        ),
    ],
)
def test_what_a_server_repeats_without_end_costs_no_more_than_its_length(body: bytes, options: Any) -> None:
    before = time.process_time()
    assert read(body, **options).error is None
    assert time.process_time() - before < 3, "it takes less than half a second, and more than five if all is read again"


@in_every_way
@pytest.mark.fault("X01")
def test_a_key_that_the_server_echoes_is_seen_nowhere(way: str) -> None:
    key = "live-key-0123456789"
    parts = ["The key is ", *key[:3], key[3:9], key[9:], ", live-key ends."]
    body = stream(
        *(chunk({field: part}) for field in ("content", "reasoning", "refusal") for part in parts),
        *(calls(call("note", part, call_id="a")) for part in parts),
        chunk(finish="stop"),
    )

    reading = read(body, way, secrets=[key, "another-secret-1"])

    message = reading.response.message
    assert key not in repr(reading.events)
    assert key[3:] not in repr(reading.events)
    assert message.content == reading.text == "The key is liv***, live-key ends."
    assert message.reasoning == message.refusal == message.tool_calls[0].arguments == message.content


@pytest.mark.fault("X01")
@pytest.mark.parametrize("shape", ["stream", "whole"])
def test_a_key_in_the_place_of_an_id_or_a_name_is_masked_as_well(shape: str) -> None:
    key = "live-key-0123456789"
    labels: dict[str, Any] = {"id": f"cmpl-{key}", "model": f"probe/{key}"}
    asked = call(key, "{}", call_id=f"call-{key}")
    body = (
        stream({**calls(asked), **labels}, {**END, **labels})
        if shape == "stream"
        else completion({"tool_calls": [asked]}, **labels)
    )

    reading = read(body, secrets=[key])

    assert key not in repr(reading.events)
    assert reading.response.model == "probe/***"
    assert [(each.id, each.name) for each in reading.response.tool_calls] == [("call-***", "***")]


def test_a_secret_that_is_a_mere_word_does_not_spoil_answers() -> None:
    assert read(text_stream("Install ollama first."), secrets=["ollama"]).response.content == "Install ollama first."


BODIES = [
    text_stream("Grüße ", "aus 東京 🚋"),
    text_stream("a").replace(b"\n", b"\r\n"),
    text_stream("a").replace(b"\n", b"\r"),
    b"\xef\xbb\xbf: hi\n\n" + text_stream("a", "b", usage={"prompt_tokens": 1}),
    stream(
        calls(call("f", '{"a":', call_id="x")),
        calls(call(None, "1}"), call("g", "{}", call_id="y", index=1)),
        chunk(finish="stop"),
    ),
    stream(
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\ude8b"}}]}\n\n',
    ),
    stream(HALF, done=False),
    stream(HALF, {"error": {"message": "lost", "code": 500}}),
    completion("Whole."),
    b"<html><title>Hi</title>" + b"." * 5000,
    b"plain words\n",
    DONE,
]


@pytest.mark.fault("U31", "U34", "U35", "U36")
@given(st.sampled_from(BODIES), st.lists(st.integers(0, 6000), max_size=12))
def test_how_the_network_cuts_a_body_changes_nothing(body: bytes, cuts: list[int]) -> None:
    places = sorted(min(place, len(body)) for place in cuts)
    pieces = [body[start:stop] for start, stop in zip([0, *places], [*places, len(body)], strict=True)]

    assert _essence(read_pieces(pieces)) == _essence(read(body))


def _essence(reading: Reading) -> Any:
    error = reading.error
    return reading.events, error and (type(error), str(error), error.code)


@given(st.sampled_from(BODIES), st.data())
def test_damaged_bodies_end_in_an_answer_or_an_honest_error(body: bytes, data: st.DataObject) -> None:
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    stop = data.draw(st.integers(0, len(damaged)))

    reading = read(bytes(damaged[:stop]))

    assert reading.error is not None or isinstance(reading.events[-1], Completed)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 600) | st.sampled_from(["", "a", "stop", "error", "\ud83d"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "id", "index",
             "error", "code", "type", "usage", "finish_reason", "reasoning", "refusal", "text", "extra_content",
             "prompt_tokens", "prompt_tokens_details", "x_groq", "object", "detail"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(_JSON, max_size=4), st.booleans())
def test_any_json_in_any_place_ends_in_an_answer_or_an_honest_error(values: list[Any], whole: bool) -> None:
    choices = [{"choices": [{"index": 0, "delta": value, "message": value}]} for value in values]

    for body in (stream(*values), stream(*choices), json.dumps(choices[0] if choices and whole else values).encode()):
        reading = read(body)
        assert reading.error is not None or isinstance(reading.events[-1], Completed)
        if reading.error is None:
            assert json.dumps(reading.response.message.content, ensure_ascii=False).encode()


def test_the_random_reads_of_these_tests_are_reads_of_the_whole() -> None:
    assert b"".join(cut(BODIES[0], "random reads")) == BODIES[0]


def test_a_reader_that_has_failed_to_end_says_so_again() -> None:
    reader = ChatCompletionReader()
    list(reader.feed(event(HALF)))

    for _ in range(2):
        with pytest.raises(ModelProtocolError, match="half an answer"):
            list(reader.close())
