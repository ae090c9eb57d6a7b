"""Tool calls are put together by their labels, whatever a server does with ids and indexes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from app.chat import FinishReason, ModelProtocolError, TextDelta, ToolCall, ToolCallArguments, ToolCallStarted
from app.providers.openai.calls import ToolCallAssembly
from app.providers.openai.reader import ChatCompletionReader
from tests.support.chunks import call, calls, chunk, completion, event, stream
from tests.support.reading import WAYS, Reading, read, singly

in_every_way = pytest.mark.parametrize("way", WAYS)
END = chunk(finish="tool_calls")


def asked(reading: Reading) -> list[tuple[str, str]]:
    """Names and arguments of the answer's calls; the deltas must have told the same."""
    made = reading.response.tool_calls
    assert len({one.id for one in made}) == len(made), "ids are unique"
    assert reading.ready_calls == [one.id for one in made]
    for one in made:
        name, arguments = reading.told_calls[one.id]
        assert (name, arguments.strip() or "{}") == (one.name, one.arguments)
    return [(one.name, one.arguments) for one in made]


@in_every_way
@pytest.mark.parity(161, 166, 167, 168, 169, 171)
@pytest.mark.parametrize(
    ("chunks", "made"),
    [
        pytest.param(
            [calls(call("clock", "", call_id="a")), calls(call(None, '{"zone"')), calls(call(None, ': "CET"}'))],
            [("clock", '{"zone": "CET"}')],
            id="the usual way",
        ),
        pytest.param(
            [calls(call("clock", "{", call_id="a")), calls(call("", "}", call_id=""))],
            [("clock", "{}")],
            id="empty id and name on continuations",
            marks=pytest.mark.fault("U05"),
        ),
        pytest.param(
            [calls(call("clock", '{"a"', call_id="a")), calls(call("clock", ": 1}", call_id="a"))],
            [("clock", '{"a": 1}')],
            id="id and name on every fragment",
            marks=pytest.mark.fault("U06"),
        ),
        pytest.param(
            [calls(call("clock", '{"a"', call_id="x1")), calls(call(None, ": 1}", call_id="x2"))],
            [("clock", '{"a": 1}')],
            id="another id on every fragment",
            marks=pytest.mark.fault("U06"),
        ),
        pytest.param(
            [calls(call("clock", '{"a": 1}', call_id="a")), calls(call("clock", '{"a": 1}', call_id="a"))],
            [("clock", '{"a": 1}')],
            id="the whole call sent once more",
        ),
        pytest.param(
            [calls(call("clock", '{"a": 1}', call_id="a")), calls(call("clock", "", call_id="a"))],
            [("clock", '{"a": 1}')],
            id="id and name once more at the end",
        ),
        pytest.param(
            [calls(call(call_id="a")), calls(call("clock")), calls(call(None, "{}"))],
            [("clock", "{}")],
            id="id, name and arguments apart",
            marks=pytest.mark.fault("U09"),
        ),
        pytest.param(
            [calls(call(None, '{"a":')), calls(call("clock")), calls(call(None, "1}")), calls(call(call_id="a"))],
            [("clock", '{"a":1}')],
            id="arguments first, id last",
            marks=pytest.mark.fault("U09"),
        ),
        pytest.param(
            [calls(call(None, "{}", call_id="a")), calls(call("clock", call_id="a"))],
            [("clock", "{}")],
            id="the name after whole arguments",
            marks=pytest.mark.fault("U09"),
        ),
        pytest.param(
            [
                calls(call("clock", "", call_id="a", index=0)),
                calls(call("tram", "", call_id="b", index=1)),
                calls(call(None, '{"z"', index=0), call(None, '{"l"', index=1)),
                calls(call(None, ":2}", index=1)),
                calls(call(None, ":1}", index=0)),
            ],
            [("clock", '{"z":1}'), ("tram", '{"l":2}')],
            id="interleaved by index",
        ),
        pytest.param(
            [
                calls(call("clock", "", call_id="a")),
                calls(call("tram", "", call_id="b")),
                calls(call(None, '{"z":1}', call_id="a")),
                calls(call(None, '{"l":2}', call_id="b")),
            ],
            [("clock", '{"z":1}'), ("tram", '{"l":2}')],
            id="interleaved by id, all with index 0",
            marks=pytest.mark.fault("U02"),
        ),
        pytest.param(
            [calls(call("clock", '{"z":1}', call_id="a")), calls(call("clock", '{"z":2}', call_id="b"))],
            [("clock", '{"z":1}'), ("clock", '{"z":2}')],
            id="other ids, all with index 0",
            marks=pytest.mark.fault("U02"),
        ),
        pytest.param(
            [calls(call("clock", '{"z":1}', call_id="")), calls(call("clock", '{"z":2}', call_id=""))],
            [("clock", '{"z":1}'), ("clock", '{"z":2}')],
            id="no ids, whole arguments, all with index 0",
            marks=pytest.mark.fault("U02"),
        ),
        pytest.param(
            [calls(call("clock")), calls(call("tram")), calls(call(None, "{}"))],
            [("clock", "{}"), ("tram", "{}")],
            id="no ids, no arguments, another name",
            marks=pytest.mark.fault("U02"),
        ),
        pytest.param(
            [calls(call("clock", '{"z":1}', call_id="a"), call("clock", '{"z":2}', call_id="a"))],
            [("clock", '{"z":1}'), ("clock", '{"z":2}')],
            id="one id for two calls",
            marks=pytest.mark.fault("U02"),
        ),
        pytest.param(
            [calls(call("clock", "{}", call_id="a", index=0), call("tram", "{}", call_id="a", index=1))],
            [("clock", "{}"), ("tram", "{}")],
            id="one id for two indexes",
            marks=pytest.mark.fault("U02"),
        ),
        pytest.param(
            [calls(call("clock", '{"z":1}', index=None), call("tram", '{"l":2}', index=None))],
            [("clock", '{"z":1}'), ("tram", '{"l":2}')],
            id="no labels at all",
            marks=pytest.mark.fault("U07"),
        ),
        pytest.param(
            [calls(call("clock", '{"z"', call_id="a", index=None)), calls(call(None, ":1}", index=None))],
            [("clock", '{"z":1}')],
            id="no index, continued without an id",
        ),
        pytest.param(
            [
                calls(call("clock", "{", call_id="a", index=None), call("tram", "[", call_id="b", index=None)),
                calls(call(None, "}", call_id="a", index=None), call(None, "]", call_id="b", index=None)),
            ],
            [("clock", "{}"), ("tram", "[]")],
            id="no index, interleaved by id",
        ),
        pytest.param(
            [calls(call("clock", "{}", call_id="a", index=7), call("tram", "{}", call_id="b", index=-1))],
            [("clock", "{}"), ("tram", "{}")],
            id="indexes that are no positions",
            marks=pytest.mark.fault("U03"),
        ),
        pytest.param(
            [calls(call("clock", '{"zo', call_id="a"), call(None, 'ne":1}'))],
            [("clock", '{"zone":1}')],
            id="two fragments of one call in one chunk",
            marks=pytest.mark.fault("U04"),
        ),
        pytest.param(
            [calls({**call("clock", "{}", call_id="a"), "type": None})],
            [("clock", "{}")],
            id="type is null",
            marks=pytest.mark.fault("U07"),
        ),
        pytest.param(
            [calls(call("clock", {"zone": "CET", "deep": {"ä": [1]}}, call_id="a"))],
            [("clock", '{"zone":"CET","deep":{"ä":[1]}}')],
            id="arguments as an object",
            marks=pytest.mark.fault("U11"),
        ),
        pytest.param(
            [calls(call("clock", piece, call_id="a")) for piece in ('{"t":"\\', '"}', '"}', "")],
            [("clock", r'{"t":"\"}"}')],
            id="an escape cut in two, with the name on every fragment",
        ),
        pytest.param([calls(call("clock", call_id="a"))], [("clock", "{}")], id="no arguments at all"),
        pytest.param([calls(call("clock", " \n", call_id="a"))], [("clock", "{}")], id="blank arguments"),
        pytest.param(
            [chunk({"tool_calls": call("clock", "{}", call_id="a")})], [("clock", "{}")], id="a call not in a list"
        ),
        pytest.param(
            [
                chunk({"function_call": {"name": "clock", "arguments": '{"z"'}}),
                chunk({"function_call": {"arguments": ":1}"}}),
            ],
            [("clock", '{"z":1}')],
            id="the old field for a single call",
        ),
        pytest.param(
            [calls(call("clock", r'{"t":"a\"}{', call_id="")), calls(call("clock", r'\\\\"}', call_id=""))],
            [("clock", r'{"t":"a\"}{\\\\"}')],
            id="braces and quotes within texts",
        ),
    ],
)  # fmt: skip
def test_fragments_find_their_call(chunks: list[Any], made: list[tuple[str, str]], way: str) -> None:
    reading = read(stream(*chunks, END), way)

    assert asked(reading) == made
    assert reading.response.finish_reason is FinishReason.TOOL_CALLS


@in_every_way
def test_ids_of_the_server_are_kept(way: str) -> None:
    body = stream(
        calls(call("clock", "{}", call_id="a1", index=4)), calls(call("tram", "{}", call_id="b2", index=2)), END
    )

    assert [one.id for one in read(body, way).response.tool_calls] == ["a1", "b2"]


@in_every_way
def test_each_call_of_a_whole_completion_is_a_call_of_its_own(way: str) -> None:
    alike = {"index": 0, "function": {"name": "clock"}}

    assert asked(read(completion({"tool_calls": [alike, alike]}), way)) == [("clock", "{}"), ("clock", "{}")]


@pytest.mark.parity(170)
@pytest.mark.fault("U07")
def test_ids_are_made_where_none_came_and_are_unique_beyond_the_answer() -> None:
    body = stream(calls(call("clock", "{}", index=0), call("tram", "{}", index=1)), END)
    made = [one.id for _ in range(2) for one in read(body).response.tool_calls]

    assert len(set(made)) == 4
    assert all(one.startswith("call_") and len(one) == len("call_") + 32 for one in made)


def test_a_number_is_an_id_too() -> None:
    fragment = {**call("clock", "{}"), "id": 17}

    assert read(stream(calls(fragment), END)).response.tool_calls[0].id == "17"


@pytest.mark.fault("U09")
def test_a_call_is_started_when_its_id_and_name_are_known_and_ready_when_the_answer_has_ended() -> None:
    reader = ChatCompletionReader()

    def told(*chunks: Any) -> list[Any]:
        return list(singly(reader.feed(b"".join(map(event, chunks)))))

    assert told(calls(call(None, '{"z":', call_id="a"))) == []
    assert told(calls(call("clock"))) == [ToolCallStarted("a", "clock"), ToolCallArguments("a", "clock", '{"z":')]
    assert told(calls(call(None, "1}"))) == [ToolCallArguments("a", "clock", "1}")]
    assert told(calls(call("tram", "{}", call_id="b", index=1)))[0] == ToolCallStarted("b", "tram")
    ready = [type(one).__name__ for one in told(END, b"data: [DONE]\n\n")]
    assert ready == ["ToolCallReady", "ToolCallReady", "Completed"]


@in_every_way
@pytest.mark.fault("U14")
def test_text_around_calls_is_kept_in_its_order(way: str) -> None:
    reading = read(
        stream(
            chunk({"content": "Let me "}),
            calls(call("clock", '{"z":', call_id="a"), content="look"),
            chunk({"content": " it "}),
            calls(call(None, "1}")),
            chunk({"content": "up."}),
            END,
        ),
        way,
    )

    kinds = [
        type(one).__name__ for one in reading.events if isinstance(one, TextDelta | ToolCallStarted | ToolCallArguments)
    ]
    assert kinds == [
        *("TextDelta", "TextDelta", "ToolCallStarted", "ToolCallArguments"),
        *("TextDelta", "ToolCallArguments", "TextDelta"),
    ]  # fmt: skip
    assert reading.response.content == "Let me look it up."
    assert asked(reading) == [("clock", '{"z":1}')]


@in_every_way
@pytest.mark.parity(176)
def test_fields_of_a_call_that_are_not_ours_are_kept(way: str) -> None:
    first = call("clock", "{", call_id="a", extra_content={"google": {"thought_signature": "s1"}}, note=None)
    first["function"]["strict_hint"] = True
    second = call(None, "", note=None)
    third = call(None, "}", extra_content={"google": {"part": 2}}, signature="s2")

    [only] = read(stream(calls(first), calls(second), calls(third), END), way).response.tool_calls

    assert only == ToolCall(
        "a",
        "clock",
        "{}",
        {
            "extra_content": {"google": {"thought_signature": "s1", "part": 2}},
            "function": {"strict_hint": True},
            "signature": "s2",
        },
    )


@in_every_way
@pytest.mark.parametrize("finish", ["stop", "end_turn", "tool_use", None])
def test_whole_calls_are_asked_for_whatever_the_finish_reason_says(finish: str | None, way: str) -> None:
    reading = read(stream(calls(call("clock", "{}", call_id="a")), chunk(finish=finish)), way)

    assert reading.response.finish_reason is FinishReason.TOOL_CALLS


@in_every_way
@pytest.mark.fault("U20")
@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize("arguments", ['{"text": "no end', '{"text": "it parses"}'])
def test_calls_of_an_answer_cut_short_are_kept_as_they_came_and_never_ready(
    arguments: str, finish: str, way: str
) -> None:
    reading = read(
        stream(calls(call("note", arguments, call_id="a"), call(None, "{", index=1)), chunk(finish=finish)), way
    )

    response = reading.response
    assert response.finish_reason == finish
    assert response.tool_calls == (ToolCall("a", "note", arguments),)
    assert reading.told_calls == {"a": ("note", arguments)}
    assert reading.ready_calls == []


@in_every_way
@pytest.mark.fault("U20")
@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
def test_arguments_that_do_not_parse_are_given_as_they_came(finish: str, way: str) -> None:
    reading = read(stream(calls(call("note", '{"text": "no en', call_id="a")), chunk(finish=finish)), way)

    assert asked(reading) == [("note", '{"text": "no en')]


@in_every_way
@pytest.mark.fault("U19")
@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("last", [[], [{"choices": [], "usage": {"prompt_tokens": 5, "total_tokens": 6}}]])
def test_a_call_that_is_cut_without_a_finish_reason_is_an_error(last: list[Any], done: bool, way: str) -> None:
    reading = read(stream(calls(call("note", '{"text": "no en', call_id="a")), *last, done=done), way)

    assert isinstance(reading.error, ModelProtocolError)
    assert reading.error.code == "truncated"
    assert reading.told_calls == {"a": ("note", '{"text": "no en')}
    assert reading.ready_calls == []


@in_every_way
@pytest.mark.parity(170)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(stream(calls(call(None, "{}", call_id="a")), END), id="no name"),
        pytest.param(stream(calls({"index": 0, "id": "a"}), END), id="no function"),
        pytest.param(completion({"tool_calls": [{"id": "a", "function": {"name": " "}}]}), id="a blank name"),
        pytest.param(stream(calls({"index": 0, "id": "a", "function": "clock"}), END), id="a function that is a text"),
        pytest.param(stream(chunk({"tool_calls": ["clock"]}), END), id="a call that is a text"),
        pytest.param(stream(calls({"id": ["a"], "function": {"name": "clock"}}), END), id="an id that is a list"),
        pytest.param(stream(calls({"id": "a", "function": {"name": {}}}), END), id="a name that is an object"),
    ],
)
def test_a_call_that_cannot_be_read_is_an_error(body: bytes, way: str) -> None:
    reading = read(body, way)

    assert isinstance(reading.error, ModelProtocolError)
    assert reading.error.code == "malformed"
    assert "tool call" in str(reading.error)


def test_arguments_nested_too_deeply_to_be_written_are_an_error() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"a": nested}

    with pytest.raises(ModelProtocolError, match="nested too deeply"):
        ToolCallAssembly().add(call("clock", nested), [])


@in_every_way
@pytest.mark.fault("U36")
def test_a_character_cut_over_two_fragments_of_arguments_is_joined(way: str) -> None:
    fragment = b'{"index":0,"id":"a","function":{"name":"f","arguments":"%b"}}'
    body = b'data: {"choices":[{"delta":{"tool_calls":[' + fragment + b"]}}]}\n\n"
    first, second = body % rb"{\"t\":\"\ud83d", body % rb"\ude8b\"}"

    assert asked(read(stream(first, second, END), way)) == [("f", '{"t":"🚋"}')]


@pytest.mark.fault("U37")
def test_looking_for_the_end_of_arguments_costs_no_more_than_their_length() -> None:
    pieces = ['{"text": "', *["{}" * 50] * 2000, '"}']
    body = stream(*(calls(call("note", piece, call_id="a")) for piece in pieces), END)

    before = time.process_time()
    assert asked(read(body)) == [("note", "".join(pieces))]
    assert time.process_time() - before < 8, "it takes 0.3 s, and some 40 s if every fragment looks at all before it"
