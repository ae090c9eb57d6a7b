"""The tool loop, through the client, in both modes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.advisors.tool_calling import ToolAdvisor, ToolCallingAdvisor
from app.chat import (
    AssistantMessage,
    BaseAdvisor,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    ConfigurationError,
    FinishReason,
    Message,
    ModelProtocolError,
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
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from app.tooling import ToolCallback, ToolCallingManager, ToolCallLimits, ToolExecution, ToolFailed, tool
from tests.support.asking import ask
from tests.support.modes import both_modes


class Weather:
    """A tool that counts how often it ran."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @tool
    def get_weather(self, city: str) -> str:
        """Tell the weather of a city."""
        self.asked.append(city)
        return f"sunny in {city}"


@pytest.fixture
def weather() -> Weather:
    return Weather()


def call_weather(*cities: str, content: str = "") -> AssistantMessage:
    return tool_calls(*(("get_weather", {"city": city}) for city in cities), content=content)


def client_of(model: ScriptedModel, *tools: Any, limits: ToolCallLimits | None = None, **advisor: Any) -> ChatClient:
    """A client whose loop is made with the given limits and constructor arguments."""
    manager = ToolCallingManager(limits=limits or ToolCallLimits())
    return ChatClient(model, tools=tools, tool_calling_advisor=lambda: ToolCallingAdvisor(manager, **advisor))


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


def _direct(name: str) -> ToolCallback:
    def give(text: str) -> str:
        """Give the text back."""
        return text

    return ToolCallback.from_function(give, name=name, return_direct=True)


@pytest.mark.parity(16, 17, 20)
@both_modes
async def test_a_return_direct_result_is_the_answer_and_the_model_is_not_asked_again(*, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("give", {"text": "as is"}), content="Looking"), usage=Usage(5, 1, 6))

    asked = await ask(client_of(model, _direct("give")), stream=stream)

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

    asked = await ask(client_of(model, _direct("one"), _direct("two")), stream=stream)

    assert asked.response.content == "1\n\n2"


@pytest.mark.parity(95)
@both_modes
async def test_an_empty_return_direct_result_is_an_empty_answer(*, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("give", {"text": ""}), content="Looking"))

    asked = await ask(client_of(model, _direct("give")), stream=stream)

    assert (asked.response.content, asked.response.finish_reason) == ("", FinishReason.RETURN_DIRECT)


@pytest.mark.parity(71)
@both_modes
async def test_return_direct_counts_only_when_every_call_of_the_round_has_it(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("one", {"text": "1"}), ("get_weather", {"city": "Oslo"})), "Both.")

    asked = await ask(client_of(model, _direct("one"), weather.get_weather), stream=stream)

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


# --- limits


def _endless() -> Callable[..., AssistantMessage]:
    numbers = iter(range(10_000))
    return lambda _: call_weather(f"City {next(numbers)}", content="Still looking")


@pytest.mark.parity(29, 30, 32, 75)
@pytest.mark.fault("L01")
@both_modes
@pytest.mark.parametrize(
    ("limits", "ran", "rounds"),
    [
        (ToolCallLimits(rounds=3), 2, 3),
        (ToolCallLimits(per_tool=3), 3, 4),
        (ToolCallLimits(total=3), 3, 4),
        (ToolCallLimits(), 24, 25),
    ],
    ids=["rounds", "per_tool", "total", "defaults"],
)
async def test_at_a_limit_the_turn_ends_with_what_was_done(
    weather: Weather, limits: ToolCallLimits, ran: int, rounds: int, *, stream: bool
) -> None:
    model = ScriptedModel(forever=_endless())

    asked = await ask(client_of(model, weather.get_weather, limits=limits), stream=stream)

    assert asked.response.finish_reason is FinishReason.TOOL_CALL_LIMIT
    assert (len(weather.asked), len(model.prompts)) == (ran, rounds)
    assert (asked.response.content, asked.response.tool_calls) == ("Still looking", ())
    assert [run.result for run in asked.response.tool_runs[:-1]] == [f"sunny in City {n}" for n in range(ran)]
    assert "limit" in str(asked.response.tool_runs[-1].error)


@pytest.mark.parity(31, 32)
@both_modes
async def test_results_of_the_batch_that_broke_the_limit_are_kept(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(call_weather("Paris", "Oslo", "Rome"))

    asked = await ask(client_of(model, weather.get_weather, limits=ToolCallLimits(per_tool=2)), stream=stream)

    assert [run.result for run in asked.response.tool_runs] == ["sunny in Paris", "sunny in Oslo", None]
    assert len(asked.of(Completed)) == 1


@pytest.mark.fault("L02")
@both_modes
async def test_a_model_that_repeats_itself_is_stopped(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(forever=call_weather("Paris"))

    asked = await ask(client_of(model, weather.get_weather), stream=stream)

    assert asked.response.finish_reason is FinishReason.TOOL_CALL_LIMIT
    assert weather.asked == ["Paris"] * 3


@pytest.mark.parity(76)
@both_modes
async def test_with_return_error_the_model_is_told_of_a_tools_limit_and_goes_on(
    weather: Weather, *, stream: bool
) -> None:
    model = ScriptedModel(call_weather("Paris"), call_weather("Oslo"), "Paris is sunny.")
    limits = ToolCallLimits(per_tool=1, on_limit="return_error")

    asked = await ask(client_of(model, weather.get_weather, limits=limits), stream=stream)

    told = model.prompts[2].messages[-1]
    assert isinstance(told, ToolMessage)
    assert (told.results[0].is_error, "limit" in told.results[0].content) == (True, True)
    assert model.prompts[2].options.tool_choice is None
    assert asked.response.finish_reason is FinishReason.STOP


@pytest.mark.fault("L04")
@both_modes
@pytest.mark.parametrize("limits", [ToolCallLimits(rounds=2), ToolCallLimits(total=1)], ids=["rounds", "total"])
async def test_with_return_error_a_closing_round_forbids_tools(
    weather: Weather, limits: ToolCallLimits, *, stream: bool
) -> None:
    model = ScriptedModel(call_weather("Paris"), call_weather("Oslo"), "That is all I have.")
    client = client_of(model, weather.get_weather, limits=replace(limits, on_limit="return_error"))

    asked = await ask(client, stream=stream)

    assert model.prompts[2].options.tool_choice == "none"
    assert (asked.response.content, asked.response.finish_reason) == ("That is all I have.", FinishReason.STOP)


@pytest.mark.fault("L04")
@both_modes
async def test_a_model_that_asks_for_tools_in_the_closing_round_is_stopped(weather: Weather, *, stream: bool) -> None:
    model = ScriptedModel(forever=_endless())
    client = client_of(model, weather.get_weather, limits=ToolCallLimits(rounds=2, on_limit="return_error"))

    asked = await ask(client, stream=stream)

    assert asked.response.finish_reason is FinishReason.TOOL_CALL_LIMIT
    assert (len(model.prompts), len(weather.asked)) == (3, 1)


# --- hooks


class Hooked(ToolCallingAdvisor):
    """Writes down which hooks were called."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(ToolCallingManager(), **arguments)
        self.called: list[str] = []
        self.finalized: ChatResponse | None = None

    async def initialize_loop(self, request: ChatRequest) -> ChatRequest:
        self.called.append("initialize")
        return await super().initialize_loop(request)

    async def before_call(self, request: ChatRequest) -> ChatRequest:
        self.called.append("before")
        return await super().before_call(request)

    async def after_call(self, response: ChatResponse, request: ChatRequest) -> ChatResponse:
        self.called.append("after")
        return await super().after_call(response, request)

    async def next_instructions(self, request: ChatRequest, execution: ToolExecution) -> tuple[Message, ...]:
        self.called.append("next")
        return await super().next_instructions(request, execution)

    async def finalize_loop(self, request: ChatRequest, response: ChatResponse | None) -> None:
        self.called.append("finalize")
        self.finalized = response
        await super().finalize_loop(request, response)


@pytest.mark.parity(33, 34)
@both_modes
async def test_hooks_are_called_once_a_turn_and_once_a_round(weather: Weather, *, stream: bool) -> None:
    loop = Hooked()
    client = ChatClient(ScriptedModel(call_weather("Paris"), "Sunny."), advisors=[loop], tools=[weather.get_weather])

    asked = await ask(client, stream=stream)

    assert loop.called == ["initialize", "before", "after", "next", "before", "after", "finalize"]
    assert loop.finalized == asked.response


@both_modes
@pytest.mark.parametrize("limits", [None, ToolCallLimits(rounds=1)], ids=["return_direct", "limit"])
async def test_the_loop_is_finalized_however_the_turn_ends(limits: ToolCallLimits | None, *, stream: bool) -> None:
    loop = Hooked()
    loop._manager = ToolCallingManager(limits=limits or ToolCallLimits())
    client = ChatClient(ScriptedModel(tool_calls(("give", {"text": "x"}))), advisors=[loop], tools=[_direct("give")])

    asked = await ask(client, stream=stream)

    assert loop.called == ["initialize", "before", "after", "finalize"]
    assert loop.finalized == asked.response


@both_modes
async def test_the_loop_is_finalized_when_the_model_fails(*, stream: bool) -> None:
    loop = Hooked()
    client = ChatClient(ScriptedModel(Cut("half", ModelProtocolError("cut"))), advisors=[loop])

    with pytest.raises(ModelProtocolError):
        await ask(client, stream=stream)

    assert loop.called == ["initialize", "before", "finalize"]
    assert loop.finalized is None


@pytest.mark.fault("D13")
@both_modes
async def test_the_loop_is_finalized_and_the_tool_stopped_when_the_caller_leaves(*, stream: bool) -> None:
    running, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def endless(context: ToolContext) -> str:
        try:
            context.progress("running")
            running.set()
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    loop = Hooked()
    client = ChatClient(ScriptedModel(tool_calls(("endless", {}))), advisors=[loop], tools=[endless])

    asking = asyncio.create_task(ask(client, stream=stream))
    await running.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert stopped.is_set()
    assert loop.called[-1] == "finalize"


@pytest.mark.parity(35, 36)
@both_modes
async def test_a_tool_that_a_hook_adds_can_be_called_in_that_round(weather: Weather, *, stream: bool) -> None:
    class Adding(Hooked):
        async def before_call(self, request: ChatRequest) -> ChatRequest:
            return request.with_options(tools=(ToolCallback.from_function(weather.get_weather),))

    asked = await ask(ChatClient(ScriptedModel(call_weather("Paris"), "Sunny."), advisors=[Adding()]), stream=stream)

    assert weather.asked == ["Paris"]
    assert asked.response.content == "Sunny."


@both_modes
async def test_a_subclass_can_transform_the_whole_outgoing_stream(weather: Weather, *, stream: bool) -> None:
    class Quiet(Hooked):
        async def advise(self, request: ChatRequest, call_next: Any) -> ChatEvents:
            async for event in super().advise(request, call_next):
                if isinstance(event, Completed):
                    yield event

    client = ChatClient(ScriptedModel(call_weather("Paris"), "Sunny."), advisors=[Quiet()], tools=[weather.get_weather])

    assert len((await ask(client, stream=stream)).events) == 1


# --- construction


@pytest.mark.parity(37)
@pytest.mark.parametrize("missing", ["tool_calling_manager", "eligibility"])
def test_a_missing_part_is_refused_by_name(missing: str) -> None:
    arguments: dict[str, Any] = {"tool_calling_manager": ToolCallingManager(), missing: None}

    with pytest.raises(ConfigurationError, match=missing):
        ToolCallingAdvisor(**arguments)


@pytest.mark.parity(38)
@pytest.mark.parametrize("order", [0, 1000, -1, 1001])
def test_an_order_at_the_ends_is_refused(order: int) -> None:
    with pytest.raises(ConfigurationError, match="must lie between 0 and 1000"):
        ToolCallingAdvisor(ToolCallingManager(), order=order)


@pytest.mark.parity(39)
def test_the_default_order_leaves_room_on_both_sides() -> None:
    advisor = ToolCallingAdvisor(ToolCallingManager())

    assert advisor.order == ToolCallingAdvisor.DEFAULT_ORDER == 300
    assert isinstance(advisor, ToolAdvisor)
