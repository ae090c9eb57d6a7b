"""Options: what is not said is decided by the next lower default."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from app.chat import ChatOptions, ChatRequest, Prompt, Tool, ToolContext, ToolDefinition, ToolMetadata, UserMessage


class NamedTool:
    """A tool that gives its own name."""

    def __init__(self, name: str) -> None:
        self.definition = ToolDefinition(name, "")
        self.metadata = ToolMetadata()

    async def call(self, arguments: str, context: ToolContext) -> str:
        return self.definition.name


ONE, OTHER = NamedTool("one"), NamedTool("other")
SAID: dict[str, Any] = {
    "model": "m",
    "temperature": 0.5,
    "top_p": 0.5,
    "max_tokens": 5,
    "stop": ("x",),
    "seed": 5,
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "response_format": {"type": "text"},
    "timeout": 5.0,
    "tools": (ONE,),
    "tool_context": {"k": 1},
    "extra": {"e": 1},
}


@pytest.mark.parametrize("name", [option.name for option in fields(ChatOptions)])
def test_an_option_that_is_not_said_comes_from_the_defaults(name: str) -> None:
    assert getattr(ChatOptions().over(ChatOptions(**SAID)), name) == SAID[name]


@pytest.mark.parametrize("name", [option.name for option in fields(ChatOptions)])
def test_an_option_that_is_said_stays_where_the_defaults_say_nothing(name: str) -> None:
    assert getattr(ChatOptions(**SAID).over(ChatOptions()), name) == SAID[name]


@pytest.mark.parametrize("name", [option.name for option in fields(ChatOptions)])
def test_each_option_is_decided_by_itself(name: str) -> None:
    others = ChatOptions(**{other: said for other, said in SAID.items() if other != name})
    alone = ChatOptions(**{name: SAID[name]})

    assert others.over(alone) == alone.over(others) == ChatOptions(**SAID)


def test_a_zero_is_said() -> None:
    assert ChatOptions(temperature=0.0).over(ChatOptions(temperature=1.0)).temperature == 0.0


@pytest.mark.parity(98)
def test_tools_of_a_request_replace_the_default_ones() -> None:
    assert ChatOptions(tools=(OTHER,)).over(ChatOptions(tools=(ONE,))).tools == (OTHER,)


@pytest.mark.parity(99)
def test_a_request_that_says_nothing_of_tools_gets_the_default_ones_and_an_empty_list_means_none() -> None:
    defaults = ChatOptions(tools=(ONE,))

    assert ChatOptions().over(defaults).tools == (ONE,)
    assert ChatOptions(tools=()).over(defaults).tools == ()


@pytest.mark.parity(61, 100)
def test_tool_contexts_are_united_and_the_request_wins() -> None:
    merged = ChatOptions(tool_context={"a": 1, "b": 2}).over(ChatOptions(tool_context={"b": 3, "c": 4}))

    assert merged.tool_context == {"a": 1, "b": 2, "c": 4}


@pytest.mark.fault("K08")
def test_merging_changes_neither_side() -> None:
    mine, defaults = ChatOptions(tool_context={"a": 1}), ChatOptions(tool_context={"b": 2})

    mine.over(defaults)

    assert (mine.tool_context, defaults.tool_context) == ({"a": 1}, {"b": 2})


@pytest.mark.parity(102)
def test_options_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        ChatOptions().model = "other"  # type: ignore[misc]  # the point of the test


ASKED = ChatRequest(
    Prompt.of("Hello", seed=3),
    stream=True,
    conversation_id="c",
    principal="p",
    round=2,
    turn=(UserMessage("Hello"),),
    attributes={"a": 1},
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"prompt": Prompt.of("Bye")},
        {"round": 3},
        {"turn": ()},
        {"prompt": Prompt.of("Bye"), "round": 3, "turn": ()},
    ],
    ids=" ".join,
)
def test_a_request_that_is_changed_is_otherwise_the_same(changes: dict[str, Any]) -> None:
    assert ASKED.changed(**changes) == replace(ASKED, **changes)


def test_the_request_that_is_changed_here_says_something_in_each_field() -> None:
    silent = ChatRequest(Prompt.of("Bye"))

    assert [each.name for each in fields(silent) if getattr(ASKED, each.name) == getattr(silent, each.name)] == []


def test_a_prompt_of_a_text_is_one_user_message() -> None:
    assert Prompt.of("Hello", seed=3) == Prompt((UserMessage("Hello"),), ChatOptions(seed=3))


def test_a_class_with_the_three_members_is_a_tool() -> None:
    assert isinstance(ONE, Tool)


def test_a_time_for_the_call_leaves_the_other_options_as_they_are() -> None:
    assert ChatOptions(**SAID).within(2.5) == ChatOptions(**SAID | {"timeout": 2.5})
