"""The client: defaults, tools of all kinds, and when the loop is on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.advisors.tool_calling import ToolCallingAdvisor
from app.chat import (
    AssistantMessage,
    BaseAdvisor,
    ChatOptions,
    ChatRequest,
    Completed,
    ConfigurationError,
    FinishReason,
    Message,
    Prompt,
    SystemMessage,
    TextDelta,
    Tool,
    ToolContext,
    ToolMessage,
    ToolNotFound,
    UserMessage,
)
from app.client import ChatClient
from app.providers.scripted import Reply, ScriptedModel, tool_calls
from app.tooling import ToolCallback, ToolCallingManager, tool
from tests.support.advisors import Silent
from tests.support.asking import ask
from tests.support.modes import both_modes


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


@tool(default=False)
def erase() -> str:
    """Erase everything."""
    return "erased"


ADDING = tool_calls(("add", {"a": 2, "b": 3}))


def names(model: ScriptedModel, call: int = 0) -> list[str]:
    """The tools that the model was offered."""
    return [offered.definition.name for offered in model.prompts[call].options.tools or ()]


# --- when the loop is on


@pytest.mark.parity(42)
@both_modes
async def test_with_tools_the_loop_is_on_by_itself(*, stream: bool) -> None:
    model = ScriptedModel(ADDING, "5")

    asked = await ask(ChatClient(model, tools=[add]), stream=stream)

    assert (asked.response.content, len(model.prompts)) == ("5", 2)


@pytest.mark.parity(43)
@both_modes
@pytest.mark.parametrize("by", ["client", "request"])
async def test_switched_off_the_calls_reach_the_caller_unexecuted(by: str, *, stream: bool) -> None:
    model = ScriptedModel(ADDING)
    client = ChatClient(model, tools=[add], tool_calling=by != "client")

    asked = await ask(client, stream=stream, tool_calling=False if by == "request" else None)

    assert (asked.response.tool_calls, asked.response.tool_runs) == (ADDING.tool_calls, ())
    assert asked.response.finish_reason is FinishReason.TOOL_CALLS
    assert (names(model), len(model.prompts)) == (["add"], 1)


@both_modes
async def test_switched_off_for_a_request_a_given_loop_does_not_run_either(*, stream: bool) -> None:
    client = ChatClient(ScriptedModel(ADDING), advisors=[ToolCallingAdvisor(ToolCallingManager())], tools=[add])

    asked = await ask(client, stream=stream, tool_calling=False)

    assert asked.response.tool_calls == ADDING.tool_calls


async def test_a_request_cannot_switch_on_what_the_client_switched_off() -> None:
    client = ChatClient(ScriptedModel(), tool_calling=False)

    with pytest.raises(ConfigurationError, match="cannot switch it on"):
        client.run(ChatRequest(Prompt.of("Hi")), tool_calling=True)
    assert not client.tool_calling


@pytest.mark.parity(44)
@both_modes
async def test_without_tools_the_chain_is_passed_once(*, stream: bool) -> None:
    model = ScriptedModel("Hi")

    await ask(ChatClient(model), stream=stream)

    assert len(model.prompts) == 1
    assert model.prompts[0].options.tools is None


@pytest.mark.parity(45, 46)
@both_modes
@pytest.mark.parametrize("order", [100, 400], ids=["outside", "inside"])
async def test_tools_that_another_advisor_adds_are_looped(order: int, *, stream: bool) -> None:
    class Adding(BaseAdvisor):
        async def before(self, request: ChatRequest) -> ChatRequest:
            return request.with_options(tools=(ToolCallback.from_function(add),))

    model = ScriptedModel(ADDING, "5")
    loop_offers = [] if order > 300 else ["add"]

    asked = await ask(ChatClient(model, advisors=[Adding(order)]), stream=stream)

    # Inside the loop the model sees the tool, but only what the loop was given may run.
    assert names(model) == ["add"]
    assert [run.name for run in asked.response.tool_runs if run.error is None] == loop_offers


@pytest.mark.parity(47)
@both_modes
async def test_tools_of_the_models_own_options_are_looped(*, stream: bool) -> None:
    own = ChatOptions(tools=(ToolCallback.from_function(add),))
    model = ScriptedModel(ADDING, "5", default_options=own)

    assert (await ask(ChatClient(model), stream=stream)).response.content == "5"


async def test_a_model_called_without_a_client_returns_the_calls_and_runs_nothing() -> None:
    answer = await ScriptedModel(ADDING).call(Prompt.of("2 + 3?", tools=(ToolCallback.from_function(add),)))

    assert answer.tool_calls == ADDING.tool_calls
    assert answer.tool_runs == ()


@pytest.mark.parity(48, 62)
@both_modes
async def test_tools_of_the_request_are_looped_and_replace_the_clients(*, stream: bool) -> None:
    model = ScriptedModel(ADDING, "5")
    client = ChatClient(model, tools=[shout])

    asked = await ask(client, stream=stream, tools=(ToolCallback.from_function(add),))

    assert asked.response.content == "5"
    assert names(model) == ["add"]


@pytest.mark.parity(49)
@both_modes
async def test_a_given_loop_prevents_a_second_one(*, stream: bool) -> None:
    ran: list[int] = []

    @tool
    def once() -> str:
        ran.append(1)
        return "ran"

    model = ScriptedModel(tool_calls(("once", {})), "Done")
    client = ChatClient(model, advisors=[ToolCallingAdvisor(ToolCallingManager(), order=500)], tools=[once])

    await ask(client, stream=stream)

    assert ran == [1]


@pytest.mark.parity(50)
def test_two_loops_in_one_chain_are_refused() -> None:
    loops = [ToolCallingAdvisor(ToolCallingManager()), ToolCallingAdvisor(ToolCallingManager(), order=400)]

    with pytest.raises(ConfigurationError, match="at most one ToolAdvisor, got 2"):
        ChatClient(ScriptedModel(), advisors=loops)


@pytest.mark.parity(51)
@both_modes
async def test_the_registered_loop_can_be_replaced_by_a_subclass_with_its_own_manager(*, stream: bool) -> None:
    class Numbered(ToolCallingAdvisor):
        async def before_call(self, request: ChatRequest) -> ChatRequest:
            return request.with_messages((SystemMessage(f"round {request.round}"), *request.messages))

    model = ScriptedModel(tool_calls(("missing", {})), "Done")
    client = ChatClient(
        model, tools=[add], tool_calling_advisor=lambda: Numbered(ToolCallingManager(error_details=True))
    )

    await ask(client, stream=stream)

    assert [prompt.messages[0] for prompt in model.prompts] == [SystemMessage("round 1"), SystemMessage("round 2")]


# --- tools of all kinds


@pytest.mark.parity(52, 53)
@both_modes
async def test_providers_of_tools_are_asked_at_each_request_and_not_before(*, stream: bool) -> None:
    asked: list[int] = []

    def provider() -> list[Any]:
        asked.append(1)
        return [add]

    client = ChatClient(ScriptedModel(ADDING, "5", ADDING, "5"), tools=[provider])
    assert asked == []

    for expected in (1, 2):
        assert (await ask(client, stream=stream)).response.content == "5"
        assert len(asked) == expected


@pytest.mark.parity(54, 55)
@both_modes
async def test_functions_tools_providers_and_collections_are_flattened(*, stream: bool) -> None:
    class Toolset:
        @tool
        def whisper(self, text: str) -> str:
            """Say it quietly."""
            return text.lower()

    model = ScriptedModel("Hi")
    client = ChatClient(model, tools=[add, ToolCallback.from_function(shout, name="cry"), [Toolset()], lambda: [shout]])

    await ask(client, stream=stream)

    assert sorted(names(model)) == ["add", "cry", "shout", "whisper"]


@pytest.mark.parity(56)
@pytest.mark.parametrize("tools", [[None], [add, None]])
def test_nothing_is_not_a_tool(tools: list[Any]) -> None:
    with pytest.raises(ConfigurationError, match="must not hold None"):
        ChatClient(ScriptedModel(), tools=tools)


@pytest.mark.parity(56)
def test_no_list_is_not_a_list_of_tools() -> None:
    with pytest.raises(TypeError):
        ChatClient(ScriptedModel(), tools=None)  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parity(101)
@pytest.mark.fault("T16")
def test_two_tools_of_one_name_are_refused_when_the_client_is_made() -> None:
    with pytest.raises(ConfigurationError, match="add"):
        ChatClient(ScriptedModel("Hi"), tools=[add, ToolCallback.from_function(shout, name="add")])


@pytest.mark.parity(101)
@pytest.mark.fault("T16")
async def test_two_tools_of_one_name_are_refused_when_a_provider_brings_the_second() -> None:
    client = ChatClient(ScriptedModel("Hi"), tools=[add, lambda: ToolCallback.from_function(shout, name="add")])

    with pytest.raises(ConfigurationError, match="add"):
        await client.call("Hello")


@pytest.mark.parity(59)
@both_modes
async def test_tools_are_on_for_one_request_and_off_for_the_next(*, stream: bool) -> None:
    model = ScriptedModel(forever="Hi")
    client = ChatClient(model)

    await ask(client, stream=stream, tools=(ToolCallback.from_function(add),))
    await ask(client, stream=stream)

    assert (names(model, 0), names(model, 1)) == (["add"], [])


@pytest.mark.parity(60, 67)
@both_modes
async def test_three_calls_of_one_tool_in_one_round_are_answered_in_one_message(*, stream: bool) -> None:
    calls = tool_calls(*(("add", {"a": n, "b": n}) for n in (1, 2, 3)))
    model = ScriptedModel(calls, "2, 4 and 6")

    await ask(ChatClient(model, tools=[add]), stream=stream)

    message = model.prompts[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert [(result.id, result.content) for result in message.results] == [
        ("call_1", "2"),
        ("call_2", "4"),
        ("call_3", "6"),
    ]


@both_modes
async def test_a_tool_that_is_not_a_default_is_offered_only_when_named(*, stream: bool) -> None:
    model = ScriptedModel(forever="Hi")
    client = ChatClient(model, tools=[add, erase])

    await ask(client, stream=stream)
    await ask(client, stream=stream, tools=client.tools_named(["erase"]))
    await client.call("Hello", tools=["erase", shout])

    assert [names(model, call) for call in range(3)] == [["add"], ["erase"], ["erase", "shout"]]


def test_tools_are_found_by_name_each_once_and_an_unknown_name_lists_the_known_ones() -> None:
    client = ChatClient(ScriptedModel(), tools=[add, shout])

    assert [found.definition.name for found in client.tools_named(["shout", "add", "shout"])] == ["shout", "add"]
    with pytest.raises(ToolNotFound, match=r"unknown tool 'subtract'; there are: add, shout"):
        client.tools_named(["add", "subtract"])


# --- defaults


@both_modes
async def test_options_of_the_request_go_over_the_clients_and_those_over_the_models(*, stream: bool) -> None:
    model = ScriptedModel("Hi", default_options=ChatOptions(temperature=0.1, seed=1, top_p=0.1))

    await ask(ChatClient(model, options=ChatOptions(temperature=0.2, seed=2)), stream=stream, temperature=0.3)

    assert model.prompts[0].options == ChatOptions(temperature=0.3, seed=2, top_p=0.1)


@both_modes
async def test_the_clients_system_text_stands_in_where_the_request_has_none(*, stream: bool) -> None:
    model = ScriptedModel(forever="Hi")
    client = ChatClient(model, system="Be brief.")

    await ask(client, stream=stream)
    await ask(client, [SystemMessage("Be long."), UserMessage("Hi")], stream=stream)

    assert [prompt.messages[0] for prompt in model.prompts] == [SystemMessage("Be brief."), SystemMessage("Be long.")]


@pytest.mark.parity(61, 91)
@pytest.mark.fault("K03")
@both_modes
async def test_each_request_hands_its_own_context_to_its_tools(*, stream: bool) -> None:
    seen: list[dict[str, Any]] = []

    @tool
    def who(context: ToolContext) -> str:
        """Tell who asks."""
        seen.append(dict(context))
        return "somebody"

    model = ScriptedModel(forever=lambda prompt: "Hi" if len(prompt.messages) > 1 else tool_calls(("who", {})))
    client = ChatClient(model, tools=[who], options=ChatOptions(tool_context={"tenant": "a", "user": None}))

    await asyncio.gather(*(ask(client, stream=stream, tool_context={"user": n}) for n in range(5)))

    assert sorted(seen, key=lambda context: int(context["user"])) == [{"tenant": "a", "user": n} for n in range(5)]
    assert "tenant" not in str([prompt.messages for prompt in model.prompts])


@pytest.mark.parity(58)
@both_modes
async def test_a_copy_keeps_the_loops_configuration(*, stream: bool) -> None:
    made: list[ToolCallingAdvisor] = []

    def factory() -> ToolCallingAdvisor:
        made.append(ToolCallingAdvisor(ToolCallingManager()))
        return made[-1]

    original = ChatClient(ScriptedModel("Hi"), tools=[add], tool_calling_advisor=factory, tool_calling=False)
    other = ScriptedModel(ADDING, "5")

    asked = await ask(original.copy(model=other, tool_calling=True), stream=stream)

    assert (asked.response.content, len(made), original.tool_calling) == ("5", 2, False)


@both_modes
async def test_a_copy_with_other_tools_offers_those_alone(*, stream: bool) -> None:
    model = ScriptedModel("Hi")
    original = ChatClient(model, tools=[add])

    await ask(original.copy(tools=[shout]), stream=stream)

    assert names(model) == ["shout"]
    assert [tool.definition.name for tool in original.tools] == ["add"]


# --- pleasant from Python


async def test_a_text_is_asked_in_one_line() -> None:
    client = ChatClient(ScriptedModel(ADDING, "It is 5."), tools=[add])

    assert (await client.call("2 + 3?")).content == "It is 5."


async def test_a_stream_is_followed_in_one_loop() -> None:
    client = ChatClient(ScriptedModel("It is 5."))

    text = [event.text async for event in client.stream("2 + 3?", system="Be brief.") if isinstance(event, TextDelta)]

    assert text == ["It", " is", " 5."]


async def test_attributes_and_conversation_reach_the_advisors() -> None:
    seen: list[tuple[str | None, dict[str, Any]]] = []

    class Look(BaseAdvisor):
        async def before(self, request: ChatRequest) -> ChatRequest:
            seen.append((request.conversation_id, dict(request.attributes)))
            return request

    await ChatClient(ScriptedModel("Hi"), advisors=[Look()]).call("Hi", conversation_id="c", attributes={"team": "red"})

    assert seen == [("c", {"team": "red"})]


async def test_a_chain_that_an_advisor_ends_without_an_answer_is_a_fault_of_that_advisor() -> None:
    with pytest.raises(RuntimeError, match="without Completed"):
        await ChatClient(ScriptedModel("Hi"), advisors=[Silent()]).call("Hi")
    with pytest.raises(RuntimeError, match="without Completed"):
        await ChatClient(ScriptedModel("Hi"), advisors=[Silent(999)], tools=[add]).call("Hi")


# --- the caller drives the loop


async def _driven(client: ChatClient, tools: tuple[Tool, ...], *, stream: bool) -> AsyncIterator[AssistantMessage]:
    """The loop as a caller would write it: ask, run the calls, ask again until none are left."""
    manager = ToolCallingManager()
    messages: tuple[Message, ...] = (UserMessage("2 + 3, and 4 + 5?"),)
    while True:
        answer = (await ask(client, messages, stream=stream, tool_calling=False)).response
        yield answer.message
        if not answer.tool_calls:
            return
        execution = await manager.call(answer.message, tools=tools, history=messages)
        messages = execution.history


@pytest.mark.parity(97)
@both_modes
async def test_a_caller_who_drives_the_loop_gets_the_same_answer(*, stream: bool) -> None:
    script: list[Reply] = [ADDING, tool_calls(("add", {"a": 4, "b": 5})), "5 and 9"]
    tools = (ToolCallback.from_function(add),)
    by_itself, by_hand = ScriptedModel(*script), ScriptedModel(*script)

    automatic = await ask(ChatClient(by_itself, tools=tools), "2 + 3, and 4 + 5?", stream=stream)
    driven = [message async for message in _driven(ChatClient(by_hand, tools=tools), tools, stream=stream)]

    assert driven[-1].content == automatic.response.content == "5 and 9"
    assert [prompt.messages for prompt in by_hand.prompts] == [prompt.messages for prompt in by_itself.prompts]


async def test_completed_is_the_last_event_of_a_stream() -> None:
    events = [event async for event in ChatClient(ScriptedModel(ADDING, "5"), tools=[add]).stream("2 + 3?")]

    assert isinstance(events[-1], Completed)
