"""Summaries made by the model: what it is asked, and what of its answers is taken."""

from __future__ import annotations

import pytest

from app.advisors.summarizer import ModelSummarizer
from app.chat import (
    AssistantMessage,
    ChatResponse,
    ConfigurationError,
    FinishReason,
    ModelProtocolError,
    ModelUnavailable,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from app.providers.scripted import ScriptedModel
from tests.memory.histories import plain_turn, tool_turn


def summarizer(model: ScriptedModel) -> ModelSummarizer:
    made = ModelSummarizer()
    made.model = model
    return made


async def test_the_model_is_told_what_was_said_and_its_words_are_the_summary() -> None:
    model = ScriptedModel("  They spoke of barley.\n")
    said = (*plain_turn(1), *tool_turn(2), AssistantMessage(refusal="I will not say."))

    assert await summarizer(model)(None, said) == "They spoke of barley."
    (prompt,) = model.prompts
    task, text = prompt.messages
    assert isinstance(task, SystemMessage)
    assert "summary" in task.content
    assert isinstance(text, UserMessage)
    assert text.content.split("\n\n") == [
        "User: What grows on field 1?",
        "Assistant: Barley grows on field 1.",
        "User: What grows on field 2?",
        "Assistant calls look with {}",
        "Result of look: barley",
        "Assistant: Barley grows on field 2.",
        "Assistant: I will not say.",
    ]


async def test_what_the_model_was_told_to_be_is_no_part_of_what_was_said() -> None:
    model = ScriptedModel("They spoke.")

    await summarizer(model)(None, (SystemMessage("You are a farmer."), *plain_turn(1)))

    (prompt,) = model.prompts
    assert "farmer" not in "".join(str(message) for message in prompt.messages)
    assert "barley" in str(prompt.messages[-1]).lower()


async def test_no_tools_are_offered() -> None:
    model = ScriptedModel("They spoke.")
    await summarizer(model)(None, plain_turn(1))

    assert model.prompts[0].options.tools == ()


async def test_words_beside_calls_and_several_results_are_told_too() -> None:
    model = ScriptedModel("They spoke.")
    calls = (ToolCall("a", "depth", '{"well":1}'), ToolCall("b", "depth", '{"well":2}'))
    results = ToolMessage((ToolResult("a", "depth", "9 m"), ToolResult("b", "depth", "7 m")))
    await summarizer(model)(None, (AssistantMessage("Let me look.", calls, reasoning="Hm."), results))
    text = model.prompts[0].messages[1]

    assert isinstance(text, UserMessage)
    assert text.content.split("\n\n") == [
        "Assistant: Let me look.",
        'Assistant calls depth with {"well":1}',
        'Assistant calls depth with {"well":2}',
        "Result of depth: 9 m",
        "Result of depth: 7 m",
    ]


async def test_the_summary_so_far_is_told_before() -> None:
    model = ScriptedModel("All of it.")
    await summarizer(model)("They spoke of wells.", plain_turn(1))
    text = model.prompts[0].messages[1]

    assert isinstance(text, UserMessage)
    assert text.content.startswith("Earlier summary: They spoke of wells.\n\nUser: What grows on field 1?")


@pytest.mark.parametrize(
    "answer",
    [
        ChatResponse.of_call(AssistantMessage("They spoke of"), FinishReason.LENGTH),
        ChatResponse.of_call(AssistantMessage("They spoke of"), FinishReason.CONTENT_FILTER),
        ChatResponse.of_call(AssistantMessage(refusal="I will not."), FinishReason.STOP),
        ChatResponse.of_call(AssistantMessage(" \n"), FinishReason.STOP),
        ChatResponse.of_call(AssistantMessage("", (ToolCall("a", "look"),)), FinishReason.TOOL_CALLS),
    ],
    ids=["cut", "filtered", "refused", "empty", "calls"],
)
async def test_half_a_summary_is_none(answer: ChatResponse) -> None:
    with pytest.raises(ModelProtocolError, match="there is no whole summary"):
        await summarizer(ScriptedModel(answer))(None, plain_turn(1))


async def test_a_model_that_fails_makes_none() -> None:
    with pytest.raises(ModelUnavailable):
        await summarizer(ScriptedModel(ModelUnavailable("nobody listens")))(None, plain_turn(1))


async def test_without_a_model_there_is_none() -> None:
    with pytest.raises(ConfigurationError, match="there is no model to make summaries"):
        await ModelSummarizer()(None, plain_turn(1))
