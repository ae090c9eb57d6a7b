"""What a model server is sent. Every body is one that servers take."""

from __future__ import annotations

import json
import logging
import sys
from types import MappingProxyType
from typing import Any

import pytest

from app.chat import (
    AssistantMessage,
    ChatOptions,
    Message,
    ModelRejected,
    Prompt,
    SystemMessage,
    ToolCall,
    ToolDefinition,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from app.providers.openai.request import RequestWriter
from app.providers.profiles import Profile
from app.tooling import ToolCallback

TALK = (UserMessage("When does it leave?"),)


def clock(zone: str) -> str:
    """The time in a zone."""
    return zone


TOOL = ToolCallback.from_function(clock)


def sent(prompt: Prompt, profile: Profile | None = None, *, stream: bool = True) -> dict[str, Any]:
    body = json.loads(RequestWriter("probe", profile or Profile()).body(prompt, stream=stream))
    assert isinstance(body, dict)
    return body


def sent_messages(*messages: Message, profile: Profile | None = None) -> list[dict[str, Any]]:
    messages_sent = sent(Prompt(messages), profile)["messages"]
    assert isinstance(messages_sent, list)
    return messages_sent


def asking(*calls: ToolCall, content: str = "", **fields: Any) -> AssistantMessage:
    return AssistantMessage(content, calls, **fields)


def test_a_plain_question_is_sent_with_nothing_that_was_not_said() -> None:
    assert sent(Prompt(TALK), stream=False) == {
        "model": "probe",
        "messages": [{"role": "user", "content": "When does it leave?"}],
        "stream": False,
    }


@pytest.mark.fault("E08")
@pytest.mark.parametrize(("asked", "options"), [(True, {"include_usage": True}), (False, None)])
def test_a_stream_is_asked_for_its_usage_unless_the_server_refuses_that(asked: bool, options: Any) -> None:
    body = sent(Prompt(TALK), Profile(stream_usage=asked))

    assert (body["stream"], body.get("stream_options")) == (True, options)


@pytest.mark.parametrize(("asked", "options"), [(True, {"include_usage": True}), (False, None)])
def test_how_a_stream_is_asked_for_its_usage_is_no_option(asked: bool, options: Any) -> None:
    extra = {"stream_options": {"include_usage": True, "include_obfuscation": False}}
    body = sent(Prompt(TALK, ChatOptions(extra=extra)), Profile(stream_usage=asked))

    assert body.get("stream_options") == options


def test_all_options_are_sent_under_their_names() -> None:
    options = ChatOptions(
        model="other",
        temperature=0.0,
        top_p=0.5,
        max_tokens=7,
        stop=("END", "\n"),
        seed=3,
        tool_choice="auto",
        parallel_tool_calls=False,
        response_format={"type": "json_object"},
        timeout=2.0,
        tools=(TOOL,),
        tool_context={"user": "never sent"},
    )

    body = sent(Prompt(TALK, options), stream=False)

    [tool] = body.pop("tools")
    assert tool["type"] == "function"
    assert (tool["function"]["name"], tool["function"]["description"]) == ("clock", "The time in a zone.")
    assert tool["function"]["parameters"]["properties"]["zone"]["type"] == "string"
    del body["messages"]
    assert body == {
        "model": "other",
        "temperature": 0.0,
        "top_p": 0.5,
        "max_tokens": 7,
        "stop": ["END", "\n"],
        "seed": 3,
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
        "stream": False,
    }


def test_the_limit_of_tokens_has_the_name_that_the_profile_gives_it() -> None:
    body = sent(Prompt(TALK, ChatOptions(max_tokens=7)), Profile(max_tokens_field="max_completion_tokens"))

    assert body["max_completion_tokens"] == 7
    assert "max_tokens" not in body


def test_extra_fields_win_over_options_but_not_over_what_was_asked() -> None:
    extra: dict[str, Any] = {"top_k": 4, "temperature": 1.0, "seed": None, "messages": [], "stream": False}

    body = sent(Prompt(TALK, ChatOptions(temperature=0.0, seed=5, extra=extra)))

    assert (body["top_k"], body["temperature"], body["stream"]) == (4, 1.0, True)
    assert body["messages"] == [{"role": "user", "content": "When does it leave?"}]
    assert "seed" not in body


@pytest.mark.parity(174)
@pytest.mark.parametrize(
    ("choice", "written"),
    [
        (None, None),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("clock", {"type": "function", "function": {"name": "clock"}}),
        (
            '{"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}',
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}},
        ),
    ],
)
def test_every_form_of_tool_choice_is_written_rightly(choice: str | None, written: Any) -> None:
    assert sent(Prompt(TALK, ChatOptions(tools=(TOOL,), tool_choice=choice))).get("tool_choice") == written


@pytest.mark.parity(174)
def test_a_tool_choice_that_is_broken_json_is_an_error() -> None:
    with pytest.raises(ModelRejected, match="tool_choice is neither a tool's name nor JSON"):
        sent(Prompt(TALK, ChatOptions(tools=(TOOL,), tool_choice="{clock")))


def test_a_schema_goes_out_without_the_name_of_its_dialect_which_some_servers_refuse() -> None:
    told = dict(TOOL.definition.input_schema)

    [tool] = sent(Prompt(TALK, ChatOptions(tools=(TOOL,))))["tools"]

    assert told.pop("$schema") == "https://json-schema.org/draft/2020-12/schema"
    assert tool["function"]["parameters"] == told


@pytest.mark.parametrize("tools", [None, ()])
def test_without_tools_nothing_is_said_of_them(tools: Any) -> None:
    body = sent(Prompt(TALK, ChatOptions(tools=tools, tool_choice="required", parallel_tool_calls=True)))

    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


@pytest.mark.parity(62)
def test_exactly_the_requests_tools_are_offered_in_their_order() -> None:
    class Fixed:
        definition = ToolDefinition("tram", "Lines.", {"type": "object", "properties": {}})
        metadata = TOOL.metadata
        call = TOOL.call

    body = sent(Prompt(TALK, ChatOptions(tools=(Fixed(), TOOL))))

    assert [tool["function"]["name"] for tool in body["tools"]] == ["tram", "clock"]


def test_read_only_mappings_are_written_as_objects() -> None:
    schema = MappingProxyType({"type": "json_object"})

    assert sent(Prompt(TALK, ChatOptions(response_format=schema)))["response_format"] == {"type": "json_object"}


def test_options_that_are_no_json_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(ModelRejected, match="cannot be written as JSON") as caught:
        sent(Prompt(TALK, ChatOptions(extra={"when": object()})))
    assert caught.value.code == "invalid_options"


def test_a_turn_with_tools_is_sent_in_its_order_with_one_message_a_result() -> None:
    assert sent_messages(
        SystemMessage("Be brief."),
        UserMessage("Time in Oslo and Lima?"),
        asking(ToolCall("a", "clock", '{"zone": "Oslo"}'), ToolCall("b", "clock", '{"zone": "Lima"}')),
        ToolMessage((ToolResult("a", "clock", "8:00"), ToolResult("b", "clock", "no such zone", is_error=True))),
        AssistantMessage("8:00 in Oslo."),
    ) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Time in Oslo and Lima?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "clock", "arguments": '{"zone": "Oslo"}'}},
                {"id": "b", "type": "function", "function": {"name": "clock", "arguments": '{"zone": "Lima"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "8:00"},
        {"role": "tool", "tool_call_id": "b", "content": "no such zone"},
        {"role": "assistant", "content": "8:00 in Oslo."},
    ]  # fmt: skip


@pytest.mark.fault("M06")
@pytest.mark.parametrize(
    ("written", "content"), [("null", {"content": None}), ("empty", {"content": ""}), ("omit", {})]
)
def test_a_message_of_calls_only_has_the_content_that_the_profile_says(written: Any, content: Any) -> None:
    [message] = sent_messages(asking(ToolCall("a", "clock")), profile=Profile(empty_content=written))

    assert {name: message[name] for name in message if name == "content"} == content


@pytest.mark.fault("M06")
@pytest.mark.parametrize("written", ["null", "empty", "omit"])
def test_content_is_never_dropped_where_there_is_some_or_where_nothing_else_is(written: Any) -> None:
    talking, silent = sent_messages(
        asking(ToolCall("a", "clock"), content="One moment."), asking(), profile=Profile(empty_content=written)
    )

    assert (talking["content"], silent["content"]) == ("One moment.", "")


def test_a_refusal_is_sent_back_as_one() -> None:
    assert sent_messages(AssistantMessage(refusal="I will not.")) == [
        {"role": "assistant", "content": "", "refusal": "I will not."}
    ]


@pytest.mark.fault("M04")
@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ("", "{}"),
        (" \n", "{}"),
        ("{}", "{}"),
        ('{ "zone" : "Oslo" }', '{ "zone" : "Oslo" }'),
        ('"{\\"zone\\": 1}"', '{"zone": 1}'),
        ('{"zone": "Os', '{"invalid_arguments":"{\\"zone\\": \\"Os"}'),
        ("null", '{"invalid_arguments":"null"}'),
        ('"\\"{}\\""', '{"invalid_arguments":"\\"\\\\\\"{}\\\\\\"\\""}'),
        ("[1]", '{"invalid_arguments":"[1]"}'),
        ('{"x": NaN}', '{"invalid_arguments":"{\\"x\\": NaN}"}'),
        ('{"x": "a\nb"}', '{"invalid_arguments":"{\\"x\\": \\"a\\nb\\"}"}'),
        ("[" * 100_000, None),
    ],
)
def test_arguments_are_sent_back_as_a_json_object_whatever_the_model_wrote(arguments: str, written: str | None) -> None:
    [message] = sent_messages(asking(ToolCall("a", "clock", arguments)))

    text = message["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(text), dict)
    if written is not None:
        assert text == written


def test_wrapping_arguments_is_logged_without_them(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        sent_messages(asking(ToolCall("call_7", "clock", "secret place")))

    [record] = caplog.records
    assert "call_7" in record.getMessage()
    assert "secret" not in record.getMessage()


@pytest.mark.parity(176)
def test_fields_of_a_call_that_are_not_ours_are_sent_back_where_they_came_from() -> None:
    extra = {"extra_content": {"signature": "s1"}, "function": {"hint": 1}, "type": "odd", "id": "other"}

    [message] = sent_messages(asking(ToolCall("a", "clock", "{}", extra)))

    assert message["tool_calls"] == [
        {
            "extra_content": {"signature": "s1"},
            "id": "a",
            "type": "function",
            "function": {"hint": 1, "name": "clock", "arguments": "{}"},
        }
    ]


@pytest.mark.parity(175)
@pytest.mark.fault("M07")
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize(
    ("back", "earlier", "now"), [("turn", False, True), ("always", True, True), ("never", False, False)]
)
def test_reasoning_is_sent_back_as_it_came_where_the_profile_says_so(
    back: Any, earlier: bool, now: bool, field: str
) -> None:
    thinking = asking(ToolCall("a", "clock"), reasoning="Hm.", extra={field: "Hm.", "reasoning_details": [1]})
    results = ToolMessage((ToolResult("a", "clock", "8:00"),))

    written = sent_messages(
        UserMessage("One?"), thinking, results, UserMessage("Two?"), thinking, results,
        profile=Profile(reasoning_back=back),
    )  # fmt: skip

    assert [message.get(field) for message in written if message["role"] == "assistant"] == [
        "Hm." if earlier else None,
        "Hm." if now else None,
    ]
    assert all(message["reasoning_details"] == [1] for message in written if message["role"] == "assistant")
    other = {"reasoning_content", "reasoning"} - {field}
    assert not any(other & message.keys() for message in written)


@pytest.mark.fault("U36")
def test_text_of_any_kind_is_sent_as_utf_8() -> None:
    body = RequestWriter("probe", Profile()).body(Prompt.of("東京 🚋 \u2028 \ud83d"), stream=True)

    assert json.loads(body.decode("utf-8"))["messages"][0]["content"] == "東京 🚋 \u2028 ?"


def test_a_model_without_a_name_is_left_to_the_server() -> None:
    assert "model" not in json.loads(RequestWriter(None, Profile()).body(Prompt(TALK), stream=True))


@pytest.mark.fault("K08")
def test_a_prompt_is_not_changed_by_being_sent() -> None:
    call = ToolCall("a", "clock", "", {"x": {"y": 1}, "function": {"z": 1}})
    prompt = Prompt((asking(call, extra={"reasoning": "Hm."}),), ChatOptions(tools=(TOOL,), extra={"top_k": 1}))
    before = repr(prompt)

    assert sent(prompt) == sent(prompt)
    assert repr(prompt) == before


def test_a_long_name_of_a_model_is_not_kept() -> None:
    writer = RequestWriter(None, Profile())
    name = "m" * 100_000
    known = sys.getrefcount(name)

    body = writer.body(Prompt(TALK, ChatOptions(model=name)), stream=False)

    assert json.loads(body)["model"] == name
    assert sys.getrefcount(name) == known
