"""What a request looks like in the dialect of a profile. Each flag changes what it says, and nothing else."""

from __future__ import annotations

import copy
import json
import logging
from typing import Annotated, Any

import pytest

from app.chat import (
    AssistantMessage,
    ChatOptions,
    Message,
    Prompt,
    SystemMessage,
    Tool,
    ToolCall,
    ToolDefinition,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from app.providers.openai.request import RequestWriter
from app.providers.profiles import Profile, profile_for
from app.tooling import ToolCallback, ToolParam, input_schema

ASKED = UserMessage("When does it leave?")


def departures(pier: Annotated[str, ToolParam(description="Where it leaves.")], limit: int = 3) -> str:
    """The next departures."""
    return f"{pier} {limit}"


def clock() -> str:
    """The time."""
    return "8:00"


DEPARTURES, CLOCK = (ToolCallback.from_function(function) for function in (departures, clock))


def handwritten(schema: dict[str, Any]) -> Tool:
    class Handwritten:
        definition = ToolDefinition("search", "Searches.", schema)
        metadata = CLOCK.metadata
        call = CLOCK.call

    return Handwritten()


def sent(profile: Profile, *messages: Message, model: str = "probe", **options: Any) -> dict[str, Any]:
    prompt = Prompt(messages or (ASKED,), ChatOptions(**options))
    body = json.loads(RequestWriter(model, profile).body(prompt, stream=False))
    assert isinstance(body, dict)
    return body


def offered(profile: Profile, tool: Tool) -> dict[str, Any]:
    [offer] = sent(profile, tools=(tool,))["tools"]
    function = offer["function"]
    assert isinstance(function, dict)
    return function


@pytest.mark.fault("L09")
def test_several_system_texts_become_one_in_the_first_place() -> None:
    messages = (SystemMessage("Be brief."), ASKED, SystemMessage("Be kind."), AssistantMessage("At 8."), ASKED)

    assert [(message["role"], message["content"]) for message in sent(Profile(), *messages)["messages"]] == [
        ("system", "Be brief.\n\nBe kind."),
        ("user", ASKED.content),
        ("assistant", "At 8."),
        ("user", ASKED.content),
    ]


def test_several_system_texts_stay_where_they_are_if_the_server_takes_them() -> None:
    messages = (SystemMessage("Be brief."), ASKED, SystemMessage("Be kind."))
    profile = Profile(system_messages="many", system_role="developer")

    written = sent(profile, *messages)["messages"]

    assert [message["role"] for message in written] == ["developer", "user", "developer"]


@pytest.mark.parity(158)
def test_a_strict_tool_has_every_property_required_and_optional_ones_nullable() -> None:
    function = offered(Profile(strict_tools=True), DEPARTURES)

    assert function["strict"] is True
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "pier": {"type": "string", "description": "Where it leaves."},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["pier", "limit"],
        "additionalProperties": False,
    }
    strict = {name: value for name, value in input_schema(departures, strict=True).items() if name != "$schema"}
    assert function["parameters"] == strict


@pytest.mark.parity(158)
@pytest.mark.fault("K08")
def test_strictness_is_the_profiles_alone_and_does_not_stay_on_the_tool() -> None:
    before = copy.deepcopy(dict(DEPARTURES.definition.input_schema))

    loose, strict, again = (offered(Profile(strict_tools=wanted), DEPARTURES) for wanted in (False, True, False))

    assert "strict" not in loose
    assert loose == again != strict
    assert dict(DEPARTURES.definition.input_schema) == before


@pytest.mark.parity(158)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": True, "properties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"filters": {"type": "object"}}},
        {"type": "object", "properties": {"filters": {"type": "object", "additionalProperties": {"type": "string"}}}},
        {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}},
        {"type": "object", "properties": {"box": {"type": "array", "prefixItems": [{"type": "string"}]}}},
        {"type": "object", "properties": {"a": {"type": ["object", "null"]}}},
    ],
)
def test_a_schema_that_cannot_be_strict_is_offered_as_it_is(schema: dict[str, Any]) -> None:
    function = offered(Profile(strict_tools=True), handwritten(schema))

    assert "strict" not in function
    assert function["parameters"] == schema


def test_a_handwritten_schema_is_closed_and_loses_what_strict_servers_refuse() -> None:
    schema = {
        "type": "object",
        "properties": {
            "stop": {"$ref": "#/$defs/Stop", "description": "The stop."},
            "all": {"type": "boolean", "default": False},
        },
        "required": ["stop"],
        "$defs": {"Stop": {"type": "object", "properties": {}}},
    }

    function = offered(Profile(strict_tools=True), handwritten(schema))

    assert function["strict"] is True
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "stop": {"$ref": "#/$defs/Stop"},
            "all": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        },
        "required": ["stop", "all"],
        "additionalProperties": False,
        "$defs": {"Stop": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}},
    }


@pytest.mark.fault("T05")
def test_refused_keywords_are_dropped_where_they_are_keywords_and_nowhere_else() -> None:
    schema = {
        "type": "object",
        "properties": {
            "const": {"const": "tram", "description": "const"},
            "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["const"],
        "additionalProperties": False,
    }

    function = offered(profile_for("https://generativelanguage.googleapis.com/v1beta/openai"), handwritten(schema))

    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "const": {"enum": ["tram"], "description": "const"},
            "additionalProperties": {"type": "object"},
        },
        "required": ["const"],
    }


@pytest.mark.parity(174)
@pytest.mark.parametrize(
    ("form", "choice", "written", "names"),
    [
        ("words", "auto", "auto", ["departures", "clock"]),
        ("words", "required", "required", ["departures", "clock"]),
        ("words", "clock", "required", ["clock"]),
        ("words", "another", "required", ["departures", "clock"]),
        ("words", '{"type": "allowed_tools"}', "required", ["departures", "clock"]),
        ("words", None, None, ["departures", "clock"]),
        ("auto", "none", "none", ["departures", "clock"]),
        ("auto", "auto", None, ["departures", "clock"]),
        ("auto", "required", None, ["departures", "clock"]),
        ("auto", "clock", None, ["departures", "clock"]),
    ],
)
def test_a_tool_choice_is_written_as_the_server_takes_it(
    form: Any, choice: str | None, written: Any, names: list[str]
) -> None:
    body = sent(Profile(tool_choice=form), tools=(DEPARTURES, CLOCK), tool_choice=choice)

    assert body.get("tool_choice") == written
    assert [tool["function"]["name"] for tool in body["tools"]] == names


def test_a_choice_that_is_not_followed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        sent(Profile(tool_choice="auto"), tools=(CLOCK,), tool_choice="clock")

    assert [record.getMessage() for record in caplog.records] == [
        "tool_choice is left to the model, for the server takes no other"
    ]


@pytest.mark.parametrize(("taken", "fields"), [(True, {"parallel_tool_calls"}), (False, set())])
def test_parallel_calls_are_spoken_of_only_where_the_server_knows_of_them(taken: bool, fields: set[str]) -> None:
    body = sent(Profile(parallel_tool_calls=taken), tools=(CLOCK,), parallel_tool_calls=False)

    assert body.keys() & {"parallel_tool_calls"} == fields


def test_options_that_a_model_refuses_are_left_out_and_logged_without_values(caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {"temperature": 0.125, "top_p": 0.5, "stop": ("END",), "seed": 3, "max_tokens": 7}
    with caplog.at_level(logging.INFO):
        body = sent(profile_for("https://api.openai.com/v1"), model="o3-mini", **options)

    assert body == {
        "model": "o3-mini",
        "seed": 3,
        "max_completion_tokens": 7,
        "messages": [{"role": "user", "content": ASKED.content}],
        "stream": False,
    }
    assert [record.getMessage() for record in caplog.records] == [
        "left out of the request, for the model does not take it: stop, temperature, top_p"
    ]


def test_the_requests_model_decides_and_not_the_configured_one() -> None:
    profile = profile_for("https://api.openai.com/v1")
    system = SystemMessage("Be brief.")

    assert sent(profile, system, ASKED, model="o3")["messages"][0]["role"] == "developer"
    body = json.loads(
        RequestWriter("o3", profile).body(Prompt((system, ASKED), ChatOptions(model="gpt-4o", top_p=0.5)), stream=True)
    )
    assert (body["messages"][0]["role"], body["top_p"]) == ("system", 0.5)


def test_the_seed_has_the_name_that_the_profile_gives_it() -> None:
    body = sent(Profile(seed_field="random_seed"), seed=3)

    assert body["random_seed"] == 3
    assert "seed" not in body


def answered(call_id: str, **fields: Any) -> tuple[Message, ...]:
    return (
        ASKED,
        AssistantMessage(tool_calls=(ToolCall(call_id, "clock", **fields),)),
        ToolMessage((ToolResult(call_id, "clock", "8:00"),)),
    )


def test_results_are_text_without_a_name_unless_the_server_wants_them_otherwise() -> None:
    plain = sent(Profile(), *answered("a"))["messages"][-1]
    other = sent(Profile(tool_results="parts", tool_names=True), *answered("a"))["messages"][-1]

    assert plain == {"role": "tool", "tool_call_id": "a", "content": "8:00"}
    assert other == {**plain, "name": "clock", "content": [{"type": "text", "text": "8:00"}]}


@pytest.mark.parametrize(
    ("form", "call_id", "length"),
    [
        ("any", "c" * 60, None),
        ("at_most_40", "call_1", None),
        ("at_most_40", "c" * 41, 40),
        ("exactly_9", "Ab3dEf6hI", None),
        ("exactly_9", "call_1234", 9),
        ("exactly_9", "call\ud83d", 9),
    ],
)
def test_an_id_that_the_server_refuses_is_replaced_in_the_call_and_in_its_result(
    form: Any, call_id: str, length: int | None
) -> None:
    _, asking, answer = sent(Profile(call_ids=form), *answered(call_id))["messages"]

    [call] = asking["tool_calls"]
    assert call["id"] == answer["tool_call_id"]
    if length is None:
        assert call["id"] == call_id
    else:
        assert call["id"] != call_id
        assert call["id"].isascii()
        assert call["id"].isalnum()
        assert len(call["id"]) == length


def test_replaced_ids_of_different_calls_differ() -> None:
    profile = Profile(call_ids="exactly_9")
    ids = {sent(profile, *answered(f"call_{n}"))["messages"][1]["tool_calls"][0]["id"] for n in range(200)}

    assert len(ids) == 200


@pytest.mark.parity(176)
def test_a_server_with_a_closed_schema_is_sent_nothing_that_another_server_added() -> None:
    extra = {"extra_content": {"signature": "s"}, "function": {"hint": 1}}
    thinking = AssistantMessage(
        "", (ToolCall("Ab3dEf6hI", "clock", "{}", extra),), "Hm.", extra={"reasoning_details": [1], "reasoning": "Hm."}
    )
    history = (ASKED, thinking, ToolMessage((ToolResult("Ab3dEf6hI", "clock", "8:00"),)))

    written = sent(profile_for("https://api.mistral.ai/v1"), *history, AssistantMessage(refusal="No."))["messages"]

    assert written[1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "Ab3dEf6hI", "type": "function", "function": {"name": "clock", "arguments": "{}"}}],
    }
    assert written[3] == {"role": "assistant", "content": "No."}


@pytest.mark.fault("M07")
@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ({}, "reasoning_content"),
        ({"reasoning_field": "reasoning"}, "reasoning"),
        ({"reasoning_field": None}, None),
        ({"reasoning_back": "never"}, None),
        ({"think_tags": True}, None),
    ],
)
def test_reasoning_that_a_caller_sends_has_the_name_that_the_profile_gives_it(
    flags: dict[str, Any], field: str | None
) -> None:
    thinking = AssistantMessage("", (ToolCall("a", "clock"),), reasoning="Hm.")

    written = sent(Profile(**flags), ASKED, thinking, ToolMessage((ToolResult("a", "clock", "8:00"),)))["messages"]

    assert {name: written[1][name] for name in written[1] if name.startswith("reasoning")} == (
        {field: "Hm."} if field else {}
    )
