"""Limits on the calls of one turn."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import (
    AssistantMessage,
    ConfigurationError,
    Message,
    SystemMessage,
    ToolCall,
    ToolCallLimitExceeded,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from app.providers.scripted import tool_calls
from app.tooling.limits import ToolCallLimits, canonical_arguments, refusals
from app.tooling.manager import ToolCallingManager
from tests.support.executing import QUESTION, Executed, execute
from tests.support.modes import both_modes
from tests.support.tools import echo

UNLIMITED = ToolCallLimits(per_tool=None, total=None, rounds=None, identical=None)


def asking(tool: str, count: int, *, since: int = 0) -> AssistantMessage:
    """A message that asks for a tool so many times, each time with other arguments."""
    return tool_calls(*((tool, {"n": number}) for number in range(since, since + count)))


def answered(message: AssistantMessage) -> tuple[Message, Message]:
    """The message and its results, as they stand in a history."""
    results = tuple(ToolResult(call.id, call.name, "11 m") for call in message.tool_calls)
    return message, ToolMessage(results)


async def run(
    message: AssistantMessage, *, stream: bool, limits: ToolCallLimits, history: tuple[Message, ...] = (QUESTION,)
) -> Executed:
    """Run a message of calls of the tools `depth` and `tide`."""
    return await execute(
        message,
        [echo("depth"), echo("tide")],
        stream=stream,
        manager=ToolCallingManager(limits=limits),
        history=history,
    )


def breach_of(done: Executed) -> ToolCallLimitExceeded:
    """The limit reached, which there must be."""
    breach = done.execution.breach
    assert breach is not None
    return breach


@both_modes
@pytest.mark.parity(75, 76)
@pytest.mark.parametrize("on_limit", ["raise", "return_error"])
async def test_a_call_beyond_the_limit_of_its_tool_is_refused_and_the_rest_of_the_batch_is_run(
    stream: bool, on_limit: Any
) -> None:
    message = tool_calls(("depth", {"n": 1}), ("depth", {"n": 2}), ("tide", {}), ("depth", {"n": 3}))

    done = await run(message, stream=stream, limits=replace(UNLIMITED, per_tool=1, on_limit=on_limit))

    assert done.failed == [False, True, False, True]
    assert done.texts[0] == '{"n": 1}'
    assert "the limit of 1 calls of the tool depth in one turn is reached" in done.texts[1]
    breach = breach_of(done)
    assert (breach.kind, breach.limit, breach.tool, str(breach)) == ("calls_per_tool", 1, "depth", done.texts[1])


@both_modes
async def test_within_the_limits_there_is_no_breach(stream: bool) -> None:
    done = await run(asking("depth", 3), stream=stream, limits=replace(UNLIMITED, per_tool=3, total=3, rounds=2))

    assert done.failed == [False] * 3
    assert done.execution.breach is None


@both_modes
@pytest.mark.parity(78)
async def test_the_limit_over_all_tools_names_no_tool(stream: bool) -> None:
    message = tool_calls(("depth", {}), ("tide", {}), ("depth", {"n": 2}))

    done = await run(message, stream=stream, limits=replace(UNLIMITED, total=2))

    assert done.failed == [False, False, True]
    assert "the limit of 2 tool calls in one turn is reached" in done.texts[2]
    assert "depth" not in done.texts[2]
    breach = breach_of(done)
    assert (breach.kind, breach.limit, breach.tool) == ("total_calls", 2, None)


@both_modes
async def test_the_breach_is_the_first_limit_reached(stream: bool) -> None:
    message = tool_calls(("depth", {"n": 1}), ("tide", {}), ("depth", {"n": 2}), ("tide", {"n": 2}))

    done = await run(message, stream=stream, limits=replace(UNLIMITED, per_tool=1, total=3))

    assert breach_of(done).kind == "calls_per_tool"
    assert done.failed == [False, False, True, True]


@both_modes
async def test_a_tools_own_limit_goes_before_the_general_one(stream: bool) -> None:
    manager = ToolCallingManager(limits=replace(UNLIMITED, per_tool=2))
    tools = [echo("rare", max_calls=1), echo("frequent", max_calls=4), echo("other")]
    message = AssistantMessage(
        "",
        tuple(
            ToolCall(f"{name} {n}", name, f'{{"n": {n}}}')
            for name, asked in [("rare", 2), ("frequent", 5), ("other", 3)]
            for n in range(asked)
        ),
    )

    done = await execute(message, tools, stream=stream, manager=manager)

    ran = [result.name for result in done.results if not result.is_error]
    assert ran == ["rare", *["frequent"] * 4, *["other"] * 2]


@both_modes
@pytest.mark.parity(77)
async def test_uncounted_tools_are_never_refused_and_use_up_no_ones_calls(stream: bool) -> None:
    limits = ToolCallLimits(per_tool=1, total=1, identical=1, uncounted=frozenset({"tide"}))
    message = tool_calls(("tide", {}), ("tide", {}), ("tide", {}), ("depth", {}), ("tide", {}))

    done = await run(message, stream=stream, limits=limits)

    assert done.failed == [False] * 5


at_each_limit = pytest.mark.parametrize(
    ("field", "kind", "earlier", "message"),
    [
        ("per_tool", "calls_per_tool", [asking("depth", 40)], asking("depth", 1, since=40)),
        ("total", "total_calls", [asking(f"tool_{n}", 30) for n in range(5)], asking("depth", 1)),
        ("rounds", "rounds", [asking("depth", 1, since=n) for n in range(25)], asking("depth", 1, since=25)),
        ("identical", "identical_calls", [tool_calls(("depth", {}))] * 3, tool_calls(("depth", {}))),
    ],
    ids=["per tool", "total", "rounds", "identical"],
)
"""Histories of a turn that reach one of the default limits and no other, and the call that is one too many."""


@pytest.mark.parity(79)
def test_the_limits_are_forty_calls_of_a_tool_150_in_all_25_rounds_and_three_times_the_same() -> None:
    limits = ToolCallLimits()

    assert (limits.per_tool, limits.total, limits.rounds, limits.identical) == (40, 150, 25, 3)
    assert limits.on_limit == "raise"


@both_modes
@at_each_limit
@pytest.mark.parity(79)
@pytest.mark.fault("L01")
async def test_there_are_limits_without_any_configuration(
    stream: bool, field: str, kind: str, earlier: list[AssistantMessage], message: AssistantMessage
) -> None:
    history = [part for asked in earlier for part in answered(asked)]

    done = await run(message, stream=stream, limits=ToolCallLimits(), history=(QUESTION, *history))
    one_before = await run(message, stream=stream, limits=ToolCallLimits(), history=(QUESTION, *history[2:]))

    assert (breach_of(done).kind, breach_of(done).limit) == (kind, getattr(ToolCallLimits(), field))
    assert (done.failed, one_before.failed) == ([True], [False])


@both_modes
@at_each_limit
@pytest.mark.parity(80)
async def test_each_limit_can_be_switched_off_by_itself(
    stream: bool, field: str, kind: str, earlier: list[AssistantMessage], message: AssistantMessage
) -> None:
    history = (QUESTION, *(part for asked in earlier for part in answered(asked)))
    switched_off: dict[str, Any] = {field: None}
    alone: dict[str, Any] = {field: getattr(ToolCallLimits(), field)}

    off = await run(message, stream=stream, limits=replace(ToolCallLimits(), **switched_off), history=history)
    others_off = await run(message, stream=stream, limits=replace(UNLIMITED, **alone), history=history)

    assert off.failed == [False]
    assert breach_of(others_off).kind == kind


every_limit = pytest.mark.parametrize(
    "limits",
    [
        replace(UNLIMITED, per_tool=1),
        replace(UNLIMITED, total=1),
        replace(UNLIMITED, identical=1),
        replace(UNLIMITED, rounds=1),
    ],
    ids=["per tool", "total", "identical", "rounds"],
)


@both_modes
@pytest.mark.parity(81, 82)
@every_limit
async def test_calls_of_earlier_turns_do_not_count(stream: bool, limits: ToolCallLimits) -> None:
    message = tool_calls(("depth", {}))
    history = (SystemMessage("Be brief."), QUESTION, *answered(message), AssistantMessage("11 m"), UserMessage("Sure?"))

    done = await run(message, stream=stream, limits=limits, history=history)

    assert done.failed == [False]


@both_modes
@pytest.mark.parity(83)
@every_limit
async def test_calls_of_earlier_rounds_of_the_turn_count(stream: bool, limits: ToolCallLimits) -> None:
    message = tool_calls(("depth", {}))

    done = await run(message, stream=stream, limits=limits, history=(QUESTION, *answered(message)))

    assert done.failed == [True]


@both_modes
@pytest.mark.fault("L01")
async def test_the_calls_of_the_last_round_allowed_are_run_and_it_is_said_that_it_was_the_last(stream: bool) -> None:
    history = (QUESTION, *answered(asking("depth", 1)), *answered(asking("depth", 1, since=1)))

    done = await run(
        tool_calls(("depth", {}), ("tide", {})), stream=stream, limits=replace(UNLIMITED, rounds=3), history=history
    )

    assert done.failed == [False, False]
    breach = breach_of(done)
    assert (breach.kind, breach.limit, breach.tool) == ("rounds", 3, None)
    assert str(breach) == "This was the last round: the limit of 3 rounds in one turn is reached."


@both_modes
@pytest.mark.fault("L01")
async def test_the_calls_of_a_round_beyond_the_limit_are_all_refused(stream: bool) -> None:
    history = (QUESTION, *(message for n in range(3) for message in answered(asking("depth", 1, since=n))))

    done = await run(
        tool_calls(("depth", {}), ("tide", {})), stream=stream, limits=replace(UNLIMITED, rounds=3), history=history
    )

    assert done.failed == [True, True]
    assert "the limit of 3 rounds in one turn is reached" in done.texts[0]
    breach = breach_of(done)
    assert (breach.kind, breach.limit, breach.tool) == ("rounds", 3, None)


@both_modes
async def test_answers_without_calls_are_no_rounds(stream: bool) -> None:
    history = (QUESTION, AssistantMessage("Let me see."), AssistantMessage("One moment."))

    done = await run(asking("depth", 1), stream=stream, limits=replace(UNLIMITED, rounds=2), history=history)

    assert done.failed == [False]


@both_modes
@pytest.mark.fault("L02")
async def test_the_same_call_is_refused_after_three_times_and_another_is_not(stream: bool) -> None:
    message = AssistantMessage(
        "",
        tuple(
            ToolCall(str(number), name, arguments)
            for number, (name, arguments) in enumerate(
                [
                    ("depth", '{"harbour":"Kiel","unit":"m"}'),
                    ("depth", ' { "unit": "m", "harbour": "Kiel" } '),
                    ("depth", '{"harbour":"Ki\\u0065l","unit":"m"}'),
                    ("depth", '{"harbour":"Kiel","unit":"m"}'),
                    ("depth", '{"harbour":"Kiel","unit":"ft"}'),
                    ("tide", '{"harbour":"Kiel","unit":"m"}'),
                ]
            )
        ),
    )

    done = await run(message, stream=stream, limits=replace(UNLIMITED, identical=3))

    assert done.failed == [False, False, False, True, False, False]
    assert "the tool depth was called with these very arguments before" in done.texts[3]
    assert "the limit of 3 identical calls is reached" in done.texts[3]
    breach = breach_of(done)
    assert (breach.kind, breach.limit, breach.tool) == ("identical_calls", 3, "depth")


@pytest.mark.fault("L02")
@pytest.mark.parametrize(
    "arguments", ['{"harbour": "Kie', "[" * 100_000, "1" * 5000], ids=["cut", "too deep", "too long a number"]
)
def test_arguments_that_cannot_be_read_are_identical_only_to_themselves(arguments: str) -> None:
    calls = [ToolCall(str(n), "depth", text) for n, text in enumerate([arguments, arguments, arguments + " "])]

    breaches = refusals(calls, asked=[], tools={}, limits=replace(UNLIMITED, identical=1))

    assert [breach is not None for breach in breaches] == [False, True, False]


def test_no_arguments_are_the_same_as_empty_ones() -> None:
    assert canonical_arguments("") == canonical_arguments(" \n") == canonical_arguments("{ }") == "{}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def reversed_keys(value: Any) -> Any:
    """The same with the keys of all objects in the opposite order."""
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@pytest.mark.fault("L02")
@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_how_arguments_are_written_makes_no_difference(value: Any, indent: int | None, ascii_only: bool) -> None:
    written_otherwise = json.dumps(reversed_keys(value), indent=indent, ensure_ascii=ascii_only)

    assert canonical_arguments(written_otherwise) == canonical_arguments(json.dumps(value))


@pytest.mark.fault("L02")
@given(JSON, JSON)
def test_arguments_that_say_something_else_are_something_else(one: Any, other: Any) -> None:
    same_text = canonical_arguments(json.dumps(one)) == canonical_arguments(json.dumps(other))

    assert same_text == (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))


@pytest.mark.parametrize("limit", ["per_tool", "total", "rounds", "identical"])
def test_a_limit_below_one_is_a_mistake(limit: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{limit} must be at least 1"):
        ToolCallLimits(**{limit: 0})  # type: ignore[arg-type]  # the names are all those of limits


def test_a_limit_whose_end_is_not_known_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="'shrug'"):
        ToolCallLimits(on_limit="shrug")  # type: ignore[arg-type]  # that it is checked is the point
