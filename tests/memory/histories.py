"""Histories to remember, written short, and the strategies that make them up."""

from __future__ import annotations

from hypothesis import strategies as st

from app.chat import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, ToolResult, UserMessage


def question(number: int) -> UserMessage:
    """What the user asks in a turn."""
    return UserMessage(f"What grows on field {number}?")


def answer(number: int) -> AssistantMessage:
    """What it is answered."""
    return AssistantMessage(f"Barley grows on field {number}.")


def plain_turn(number: int) -> tuple[Message, ...]:
    """Question and answer."""
    return question(number), answer(number)


def tool_turn(number: int, calls: int = 1) -> tuple[Message, ...]:
    """Question, calls, their results, answer."""
    names = [f"call_{number}_{index}" for index in range(calls)]
    return (
        question(number),
        AssistantMessage(tool_calls=tuple(ToolCall(name, "look") for name in names)),
        ToolMessage(tuple(ToolResult(name, "look", "barley") for name in names)),
        answer(number),
    )


systems = st.lists(st.sampled_from([SystemMessage("Be brief."), SystemMessage("Be kind.")]), max_size=2)


@st.composite
def turns(draw: st.DrawFn) -> tuple[Message, ...]:
    """A whole turn: with or without calls in any number of rounds, with or without new system messages."""
    number = draw(st.integers(0, 5))
    rounds = draw(st.lists(st.integers(1, 2), max_size=2))
    middle = [message for calls in rounds for message in tool_turn(number, calls)[1:3]]
    return (*draw(systems), question(number), *middle, answer(number))
