"""What the tool loop does at a limit, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.chat import AssistantMessage, Completed, FinishReason, ToolMessage
from app.providers.scripted import ScriptedModel
from app.tooling import ToolCallLimits
from tests.advisors.looping import Weather, call_weather, client_of
from tests.support.asking import ask
from tests.support.modes import both_modes


def _endless() -> Callable[..., AssistantMessage]:
    numbers = iter(range(10_000))
    return lambda _: call_weather(f"City {next(numbers)}", content="Still looking")


@pytest.mark.parity(29, 30, 32, 75)
@pytest.mark.fault("L01")
@both_modes
@pytest.mark.parametrize(
    ("limits", "ran", "rounds"),
    [
        (ToolCallLimits(rounds=3), 3, 3),
        (ToolCallLimits(per_tool=3), 3, 4),
        (ToolCallLimits(total=3), 3, 4),
        (ToolCallLimits(), 25, 25),
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
    runs = asked.response.tool_runs
    assert [run.result for run in runs[:ran]] == [f"sunny in City {n}" for n in range(ran)]
    assert all("limit" in str(run.error) for run in runs[ran:])
    assert len(runs) == rounds


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
    assert (len(model.prompts), len(weather.asked)) == (3, 2)
