"""The tool loop, through the client, in both modes."""

from __future__ import annotations

from typing import Any

import pytest

from app.advisors.tool_calling import ToolCallingAdvisor
from app.chat import (
    AssistantMessage,
    BaseAdvisor,
    ChatRequest,
    ChatResponse,
    Completed,
    FinishReason,
    Message,
    ModelAnswered,
    RoundCompleted,
    RoundStarted,
    SystemMessage,
    TextDelta,
    Tool,
    ToolCallArguments,
    ToolCallErrored,
    ToolCallProgress,
    ToolCallReady,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolContext,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from app.client import ChatClient
from app.providers.scripted import ScriptedModel, tool_calls
from app.tooling import ToolCallingManager, ToolCallLimits, ToolExecution, ToolFailed, tool
from tests.advisors.looping import Weather, call_weather, client_of, direct
from tests.support.asking import ask
from tests.support.modes import both_modes

# --- the loop


@pytest.mark.parity(1, 5)
@both_modes
async def test_an_answer_without_calls_is_returned_after_one_model_call(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel("Hello yourself")

    asked = await ask(client_of(model, weather.get_weather), stream=stream)

    assert asked.response.content == "Hello yourself"
    assert (len(model.prompts), weather.asked) == (1, [])
    assert asked.of(RoundCompleted) == []


@pytest.mark.parity(2)
@both_modes
async def test_a_call_is_run_and_the_model_answers_from_its_result(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(call_weather("Paris"), "It is sunny.")

    asked = await ask(client_of(model, weather.get_weather), stream=stream)

    assert (asked.response.content, asked.response.finish_reason) == ("It is sunny.", FinishReason.STOP)
    assert (len(model.prompts), weather.asked) == (2, ["Paris"])
    assert model.prompts[1].messages[-1] == ToolMessage((ToolResult("call_1", "get_weather", "sunny in Paris"),))


@pytest.mark.parity(3)
@both_modes
async def test_two_rounds_of_calls_take_three_model_calls(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(call_weather("Paris"), call_weather("Oslo"), "Both sunny.")

    asked = await ask(client_of(model, weather.get_weather), stream=stream)

    assert (len(model.prompts), weather.asked) == (3, ["Paris", "Oslo"])
    assert [run.round for run in asked.response.tool_runs] == [1, 2]
    assert len(asked.response.rounds) == 3


@pytest.mark.parity(4)
@both_modes
async def test_an_empty_answer_passes_through(weather: Weather, *, stream: bool) -> None:
    asked = await ask(client_of(ScriptedModel(""), weather.get_weather), stream=stream)

    assert (asked.response.content, asked.response.tool_runs) == ("", ())


@pytest.mark.parity(6)
async def test_a_stream_tells_each_round_and_ends_with_the_last_ones_answer(weather: Weather) -> None:
    model = ScriptedModel(call_weather("Paris", content="Looking"), "It is sunny.")

    asked = await ask(client_of(model, weather.get_weather), stream=True)

    call = model.prompts[1].messages[-2]
    assert isinstance(call, AssistantMessage)
    succeeded = asked.of(ToolCallSucceeded)[0]
    assert asked.events == [
        RoundStarted(1),
        TextDelta("Looking"),
        ToolCallStarted("call_1", "get_weather"),
        ToolCallArguments("call_1", "get_weather", '{"city": "Paris"}'),
        ToolCallReady(call.tool_calls[0]),
        ModelAnswered(
            ChatResponse.of_call(call, FinishReason.TOOL_CALLS, model="scripted"),
        ),
        ToolCallSucceeded("call_1", "get_weather", "sunny in Paris", succeeded.ms),
        RoundCompleted(1, FinishReason.TOOL_CALLS, Usage()),
        RoundStarted(2),
        TextDelta("It"),
        TextDelta(" is"),
        TextDelta(" sunny."),
        Completed(asked.response),
    ]


@pytest.mark.fault("L12")
@both_modes
async def test_the_answer_is_the_text_of_the_last_round_only(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(call_weather("Paris", content="Let me look."), "Sunny.")

    asked = await ask(client_of(model, weather.get_weather), stream=stream)

    assert asked.response.content == "Sunny."
    assert [type(message) for message in asked.response.generated] == [AssistantMessage, ToolMessage, AssistantMessage]


@pytest.mark.parity(7, 8, 9)
@both_modes
@pytest.mark.parametrize("tools", [None, ()], ids=["absent", "none"])
async def test_a_request_without_tools_goes_through_untouched(tools: tuple[Tool, ...] | None, *, stream: bool) -> None:
    model = ScriptedModel("Hi")

    await ask(client_of(model), stream=stream, tools=tools)

    assert not model.prompts[0].options.tools
    assert model.prompts[0].messages == (UserMessage("Hello"),)


@pytest.mark.parity(10, 11)
@both_modes
async def test_the_eligibility_check_can_hold_the_calls_back(weather: Weather, *, stream: bool) -> None:
    client = client_of(ScriptedModel(call_weather("Paris")), weather.get_weather, eligibility=lambda _: False)

    asked = await ask(client, stream=stream)

    assert weather.asked == []
    assert (asked.response.finish_reason, len(asked.response.tool_calls)) == (FinishReason.TOOL_CALLS, 1)


@pytest.mark.parity(12)
@both_modes
async def test_the_eligibility_check_can_force_a_round_and_is_asked_again_each_round(*, stream: bool) -> None:
    class Nudging(ToolCallingManager):
        async def stream(  # type: ignore[override]  # a double that needs few of the arguments
            self, message: AssistantMessage, *, history: tuple[Message, ...], **_: Any
        ) -> Any:
            nudge = ToolMessage((ToolResult("n", "nudge", "go on"),))
            yield ToolExecution(nudge, (), False, None, (*history, message, nudge))

    answers: list[str] = []

    def twice(response: ChatResponse) -> bool:
        answers.append(response.content)
        return len(answers) < 3

    advisor = ToolCallingAdvisor(Nudging(), eligibility=twice)
    await ask(ChatClient(ScriptedModel("a", "b", "c"), advisors=[advisor]), stream=stream)

    assert answers == ["a", "b", "c"]


@pytest.mark.fault("L11", "U20")
@both_modes
async def test_calls_of_an_answer_cut_by_the_token_limit_are_not_run(weather: Weather, *, stream: bool) -> None:
    cut = ChatResponse.of_call(call_weather("Par"), FinishReason.LENGTH)

    asked = await ask(client_of(ScriptedModel(cut), weather.get_weather), stream=stream)

    assert (asked.response.finish_reason, weather.asked) == (FinishReason.LENGTH, [])


@pytest.mark.fault("L06", "L07")
@both_modes
async def test_an_invented_name_and_a_failing_tool_do_not_stop_their_neighbours(
    weather: Weather, *, stream: bool
) -> None:
    @tool
    def harbour() -> str:
        raise ToolFailed("the harbour is closed")

    model = ScriptedModel(
        tool_calls(("list_ships", {}), ("harbour", {}), ("get_weather", {"city": "Oslo"})),
        "Well.",
    )

    asked = await ask(client_of(model, weather.get_weather, harbour), stream=stream)

    message = model.prompts[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert [(result.name, result.is_error) for result in message.results] == [
        ("list_ships", True),
        ("harbour", True),
        ("get_weather", False),
    ]
    assert "get_weather, harbour" in message.results[0].content
    assert len(asked.of(ToolCallErrored)) == 2


@both_modes
async def test_progress_reaches_the_events_and_never_the_model(*, stream: bool) -> None:
    @tool
    def count(context: ToolContext) -> str:
        context.progress("half", current=1, total=2)
        return "counted"

    model = ScriptedModel(tool_calls(("count", {})), "Done.")

    asked = await ask(client_of(model, count), stream=stream)

    assert asked.of(ToolCallProgress) == [ToolCallProgress("call_1", "count", "half", 1, 2)]
    assert "half" not in str(model.prompts[1])


# --- usage


@pytest.mark.parity(13, 18, 19, 21, 22)
@both_modes
async def test_usage_is_summed_over_the_rounds_and_told_once(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(call_weather("Paris"), "Sunny.", usage=Usage(10, 2, 12, 4, 1))

    asked = await ask(client_of(model, weather.get_weather), stream=stream)

    assert asked.response.usage == Usage(20, 4, 24, 8, 2)
    assert [round_.usage for round_ in asked.response.rounds] == [Usage(10, 2, 12, 4, 1)] * 2
    assert [event.usage for event in asked.of(RoundCompleted)] == [Usage(10, 2, 12, 4, 1)]


@pytest.mark.parity(23)
@both_modes
async def test_usage_of_earlier_rounds_is_kept_when_the_last_reports_none(weather: Weather, *, stream: bool) -> None:
    first = ChatResponse.of_call(call_weather("Paris"), FinishReason.TOOL_CALLS, Usage(10, 2, 12))

    asked = await ask(client_of(ScriptedModel(first, "Sunny."), weather.get_weather), stream=stream)

    assert asked.response.usage == Usage(10, 2, 12)
    assert asked.response.rounds[1].usage == Usage()


@pytest.mark.parity(24)
@both_modes
async def test_usage_of_one_run_does_not_grow_with_the_next(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(call_weather("Paris"), "Sunny.", call_weather("Paris"), "Sunny.", usage=Usage(1, 1, 2))
    client = client_of(model, weather.get_weather)

    sums = [(await ask(client, stream=stream)).response.usage for _ in range(2)]

    assert sums == [Usage(2, 2, 4)] * 2


# --- return direct


@pytest.mark.parity(16, 17, 20)
@both_modes
async def test_a_return_direct_result_is_the_answer_and_the_model_is_not_asked_again(*, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("give", {"text": "as is"}), content="Looking"), usage=Usage(5, 1, 6))

    asked = await ask(client_of(model, direct("give")), stream=stream)

    assert asked.response.content == "as is"
    assert asked.response.finish_reason is FinishReason.RETURN_DIRECT
    assert asked.response.tool_calls == ()
    assert asked.response.usage == Usage(5, 1, 6)
    assert asked.response.generated[-1] == AssistantMessage("as is")
    assert len(model.prompts) == 1


@pytest.mark.parity(70, 93, 94)
@pytest.mark.fault("L05")
@both_modes
async def test_several_return_direct_results_are_joined_by_a_blank_line_in_the_order_asked(*, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("one", {"text": "1"}), ("two", {"text": "2"})))

    asked = await ask(client_of(model, direct("one"), direct("two")), stream=stream)

    assert asked.response.content == "1\n\n2"


@pytest.mark.parity(95)
@both_modes
async def test_an_empty_return_direct_result_is_an_empty_answer(*, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("give", {"text": ""}), content="Looking"))

    asked = await ask(client_of(model, direct("give")), stream=stream)

    assert (asked.response.content, asked.response.finish_reason) == ("", FinishReason.RETURN_DIRECT)


@pytest.mark.parity(71)
@both_modes
async def test_return_direct_counts_only_when_every_call_of_the_round_has_it(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("one", {"text": "1"}), ("get_weather", {"city": "Oslo"})), "Both.")

    asked = await ask(client_of(model, direct("one"), weather.get_weather), stream=stream)

    assert (asked.response.content, asked.response.finish_reason) == ("Both.", FinishReason.STOP)


# --- history


CONVERSATION: list[Message] = [
    SystemMessage("Be brief."),
    UserMessage("Hi"),
    AssistantMessage("Hello"),
    UserMessage("Weather in Paris and Oslo?"),
]


@pytest.mark.parity(25, 66)
@both_modes
async def test_each_round_sends_the_whole_history(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(call_weather("Paris"), call_weather("Oslo"), "Sunny.")

    await ask(client_of(model, weather.get_weather), CONVERSATION, stream=stream)

    kinds = [type(message) for message in model.prompts[2].messages[4:]]
    assert list(model.prompts[2].messages[:4]) == CONVERSATION
    assert kinds == [AssistantMessage, ToolMessage, AssistantMessage, ToolMessage]


@pytest.mark.parity(26)
@pytest.mark.fault("L09")
@both_modes
async def test_with_the_history_off_only_system_and_last_message_are_sent(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(call_weather("Paris"), call_weather("Oslo"), "Sunny.")

    await ask(client_of(model, weather.get_weather, conversation_history=False), CONVERSATION, stream=stream)

    assert [type(message) for message in model.prompts[2].messages] == [SystemMessage, ToolMessage]


@pytest.mark.parity(27, 28)
@both_modes
async def test_with_the_history_off_limits_are_counted_over_the_whole_turn(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(*(call_weather(city) for city in ("Paris", "Oslo", "Rome")))
    client = client_of(model, weather.get_weather, conversation_history=False, limits=ToolCallLimits(per_tool=2))

    asked = await ask(client, stream=stream)

    assert weather.asked == ["Paris", "Oslo"]
    assert asked.response.finish_reason is FinishReason.TOOL_CALL_LIMIT


@both_modes
async def test_the_request_tells_inner_advisors_the_whole_turn_and_the_round(weather: Weather, *, stream: bool) -> None:
    seen: list[tuple[int, int]] = []

    class Look(BaseAdvisor):
        async def before(self, request: ChatRequest) -> ChatRequest:
            seen.append((request.round, len(request.turn)))
            return request

    manager = ToolCallingManager()
    client = ChatClient(
        ScriptedModel(call_weather("Paris"), "Sunny."),
        advisors=[Look(), ToolCallingAdvisor(manager, conversation_history=False)],
        tools=[weather.get_weather],
    )
    await ask(client, stream=stream)

    assert seen == [(1, 1), (2, 3)]


# --- tool choice


@pytest.mark.fault("L03")
@both_modes
@pytest.mark.parametrize(
    ("choice", "later"), [("required", "auto"), ("get_weather", "auto"), ("auto", "auto"), (None, None)]
)
async def test_a_forced_tool_choice_holds_for_the_first_round_only(
    weather: Weather, choice: str | None, later: str | None, *, stream: bool
) -> None:
    model = ScriptedModel(call_weather("Paris"), "Sunny.")

    await ask(client_of(model, weather.get_weather), stream=stream, tool_choice=choice)

    assert [prompt.options.tool_choice for prompt in model.prompts] == [choice, later]
