"""The scripted model: what other tests stand on."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import (
    AssistantMessage,
    ChatEvent,
    ChatResponse,
    Completed,
    FinishReason,
    ModelProtocolError,
    Prompt,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallReady,
    ToolCallStarted,
    Usage,
    well_formed,
)
from app.providers.pieces import in_pieces, words
from app.providers.scripted import Cut, ScriptedModel, tool_calls

HELLO = Prompt.of("Hello")


async def collect(model: ScriptedModel) -> list[ChatEvent]:
    return [event async for event in well_formed(model.stream(HELLO))]


async def test_replies_come_in_order_and_prompts_are_kept() -> None:
    model = ScriptedModel("one", AssistantMessage("two"), forever="more")

    assert [(await model.call(HELLO)).content for _ in range(4)] == ["one", "two", "more", "more"]
    assert model.prompts == [HELLO] * 4


async def test_a_call_and_a_stream_of_the_same_script_give_the_same_answer() -> None:
    reply = ChatResponse.of_call(tool_calls(("add", {"a": 1}), content="Let me see"), FinishReason.TOOL_CALLS)

    (*deltas, last) = await collect(ScriptedModel(reply))

    assert last == Completed(await ScriptedModel(reply).call(HELLO))
    assert deltas == [
        *(TextDelta(word) for word in ["Let", " me", " see"]),
        ToolCallStarted("call_1", "add"),
        ToolCallArguments("call_1", "add", '{"a": 1}'),
        ToolCallReady(reply.tool_calls[0]),
    ]


async def test_calls_make_the_finish_reason_and_usage_is_reported_where_given() -> None:
    answer = await ScriptedModel(tool_calls(("add", "{broken")), usage=Usage(1, 2, 3)).call(HELLO)

    assert (answer.finish_reason, answer.usage) == (FinishReason.TOOL_CALLS, Usage(1, 2, 3))
    assert answer.tool_calls[0].arguments == "{broken"


async def test_a_cut_reply_is_streamed_up_to_the_cut_and_raised_as_a_whole() -> None:
    error = ModelProtocolError("cut")
    seen: list[ChatEvent] = []

    with pytest.raises(ModelProtocolError):
        async for event in ScriptedModel(Cut("half an", error)).stream(HELLO):
            seen.append(event)  # noqa: PERF401 - what came before the error counts
    with pytest.raises(ModelProtocolError):
        await ScriptedModel(Cut("half an", error)).call(HELLO)

    assert seen == [TextDelta("half"), TextDelta(" an")]


async def test_a_reply_can_be_worked_out_and_waited_for() -> None:
    gate = asyncio.Event()

    async def wait(prompt: Prompt) -> str:
        await gate.wait()
        return "waited"

    asking = asyncio.create_task(ScriptedModel(wait).call(HELLO))
    gate.set()

    assert (await asking).content == "waited"


async def test_errors_are_raised_and_closing_is_remembered() -> None:
    model = ScriptedModel(ValueError("no"))

    with pytest.raises(ValueError, match="no"):
        await model.call(HELLO)
    await model.aclose()

    assert model.closed


def test_reasoning_comes_in_pieces_before_the_text() -> None:
    events = list(in_pieces(ChatResponse.of_call(AssistantMessage("so", reasoning="well then"))))

    assert events[:3] == [ReasoningDelta("well"), ReasoningDelta(" then"), TextDelta("so")]


@given(st.text())
def test_pieces_joined_are_the_text(text: str) -> None:
    assert "".join(words(text)) == text
