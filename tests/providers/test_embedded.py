"""The demo model as a model: what it answers, asks for and heeds, in both modes."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from app.chat import (
    AssistantMessage,
    ChatOptions,
    FinishReason,
    Message,
    Prompt,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolCallArguments,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from app.providers.embedded import DemoModel
from tests.support.modes import both_modes
from tests.support.offering import answer, asked, number, offered, several, talk, text, whole

get_weather = offered("get_weather", "Current weather in a city. Slow.", {"city": text("Name of the city")})
add = offered("add", "Add two numbers.", {"a": whole(), "b": whole()})
ping = offered("ping")
TOOLS = (get_weather, add, ping)
PARIS = ("get_weather", {"city": "Paris"})
OSLO = ("get_weather", {"city": "Oslo"})


def turn(message: str, *results: tuple[str, str, str], errors: frozenset[str] = frozenset()) -> tuple[Message, ...]:
    """A turn in which calls were answered: name, arguments and result of each."""
    ids = [f"call_{number}" for number in range(1, len(results) + 1)]
    calls = [ToolCall(each, name, arguments) for each, (name, arguments, _) in zip(ids, results, strict=True)]
    given = [
        ToolResult(each, name, result, each in errors) for each, (name, _, result) in zip(ids, results, strict=True)
    ]
    return UserMessage(message), AssistantMessage("", tuple(calls)), ToolMessage(tuple(given))


async def say(*results: tuple[str, str, str], **more: Any) -> str:
    """What the model makes of results."""
    return (await DemoModel().call(talk(*turn("hello", *results, **more), tools=TOOLS))).content


@both_modes
async def test_a_call_is_asked_for_by_its_words(stream: bool) -> None:
    response = await answer(DemoModel(), Prompt.of("What's the weather in Paris?", tools=TOOLS), stream=stream)

    assert asked(response) == [PARIS]
    assert response.finish_reason is FinishReason.TOOL_CALLS
    assert (response.content, response.model, DemoModel.name) == ("", "demo", "demo")


@both_modes
async def test_several_calls_are_asked_for_at_once(stream: bool) -> None:
    prompt = Prompt.of("What's the weather in Paris and Oslo, and what is 2 + 3?", tools=TOOLS)

    response = await answer(DemoModel(), prompt, stream=stream)

    assert asked(response) == [PARIS, OSLO, ("add", {"a": 2, "b": 3})]
    assert [call.id for call in response.tool_calls] == ["call_1", "call_2", "call_3"]


@both_modes
async def test_results_become_the_answer_and_nothing_is_asked_again(stream: bool) -> None:
    history = turn("What's the weather in Paris?", ("get_weather", '{"city": "Paris"}', "It is raining in Paris."))

    response = await answer(DemoModel(), talk(*history, tools=TOOLS), stream=stream)

    assert response.content == "It is raining in Paris."
    assert response.finish_reason is FinishReason.STOP
    assert response.tool_calls == ()


@both_modes
async def test_one_call_at_a_time_where_the_request_wants_it(stream: bool) -> None:
    model, rounds = DemoModel(), []
    history: list[Message] = [UserMessage("What's the weather in Paris and Oslo?")]
    for _ in range(3):
        response = await answer(model, talk(*history, tools=TOOLS, parallel_tool_calls=False), stream=stream)
        rounds.append(asked(response))
        results = tuple(ToolResult(call.id, call.name, "Sunny.") for call in response.tool_calls)
        history += [response.message, ToolMessage(results)]

    assert rounds == [[PARIS], [OSLO], []]


@both_modes
@pytest.mark.parametrize("message", ["hello", "Hello!", "What can you do?"])
async def test_where_no_tool_fits_it_says_what_it_is_and_what_to_do(message: str, stream: bool) -> None:
    response = await answer(DemoModel(), Prompt.of(message, tools=TOOLS), stream=stream)

    assert response.content.startswith("Hello! ") is message.lower().startswith("hello")
    for part in (
        "demo model",
        "no intelligence",
        "`get_weather`: Current weather in a city.\n",
        "`ping`\n",
        "GATEWAY_MODEL__BASE_URL",
        "GATEWAY_MODEL__NAME",
        "GATEWAY_MODEL__API_KEY",
    ):
        assert part in response.content
    assert "Slow" not in response.content


async def test_of_very_many_tools_the_first_are_named() -> None:
    response = await DemoModel().call(Prompt.of("hello", tools=tuple(offered(f"tool_{each}") for each in range(25))))

    assert "- `tool_19`\n- and 5 more" in response.content


@both_modes
async def test_without_tools_it_says_so(stream: bool) -> None:
    for tools in (None, ()):
        response = await answer(DemoModel(), Prompt.of("What's the weather in Paris?", tools=tools), stream=stream)
        assert "offers me no tools" in response.content


@both_modes
async def test_a_missing_argument_is_named_and_not_made_up(stream: bool) -> None:
    response = await answer(DemoModel(), Prompt.of("What's the weather?", tools=TOOLS), stream=stream)

    assert response.content == "I would call `get_weather`, but the message does not say `city`."
    assert response.tool_calls == ()


async def test_what_can_be_called_is_called_and_the_answer_names_the_rest() -> None:
    model, message = DemoModel(), "What's 2 + 3 and what's the weather?"

    assert asked(await model.call(Prompt.of(message, tools=TOOLS))) == [("add", {"a": 2, "b": 3})]
    response = await model.call(talk(*turn(message, ("add", '{"a": 2, "b": 3}', "5")), tools=TOOLS))

    assert response.content == "`add` gives 5.\nI would call `get_weather`, but the message does not say `city`."


@both_modes
async def test_no_tool_is_called_where_the_request_forbids_it(stream: bool) -> None:
    prompt = Prompt.of("What's the weather in Paris?", tools=TOOLS, tool_choice="none")

    response = await answer(DemoModel(), prompt, stream=stream)

    assert response.tool_calls == ()
    assert "forbids" in response.content


@both_modes
@pytest.mark.parametrize(
    ("tool_choice", "message", "name"),
    [
        ("required", "hello", "get_weather"),
        ("required", "ping", "ping"),
        ("required", "What's the weather in Oslo?", "get_weather"),
        ("add", "hello", "add"),
        ("add", "What's the weather in Oslo?", "add"),
    ],
)
async def test_a_forced_call_is_made_whatever_the_message_says(
    tool_choice: str, message: str, name: str, stream: bool
) -> None:
    response = await answer(DemoModel(), Prompt.of(message, tools=TOOLS, tool_choice=tool_choice), stream=stream)

    assert [call.name for call in response.tool_calls] == [name]


async def test_a_forced_call_takes_from_the_message_what_is_there() -> None:
    response = await DemoModel().call(Prompt.of("hello to 7 of you", tools=TOOLS, tool_choice="add"))

    assert asked(response) == [("add", {"a": 7, "b": 1})]


async def test_a_call_is_required_of_the_first_tool_for_which_it_can_be_made() -> None:
    impossible = offered("impossible", "", {"x": False})

    response = await DemoModel().call(Prompt.of("hello", tools=(impossible, ping), tool_choice="required"))

    assert asked(response) == [("ping", {})]


async def test_a_forced_tool_that_is_not_offered_is_not_called() -> None:
    response = await DemoModel().call(Prompt.of("ping", tools=TOOLS, tool_choice="no_such_tool"))

    assert response.tool_calls == ()


@both_modes
async def test_a_forced_call_is_made_once_in_a_turn(stream: bool) -> None:
    history = turn("hello", ("add", '{"a": 1, "b": 1}', "2"))

    response = await answer(DemoModel(), talk(*history, tools=TOOLS, tool_choice="add"), stream=stream)

    assert response.content == "`add` gives 2."


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("5", "`add` gives 5."),
        ("2.50", "`add` gives 2.5."),
        ("17.0", "`add` gives 17."),
        ("true", "`add` gives yes."),
        ("2024-03-01", "`add` gives 2024-03-01."),
        ('"quoted text"', "quoted text"),
        ("Done", "`add` is done."),
        ("null", "`add` found nothing."),
        ("  ", "`add` found nothing."),
        ("[]", "`add` says: nothing"),
        ("[1, 2, 3]", "`add` says: 1, 2, 3"),
        (
            '{"city": "Paris", "wind_kmh": 14.0, "wet": false, "gusts": null}',
            "`add` says: city: Paris, wind kmh: 14, wet: no, gusts: nothing",
        ),
        (
            '[{"id": 1, "tags": ["a", "b"]}, {"id": 2, "tags": []}]',
            "`add` says:\n- id: 1, tags: a, b\n- id: 2, tags: nothing",
        ),
        (
            '{"total": 1, "found": [{"id": 7, "by": {"name": "Ann"}}]}',
            "`add` says:\n- total: 1\n- found:\n  - id: 7, by: name: Ann",
        ),
    ],
)
async def test_a_result_is_told_in_words(result: str, said: str) -> None:
    assert await say(("add", "{}", result)) == said


async def test_of_several_results_each_is_told_with_its_call() -> None:
    said = await say(
        ("get_weather", '{"city": "Paris"}', "It is raining."),
        ("get_weather", '{"city": "Oslo"}', '{"sky": "clear"}'),
        ("ping", "{}", "null"),
        ("add", "{broken", "5"),
    )

    assert said.splitlines() == [
        "`get_weather` (city: Paris) says: It is raining.",
        "`get_weather` (city: Oslo) says: sky: clear",
        "`ping` found nothing.",
        "`add` ({broken) gives 5.",
    ]


async def test_a_long_result_is_cut_and_this_is_said() -> None:
    many = await say(("add", "{}", json.dumps([{"id": each, "of": {}} for each in range(24)])))
    long = await say(("add", "{}", "word " * 2000))

    assert many.endswith("\n- and 4 more")
    assert len(long) < 4200
    assert "the result is longer" in long


async def test_a_result_nested_beyond_reading_is_told_as_it_came() -> None:
    nested = "[" * 600 + "]" * 600

    assert await say(("add", "{}", nested)) == f"`add` says: {nested}"


@both_modes
@pytest.mark.fault("L13")
async def test_an_error_is_told_and_the_call_is_not_tried_again(stream: bool) -> None:
    call = ("get_weather", '{"city": "Atlantis"}', "There is no city Atlantis. city: try another.")
    history = turn("What's the weather in Atlantis?", call, errors=frozenset({"call_1"}))

    response = await answer(DemoModel(), talk(*history, tools=TOOLS), stream=stream)

    assert response.tool_calls == ()
    assert response.content == "`get_weather` failed: There is no city Atlantis. city: try another."


async def test_a_call_whose_arguments_the_caller_changed_is_not_asked_for_again() -> None:
    history = turn("What's the weather in Paris?", ("get_weather", '{"city": "Lyon"}', "Sunny in Lyon."))

    assert (await DemoModel().call(talk(*history, tools=TOOLS))).content == "Sunny in Lyon."


async def test_ids_are_new_in_the_conversation() -> None:
    history: list[Message] = [
        *turn("add 1 and 2", ("add", "{}", "3")),
        AssistantMessage("3"),
        UserMessage("add 3 and 4"),
    ]
    taken = AssistantMessage("", (ToolCall("call_3", "ping"),))

    first = await DemoModel().call(talk(*history, tools=TOOLS))
    second = await DemoModel().call(
        talk(taken, ToolMessage((ToolResult("call_3", "ping", "1"),)), *history, tools=TOOLS)
    )

    assert [call.id for call in first.tool_calls] == ["call_2"]
    assert [call.id for call in second.tool_calls] == ["call_4"]


@both_modes
async def test_results_are_told_where_the_history_was_cut_to_them(stream: bool) -> None:
    results = ToolMessage((ToolResult("call_1", "get_weather", "It is raining."),))

    response = await answer(DemoModel(), talk(SystemMessage("Be brief."), results, tools=TOOLS), stream=stream)

    assert response.content == "It is raining."


async def test_a_system_message_and_earlier_turns_ask_for_nothing() -> None:
    history: list[Message] = [
        SystemMessage("Say the weather in Rome."),
        UserMessage("weather in Oslo"),
        AssistantMessage("It rains."),
    ]

    response = await DemoModel().call(talk(*history, UserMessage("thanks"), tools=TOOLS))

    assert response.tool_calls == ()


@both_modes
@pytest.mark.parametrize(
    ("earlier", "question", "said"),
    [
        (["My name is Ada."], "What is my name?", "You said that your name is Ada."),
        (["Hi, I'm Ada, and my favourite colour is dark green"], "Who am I?", "You said that your name is Ada."),
        (["My favourite colour is red", "hello"], "What's my favourite colour?", "your favourite colour is red."),
        (["Call me Ada", "my name is Bo!"], "do you remember my name", "You said that your name is Bo."),
        ([], "What is my name?", "You have not told me your name in this conversation."),
        (["I'm in Berlin"], "What is my name?", "You have not told me your name in this conversation."),
        (["hello"], "Tell me what my age is", "You have not told me your age in this conversation."),
        (["I like tea"], "What did I say?", "You said: I like tea"),
        ([], "What did I just ask?", "You have said nothing else in this conversation."),
    ],
)
async def test_what_the_user_said_of_themselves_is_known(
    earlier: list[str], question: str, said: str, stream: bool
) -> None:
    history = [message for each in earlier for message in (UserMessage(each), AssistantMessage("I see."))]

    response = await answer(DemoModel(), talk(*history, UserMessage(question), tools=TOOLS), stream=stream)

    assert response.content.endswith(said)


@both_modes
async def test_the_same_prompt_has_the_same_answer(stream: bool) -> None:
    prompts = [Prompt.of(message, tools=TOOLS) for message in ("hello", "weather in Paris", "add 1 and 2")]
    model = DemoModel()

    first = [await answer(model, prompt, stream=stream) for prompt in prompts]

    assert [await answer(DemoModel(), prompt) for prompt in prompts] == first
    assert [await answer(model, prompt) for prompt in prompts] == first


async def test_the_stream_comes_in_small_pieces() -> None:
    events = [event async for event in DemoModel().stream(Prompt.of("hello", tools=TOOLS))]
    call = [event async for event in DemoModel().stream(Prompt.of("weather in Rio de Janeiro", tools=TOOLS))]

    assert sum(isinstance(event, TextDelta) for event in events) > 50
    assert sum(isinstance(event, ToolCallArguments) for event in call) > 1


async def test_whoever_waits_beside_a_stream_gets_a_turn_between_its_pieces() -> None:
    turns: list[int] = []

    async def beside() -> None:
        for each in range(3):
            turns.append(each)
            await asyncio.sleep(0)

    waiting = asyncio.create_task(beside())
    async with aclosing(DemoModel().stream(Prompt.of("hello"))) as events:
        seen = [len(turns) async for _ in events][:4]
    await waiting

    assert seen == [1, 2, 3, 3]


@both_modes
async def test_the_answer_ends_at_max_tokens_and_says_so(stream: bool) -> None:
    response = await answer(DemoModel(), Prompt.of("hello", tools=TOOLS, max_tokens=4), stream=stream)

    assert response.content == "Hello! I am the"
    assert response.finish_reason is FinishReason.LENGTH
    assert response.usage.output_tokens == 4


@both_modes
async def test_calls_beyond_max_tokens_are_left_out_whole(stream: bool) -> None:
    prompt = Prompt.of("weather in Paris and Oslo", tools=TOOLS, max_tokens=3)

    response = await answer(DemoModel(), prompt, stream=stream)

    assert asked(response) == [PARIS]
    assert response.finish_reason is FinishReason.LENGTH


@both_modes
async def test_the_answer_ends_before_a_stop_text(stream: bool) -> None:
    prompt = Prompt.of("hello", stop=("gateway", "model", "", "nowhere"), max_tokens=100)

    response = await answer(DemoModel(), prompt, stream=stream)

    assert response.content == "Hello! I am the demo "
    assert response.finish_reason is FinishReason.STOP


async def test_usage_counts_words_of_all_that_was_read_and_written() -> None:
    history = turn("hello dear model", ("ping", '{"a": 1}', "one two"))

    plain = await DemoModel().call(talk(*history, tools=()))
    offering = await DemoModel().call(talk(*history, tools=TOOLS))

    assert plain.usage == Usage(3 + 3 + 2, 2, 10)
    assert offering.usage.input_tokens is not None
    assert offering.usage.input_tokens > 30


async def test_tools_of_the_model_hold_where_the_request_names_none() -> None:
    model = DemoModel(default_options=ChatOptions(tools=(ping,)))

    assert asked(await model.call(Prompt.of("ping"))) == [("ping", {})]
    assert asked(await model.call(Prompt.of("ping", tools=(add,)))) == []


@both_modes
async def test_an_object_is_given_where_json_is_wanted(stream: bool) -> None:
    prompt = talk(*turn("add 2 and 3", ("add", "{}", "5")), response_format={"type": "json_object"})

    assert json.loads((await answer(DemoModel(), prompt, stream=stream)).content) == {"answer": "`add` gives 5."}


REPORT = {
    "type": "object",
    "properties": {
        "city": text(),
        "degrees": number(),
        "mood": text(enum=["sad", "happy"]),
        "stars": whole(minimum=1, maximum=5),
        "notes": several(text()),
        "summary": text(),
        "more": {"type": "object", "properties": {"sky": text()}, "required": ["sky"]},
        "left_out": text(),
    },
    "required": ["city", "degrees", "mood", "stars", "notes", "summary", "more"],
    "additionalProperties": False,
}


@both_modes
async def test_the_answer_fits_the_schema_that_is_wanted(stream: bool) -> None:
    history = turn("weather in Oslo, I am happy, 4 stars", ("get_weather", "{}", '{"degrees": 7.5, "sky": "clear"}'))
    form = {"type": "json_schema", "json_schema": {"name": "report", "schema": REPORT}}

    response = await answer(DemoModel(), talk(*history, response_format=form), stream=stream)

    said = "`get_weather` says: degrees: 7.5, sky: clear"
    assert json.loads(response.content) == {
        "city": "Oslo",
        "degrees": 7.5,
        "mood": "happy",
        "stars": 4,
        "notes": [],
        "summary": said,
        "more": {"sky": "clear"},
    }


@pytest.mark.parametrize(
    ("schema", "value"),
    [(several(whole(), minItems=1), [1]), (text(enum=["yes", "no"]), "yes"), ({"type": "null"}, None)],
)
async def test_a_schema_may_want_something_else_than_an_object(schema: dict[str, Any], value: object) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}

    assert json.loads((await DemoModel().call(Prompt.of("hello", response_format=form))).content) == value


@pytest.mark.parametrize("form", [{"type": "text"}, {}, {"type": "grammar"}])
async def test_any_other_format_is_text(form: dict[str, Any]) -> None:
    assert "demo model" in (await DemoModel().call(Prompt.of("hello", response_format=form))).content


@pytest.mark.fault("U36")
async def test_half_a_surrogate_pair_is_never_sent() -> None:
    echo = offered("echo", "Repeat a text.", {"text": text()})

    call = await DemoModel().call(Prompt.of('echo {"text": "\\ud83d"}', tools=(echo,)))
    told = await say(("add", "{}", '"half \\ud83d one"'))

    assert call.tool_calls[0].arguments == '{"text":"\\ud83d"}'
    assert told == "half \N{REPLACEMENT CHARACTER} one"


async def test_a_very_long_message_is_read_from_its_beginning() -> None:
    response = await DemoModel().call(Prompt.of("weather in Paris. " + "and so on, " * 3000 + "ping", tools=TOOLS))

    assert asked(response) == [PARIS]


async def test_it_can_be_closed_twice() -> None:
    model = DemoModel()
    await model.aclose()
    await model.aclose()
