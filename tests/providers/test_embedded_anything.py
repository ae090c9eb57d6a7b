"""The demo model and whatever comes: any message, any schema, any history."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.chat import (
    AssistantMessage,
    ChatResponse,
    Message,
    SystemMessage,
    Tool,
    ToolCall,
    ToolDefinition,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from app.providers.embedded import DemoModel
from tests.support.offering import OfferedTool, answer, talk

WORDS = st.sampled_from(
    """
    What is the weather in Paris and New York ? find user 42 -3.5 1,000 "quoted text" 'a b' 2024-02-30 2024-01-31 at
    12:30 pm 2+2 (3 * 4) sqrt(9) 20% of fetch https://example.com/x bob@example.com A-17 UTC Europe/Oslo with name=Ann
    and limit: 5 not verbose yes {"name": "x"} [1, 2] { [ " red green , . ! count items from to between = :
    """.split()  # noqa: SIM905 - as people write it
)
MESSAGES = st.one_of(st.lists(WORDS, max_size=14).map(" ".join), st.text(max_size=60))
NAMES = st.sampled_from(["name", "city", "count", "verbose", "from", "to", "date", "items", "query", "zone", "a", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)


def _with(keyword: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just({}) | values.map(lambda value: {keyword: value})


def _joined(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda each: {key: value for part in each for key, value in part.items()})


PLAIN = _joined(
    st.sampled_from(["string", "integer", "number", "boolean"]).map(lambda kind: {"type": kind}),
    _with("format", st.sampled_from(["date", "date-time", "time", "email", "uri", "uuid", "duration", "else"])),
    _with("minimum", st.integers(-3, 50)),
    _with("maximum", st.integers(0, 100)),
    _with("multipleOf", st.sampled_from([2, 0.5])),
    _with("minLength", st.integers(0, 30)),
    _with("maxLength", st.integers(0, 10)),
    _with("pattern", st.sampled_from([r"^[A-Z]\w+$", r"\d", "(", r"\p{L}"])),
    _with("description", st.sampled_from(["The city, such as Paris.", "IANA time zone", "How many items", "Text"])),
)
CONFINED = st.lists(JSON, min_size=1, max_size=3).map(lambda values: {"enum": values}) | JSON.map(
    lambda value: {"const": value}
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return _joined(
        st.just({"type": "object"}),
        st.dictionaries(NAMES, inner, max_size=4).map(lambda properties: {"properties": properties}),
        _with("required", st.lists(NAMES, max_size=3)),
        _with("additionalProperties", st.booleans() | inner),
    )


SCHEMAS = st.recursive(
    PLAIN | CONFINED | st.just({}) | st.booleans() | st.just({"$ref": "#"}) | st.just({"$ref": "#/properties/name"}),
    lambda inner: st.one_of(
        _objects(inner),
        _joined(st.just({"type": "array"}), _with("items", inner), _with("minItems", st.integers(0, 3))),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": [*options, {"type": "null"}]}),
        st.lists(inner, min_size=1, max_size=2).map(lambda options: {"oneOf": options}),
        st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"allOf": parts}),
    ),
    max_leaves=8,
)
ANY_TOOL = st.builds(
    lambda name, description, schema: OfferedTool(ToolDefinition(name, description, schema)),
    st.sampled_from(["find_user", "get_weather", "count", "echo", "x", "listItems"]),
    st.sampled_from(["", "Find a user by name.", "Weather in a city.\nMore about it.", "Counts items."]),
    _objects(SCHEMAS),
)
TOOLS = st.lists(ANY_TOOL, max_size=3, unique_by=lambda tool: tool.definition.name)
CHOICES = st.sampled_from([None, "auto", "required", "find_user", "echo", "no_such_tool"])


def _check(response: ChatResponse, tools: list[Tool]) -> None:
    definitions = {tool.definition.name: tool.definition for tool in tools}
    assert response.content or response.tool_calls
    ids = [call.id for call in response.tool_calls]
    assert len(set(ids)) == len(ids)
    for call in response.tool_calls:
        arguments = json.loads(call.arguments, parse_constant=pytest.fail)
        assert _fits(arguments, definitions[call.name].input_schema, definitions[call.name].input_schema)


def _fits(value: Any, schema: Any, root: Any) -> bool:
    """Whether what a schema plainly demands is there; an oracle of its own, for fewer words than the model knows."""
    if not isinstance(schema, dict):
        return schema is not False
    if "$ref" in schema:
        return True
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        there = all(name in value for name in schema.get("required", []))
        return there and all(_fits(each, properties.get(name, {}), root) for name, each in value.items())
    if isinstance(value, int | float) and not isinstance(value, bool) and schema.get("type") in {"integer", "number"}:
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    kinds = {"string": str, "boolean": bool, "array": list}
    return isinstance(value, kinds.get(schema.get("type", ""), object))


@settings(max_examples=60)
@given(message=MESSAGES, tools=TOOLS, tool_choice=CHOICES)
async def test_whatever_is_asked_of_whatever_tools_calls_are_whole_or_not_made(
    message: str, tools: list[Tool], tool_choice: str | None
) -> None:
    prompt = talk(UserMessage(message), tools=tuple(tools), tool_choice=tool_choice)
    response = await DemoModel().call(prompt)
    _check(response, tools)
    assert await answer(DemoModel(), prompt, stream=True) == response


@settings(max_examples=60)
@given(message=MESSAGES, schema=_objects(JSON), tool_choice=CHOICES)
async def test_a_schema_that_is_no_schema_breaks_nothing(message: str, schema: Any, tool_choice: str | None) -> None:
    broken = {**schema, "properties": [schema], "required": "name", "anyOf": schema, "allOf": [schema, 3, None]}
    for each in (schema, broken):
        tool = OfferedTool(ToolDefinition("find_user", "Find a user.", each))
        response = await DemoModel().call(talk(UserMessage(message), tools=(tool,), tool_choice=tool_choice))
        assert response.content or response.tool_calls


@settings(max_examples=60)
@given(message=MESSAGES, schema=SCHEMAS, result=st.text(max_size=20) | JSON.map(json.dumps))
async def test_whatever_format_is_wanted_the_answer_is_json(message: str, schema: Any, result: str) -> None:
    results = ToolMessage((ToolResult("call_1", "find_user", result),))
    for form in ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}):
        response = await DemoModel().call(talk(UserMessage(message), results, response_format=form))
        json.loads(response.content, parse_constant=pytest.fail)


CALLS = st.builds(ToolCall, st.sampled_from(["call_1", "call_2", "x"]), st.just("find_user"), st.text(max_size=9))
HISTORIES = st.lists(
    st.one_of(
        st.builds(SystemMessage, MESSAGES),
        st.builds(UserMessage, MESSAGES),
        st.builds(AssistantMessage, MESSAGES, st.lists(CALLS, max_size=2).map(tuple)),
        st.builds(
            ToolMessage,
            st.lists(
                st.builds(
                    ToolResult, st.just("call_1"), st.just("find_user"), MESSAGES | JSON.map(json.dumps), st.booleans()
                ),
                max_size=2,
            ).map(tuple),
        ),
    ),
    max_size=5,
).map(tuple)


@settings(max_examples=60)
@given(history=HISTORIES, tools=TOOLS)
@example(history=(), tools=[])
async def test_whatever_was_said_before_there_is_an_answer(history: tuple[Message, ...], tools: list[Tool]) -> None:
    response = await DemoModel().call(talk(*history, tools=tuple(tools)))
    _check(response, tools)
    used = {call.id for message in history if isinstance(message, AssistantMessage) for call in message.tool_calls}
    assert not used & {call.id for call in response.tool_calls}
