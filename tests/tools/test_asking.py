"""The shipped tools as people meet them first: natural sentences to the demo model, through the whole loop."""

from __future__ import annotations

import json
from functools import cache

import pytest

from app.chat import FinishReason, Tool, ToolCallProgress
from app.client import ChatClient
from app.providers.embedded import DemoModel
from app.tooling import discover
from tests.support.asking import ask
from tests.support.chains import Asked
from tests.support.modes import both_modes


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEATHER_BASE_URL", raising=False)


async def asked_for(message: str, *, stream: bool) -> Asked:
    return await ask(ChatClient(DemoModel(), tools=shipped()), message, stream=stream)


@cache
def shipped() -> tuple[Tool, ...]:
    """The tools, found once: to make schemas takes longer than all these questions."""
    return discover(["tools"])


def runs_of(asked: Asked) -> list[tuple[str, object]]:
    """The tools that were run, with their arguments."""
    return [(run.name, json.loads(run.arguments)) for run in asked.response.tool_runs]


def test_these_tools_are_shipped() -> None:
    assert [tool.definition.name for tool in shipped()] == [
        "calculate",
        "current_time",
        "days_between",
        "add_to_date",
        "get_weather",
    ]


@both_modes
@pytest.mark.parity(60)
async def test_the_weather_of_two_cities_is_two_runs_and_one_answer(stream: bool) -> None:
    asked = await asked_for("What is the weather in Paris and Oslo?", stream=stream)

    assert runs_of(asked) == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Oslo"})]
    assert asked.response.finish_reason is FinishReason.STOP
    assert len(asked.response.rounds) == 2
    paris, oslo = asked.response.content.splitlines()
    assert "city: Paris" in paris
    assert "city: Oslo" in oslo
    assert "not real weather" in paris
    assert [event.message for event in asked.of(ToolCallProgress)].count("Looking for Oslo") == 1


@both_modes
@pytest.mark.parametrize(
    ("message", "run", "said"),
    [
        ("What time is it in Tokyo?", ("current_time", {"zone": "Asia/Tokyo"}), "+09:00"),
        ("What's today's date?", ("current_time", {}), "UTC"),
        ("What day is it?", ("current_time", {}), "weekday"),
        ("what is 12.5% of 80", ("calculate", {"expression": "12.5 / 100 * 80"}), "`calculate` gives 10."),
        ("What is (3+4)*2?", ("calculate", {"expression": "(3+4)*2"}), "`calculate` gives 14."),
        (
            "How many days between 2024-01-01 and 2024-03-01?",
            ("days_between", {"start": "2024-01-01", "end": "2024-03-01"}),
            "`days_between` gives 60.",
        ),
        (
            "What date is 3 months after 2024-11-30?",
            ("add_to_date", {"start": "2024-11-30", "months": 3}),
            "`add_to_date` gives 2025-02-28.",
        ),
        (
            "What is the temperature in New York in fahrenheit?",
            ("get_weather", {"city": "New York", "unit": "fahrenheit"}),
            "unit: fahrenheit",
        ),
        ("What is 1/0?", ("calculate", {"expression": "1/0"}), "failed: The expression divides by zero."),
        ("what is 9**9**9", ("calculate", {"expression": "9**9**9"}), "too large"),
        ("Weather in Lodnon", ("get_weather", {"city": "Lodnon"}), "Did you mean London?"),
        ("What time is it in Atlantis?", ("current_time", {"zone": "Atlantis"}), "There is no time zone"),
    ],
)
async def test_a_question_runs_the_tool_that_answers_it(
    message: str, run: tuple[str, object], said: str, stream: bool
) -> None:
    asked = await asked_for(message, stream=stream)

    assert runs_of(asked) == [run]
    assert said in asked.response.content
    assert asked.response.model == "demo"
    if stream:
        assert asked.last_text == asked.response.content


@both_modes
async def test_two_questions_in_one_message_run_two_tools(stream: bool) -> None:
    asked = await asked_for("What is 2+2 and what time is it in Tokyo?", stream=stream)

    assert runs_of(asked) == [("calculate", {"expression": "2+2"}), ("current_time", {"zone": "Asia/Tokyo"})]


@both_modes
@pytest.mark.parity(1)
async def test_a_greeting_runs_nothing(stream: bool) -> None:
    asked = await asked_for("Hello!", stream=stream)

    assert runs_of(asked) == []
    assert "`get_weather`: Tell the current weather in a city" in asked.response.content


@both_modes
async def test_what_is_missing_is_asked_for(stream: bool) -> None:
    asked = await asked_for("What's the weather?", stream=stream)

    assert asked.response.content == "I would call `get_weather`, but the message does not say `city`."
