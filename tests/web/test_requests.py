"""What a body asks for reaches the model as it was meant, by both endpoints; what cannot be meant is a 422."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat import (
    AssistantMessage,
    ChatOptions,
    Prompt,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from app.providers.scripted import ScriptedModel
from tests.support.modes import both_modes
from tests.support.tools import echo
from tests.support.web import ask, gateway


async def prompt_of(*, stream: bool, settings: dict[str, Any] | None = None, **body: Any) -> Prompt:
    """What the model is asked for a body."""
    model = ScriptedModel("Hi")
    tools = [echo("first"), echo("second"), echo("hidden", default=False)]
    async with gateway(model, tools, settings=settings) as client:
        reply = await ask(client, None, stream=stream, **body)
    assert reply.status == 200, reply.document
    return model.prompts[0]


async def refusals(*, stream: bool = False, settings: dict[str, Any] | None = None, **body: Any) -> dict[str, str]:
    """What is said of a body that is refused, by the place in it; the model is not asked."""
    model = ScriptedModel()
    tools = [echo("first"), echo("hidden", default=False)]
    async with gateway(model, tools, settings=settings) as client:
        reply = await ask(client, None, stream=stream, **body)
    assert reply.status == 422, reply.document
    assert reply.document["type"] == "urn:advisor-gateway:body-invalid"
    assert not model.prompts
    return {".".join(map(str, error["loc"])): error["message"] for error in reply.document["errors"]}


def user(content: str = "Hello") -> dict[str, Any]:
    """A user's message."""
    return {"role": "user", "content": content}


def asking(*ids: str) -> dict[str, Any]:
    """An assistant's message that asks for calls."""
    return {"role": "assistant", "tool_calls": [{"id": id_, "name": "first", "arguments": "{}"} for id_ in ids]}


def result(id_: str, content: str = "done") -> dict[str, Any]:
    """A tool's message."""
    return {"role": "tool", "tool_call_id": id_, "content": content}


# --- messages


@both_modes
async def test_a_message_is_the_users_and_the_system_text_goes_before_it(*, stream: bool) -> None:
    prompt = await prompt_of(stream=stream, message="Hello", system="Be brief.")

    assert prompt.messages == (SystemMessage("Be brief."), UserMessage("Hello"))


@both_modes
async def test_the_requests_system_text_stands_in_for_the_configured_one(*, stream: bool) -> None:
    configured = {"model": {"system": "Be long."}}

    assert (await prompt_of(stream=stream, settings=configured, message="Hello", system="Be brief.")).messages == (
        SystemMessage("Be brief."),
        UserMessage("Hello"),
    )
    assert (await prompt_of(stream=stream, settings=configured, message="Hello", system=" ")).messages == (
        SystemMessage("Be long."),
        UserMessage("Hello"),
    )


@both_modes
@pytest.mark.parametrize("form", ["flat", "nested"])
async def test_a_history_with_calls_is_understood_in_both_forms_of_a_call(form: str, *, stream: bool) -> None:
    calls = {
        "flat": [{"id": "a", "name": "first", "arguments": '{"n": 1}'}, {"id": "b", "name": "second", "arguments": ""}],
        "nested": [
            {"id": "a", "type": "function", "function": {"name": "first", "arguments": '{"n": 1}'}},
            {"id": "b", "function": {"name": "second", "arguments": ""}},
        ],
    }
    prompt = await prompt_of(
        stream=stream,
        messages=[
            {"role": "system", "content": "Be brief."},
            user("Do it."),
            {"role": "assistant", "content": None, "tool_calls": calls[form], "reasoning": "Hm.", "refusal": None},
            result("b", "two"),
            result("a", "one"),
            {"role": "assistant", "content": "Done.", "tool_calls": None},
            user("Again."),
        ],
    )

    assert prompt.messages == (
        SystemMessage("Be brief."),
        UserMessage("Do it."),
        AssistantMessage("", (ToolCall("a", "first", '{"n": 1}'), ToolCall("b", "second", "{}")), "Hm."),
        ToolMessage((ToolResult("a", "first", "one"), ToolResult("b", "second", "two"))),
        AssistantMessage("Done."),
        UserMessage("Again."),
    )


@both_modes
async def test_a_history_may_end_with_the_results_of_tools(*, stream: bool) -> None:
    prompt = await prompt_of(stream=stream, messages=[user(), asking("a"), result("a", "")])

    assert prompt.messages[-1] == ToolMessage((ToolResult("a", "first", ""),))


@both_modes
async def test_the_same_id_may_come_back_in_a_later_round(*, stream: bool) -> None:
    messages = [user(), asking("call_1"), result("call_1"), asking("call_1"), result("call_1")]

    assert len((await prompt_of(stream=stream, messages=messages)).messages) == 5


@pytest.mark.fault("M09")
@both_modes
@pytest.mark.parametrize("blank", ["", "  ", "\n\t", "\u2003"])
async def test_a_message_without_text_is_refused(blank: str, *, stream: bool) -> None:
    assert await refusals(stream=stream, message=blank) == {"message": "must not be blank"}
    assert await refusals(stream=stream, messages=[user(blank)]) == {"messages.0.content": "must not be blank"}


@pytest.mark.parametrize(
    "body",
    [{}, {"message": None}, {"message": "Hi", "messages": [user()]}, {"message": None, "messages": None}],
    ids=["none", "null", "both", "two nulls"],
)
async def test_message_and_messages_are_one_or_the_other(body: dict[str, Any]) -> None:
    assert await refusals(**body) == {"": "needs exactly one of 'message' and 'messages'"}


@pytest.mark.parametrize(
    ("messages", "place", "said"),
    [
        ([], "messages", "must have at least 1 item, not 0"),
        ([{"role": "system", "content": "Be brief."}], "messages.0.role", "must be the user's or a tool's"),
        ([user(), {"role": "assistant", "content": "Hi"}], "messages.1.role", "must be the user's or a tool's"),
        ([user(), asking("a")], "messages.1.tool_calls", "'a'"),
        ([user(), asking("a", "b"), result("a"), user()], "messages.1.tool_calls", "'b'"),
        ([user(), asking("a", "b"), result("a"), user(), result("b")], "messages.1.tool_calls", "'b'"),
        ([user(), asking("a", "a"), result("a")], "messages.1.tool_calls", "the same id"),
        ([user(), result("a")], "messages.1.tool_call_id", "'a'"),
        ([result("a")], "messages.0.tool_call_id", "'a'"),
        ([user(), asking("a"), result("b")], "messages.2.tool_call_id", "'b'"),
        ([user(), asking("a"), result("a"), result("a")], "messages.3.tool_call_id", "'a'"),
        ([user(), asking("a", "b"), result("a"), result("a")], "messages.3.tool_call_id", "answered already"),
        ([user(), asking("a"), result("a"), user(), result("a")], "messages.4.tool_call_id", "'a'"),
    ],
)
async def test_a_history_that_is_not_whole_is_refused_with_the_message_at_fault(
    messages: list[dict[str, Any]], place: str, said: str
) -> None:
    told = await refusals(messages=messages)

    assert list(told) == [place]
    assert said in told[place]


# --- tools


def offered(prompt: Prompt) -> list[str]:
    """The names of the tools a model was offered."""
    return [tool.definition.name for tool in prompt.options.tools or ()]


@pytest.mark.parity(48, 62, 98)
@both_modes
@pytest.mark.parametrize(
    ("tools", "names"),
    [
        (None, ["first", "second"]),
        ([], []),
        (["second"], ["second"]),
        (["hidden", "first"], ["hidden", "first"]),
        (["first", "first"], ["first"]),
    ],
)
async def test_a_list_of_tools_replaces_the_defaults(
    tools: list[str] | None, names: list[str], *, stream: bool
) -> None:
    assert offered(await prompt_of(stream=stream, message="Hello", tools=tools)) == names


@both_modes
async def test_a_tool_that_there_is_not_is_refused_with_the_names_of_those_there_are(*, stream: bool) -> None:
    said = await refusals(stream=stream, message="Hello", tools=["first", "frist"])

    assert said == {"tools": "unknown tool 'frist'; there are: first, hidden"}


@pytest.mark.parity(61, 100)
@both_modes
async def test_tool_context_goes_over_the_configured_one(*, stream: bool) -> None:
    prompt = await prompt_of(
        stream=stream,
        settings={"tools": {"context": {"tenant": "ours", "region": "north"}}},
        message="Hello",
        tool_context={"tenant": "theirs", "user": {"id": 7}},
    )

    assert prompt.options.tool_context == {"tenant": "theirs", "region": "north", "user": {"id": 7}}


@pytest.mark.parity(57)
@pytest.mark.parametrize("context", [{"": 1}, {" ": 1}, {"user": None}, [], "user"])
async def test_tool_context_holds_neither_blank_keys_nor_null(context: Any) -> None:
    assert list(await refusals(message="Hello", tool_context=context)) == ["tool_context"]


async def test_tool_calling_that_the_operator_switched_off_cannot_be_switched_on() -> None:
    off = {"tool_calling": {"auto_register": False}}

    assert "operator" in (await refusals(settings=off, message="Hello", tool_calling=True))["tool_calling"]
    await prompt_of(stream=False, settings=off, message="Hello", tool_calling=False)
    await prompt_of(stream=False, message="Hello", tool_calling=True)


# --- options


@both_modes
async def test_every_option_reaches_the_model(*, stream: bool) -> None:
    schema = {"name": "city", "schema": {"type": "object", "properties": {"n": {"enum": [1]}}}, "strict": True}
    prompt = await prompt_of(
        stream=stream,
        message="Hello",
        model="scripted",
        tools=["first"],
        options={
            "temperature": 0,
            "top_p": 0.5,
            "max_tokens": 100,
            "stop": ["END", "STOP"],
            "seed": -7,
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "response_format": {"type": "json_schema", "json_schema": schema},
        },
    )

    (tool,) = prompt.options.tools or ()
    assert prompt.options == ChatOptions(
        model="scripted",
        temperature=0,
        top_p=0.5,
        max_tokens=100,
        stop=("END", "STOP"),
        seed=-7,
        tool_choice="required",
        parallel_tool_calls=False,
        response_format={"type": "json_schema", "json_schema": schema},
        tools=(tool,),
        tool_context=prompt.options.tool_context,
    )


@pytest.mark.parametrize("options", [None, {}, {"temperature": None, "stop": None, "response_format": None}])
async def test_an_option_that_is_null_is_not_said(options: dict[str, Any] | None) -> None:
    prompt = await prompt_of(stream=False, message="Hello", options=options)

    assert (prompt.options.temperature, prompt.options.stop, prompt.options.response_format) == (None, None, None)


async def test_a_single_stop_text_is_a_list_of_one() -> None:
    assert (await prompt_of(stream=False, message="Hello", options={"stop": "END"})).options.stop == ("END",)


@pytest.mark.parametrize(
    ("choice", "meant"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("second", "second"),
        ({"type": "function", "function": {"name": "second"}}, "second"),
        (None, None),
    ],
)
async def test_a_choice_of_tool_is_a_word_or_a_name_in_either_form(choice: Any, meant: str | None) -> None:
    prompt = await prompt_of(stream=False, message="Hello", options={"tool_choice": choice})

    assert prompt.options.tool_choice == meant


@pytest.mark.parametrize(
    ("choice", "tools"), [("hidden", None), ("third", None), ("first", []), ("required", []), ("first", ["hidden"])]
)
async def test_a_tool_that_must_be_called_must_be_offered(choice: str, tools: list[str] | None) -> None:
    said = await refusals(message="Hello", tools=tools, options={"tool_choice": choice})

    assert list(said) == ["options.tool_choice"]
    assert f"{choice!r} needs a tool that is offered" in said["options.tool_choice"]


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -0.1},
        {"temperature": 2.1},
        {"temperature": True},
        {"top_p": 1.1},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"max_tokens": 2**31},
        {"stop": []},
        {"stop": 3},
        {"seed": 2**63},
        {"seed": "7"},
        {"tool_choice": ""},
        {"tool_choice": {"function": {}}},
        {"parallel_tool_calls": "yes"},
        {"response_format": {"type": "xml"}},
        {"response_format": "json_object"},
        {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "has space"}}},
    ],
    ids=str,
)
async def test_an_option_out_of_its_range_is_refused(options: dict[str, Any]) -> None:
    (name,) = options
    assert any(place.startswith(f"options.{name}") for place in await refusals(message="Hello", options=options))


async def test_a_model_that_is_not_known_is_refused_with_the_one_that_is() -> None:
    assert await refusals(message="Hello", model="gpt-9") == {"model": "unknown model 'gpt-9'; known: 'scripted'"}


# --- conversation ids


@pytest.mark.parity(194)
@pytest.mark.fault("S03")
@pytest.mark.parametrize("id_", ["", " ", " a", "a\nevent: done", "a\x00", "\x1b[0m", "a\x85", "x" * 201, 7], ids=repr)
async def test_a_conversation_id_is_short_and_holds_no_control_characters(id_: Any) -> None:
    assert list(await refusals(message="Hello", conversation_id=id_)) == ["conversation_id"]


@pytest.mark.parametrize("id_", ["a", "x" * 200, "Zoë's chat, 3/4", "会話", None], ids=repr)
async def test_a_sane_conversation_id_comes_back_in_the_answer(id_: str | None) -> None:
    async with gateway(ScriptedModel("Hi")) as client:
        assert (await ask(client, stream=False, conversation_id=id_)).document["conversation_id"] == id_
