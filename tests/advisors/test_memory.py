"""Memory outside of the tool loop: questions and answers, in both modes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

import pytest

from app.advisors import CallAdvisor, MemoryAdvisor, ToolCallingAdvisor
from app.advisors.compat import CallNextBlocking
from app.chat import (
    Advisor,
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    Completed,
    ConfigurationError,
    FinishReason,
    Message,
    ModelUnavailable,
    Prompt,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    chain,
)
from app.memory import InMemoryChatMemory
from app.providers.scripted import Cut, Reply, ScriptedModel, tool_calls
from app.tooling import ToolCallingManager
from tests.support.chains import request_of, run
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import giving

NAME, NAMED = UserMessage("My boat is called Tern."), AssistantMessage("A fine name.")
WHICH, TERN = UserMessage("What is my boat called?"), AssistantMessage("Tern.")
BRIEF, KIND = SystemMessage("Be brief."), SystemMessage("Be kind.")


class FullMemory(InMemoryChatMemory):
    """A store that cannot take any more."""

    async def append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        raise OSError("disk full")


@pytest.fixture
def memory() -> InMemoryChatMemory:
    return InMemoryChatMemory()


async def remembering(*messages: Message) -> InMemoryChatMemory:
    memory = InMemoryChatMemory()
    await memory.append("trip", messages)
    return memory


# --- recalling


@pytest.mark.parity(185)
@both_modes
async def test_a_second_turn_knows_what_was_said_in_the_first(memory: InMemoryChatMemory, *, stream: bool) -> None:
    model = ScriptedModel("A fine name.", "Tern.")
    for said in (NAME, WHICH):
        await run([MemoryAdvisor(memory)], model, [said], stream=stream, conversation_id="trip")
    assert model.prompts[1].messages == (NAME, NAMED, WHICH)
    assert await memory.get("trip") == (NAME, NAMED, WHICH, TERN)


@pytest.mark.parity(182, 184)
@both_modes
async def test_the_prompt_is_system_then_memory_then_the_request(*, stream: bool) -> None:
    memory = await remembering(NAME, NAMED)
    model = ScriptedModel("Tern.")
    await run([MemoryAdvisor(memory)], model, [WHICH, BRIEF], stream=stream, conversation_id="trip")
    assert model.prompts[0].messages == (BRIEF, NAME, NAMED, WHICH)


@pytest.mark.parity(182, 191)
@both_modes
async def test_remembered_instructions_hold_for_a_request_that_brings_none(*, stream: bool) -> None:
    memory = await remembering(BRIEF, NAME, NAMED)
    model = ScriptedModel("Tern.")
    await run([MemoryAdvisor(memory)], model, [WHICH], stream=stream, conversation_id="trip")
    assert model.prompts[0].messages == (BRIEF, NAME, NAMED, WHICH)
    assert await memory.get("trip") == (BRIEF, NAME, NAMED, WHICH, TERN)


@pytest.mark.parity(192)
@both_modes
async def test_the_requests_instructions_stand_for_the_remembered_ones(*, stream: bool) -> None:
    memory = await remembering(BRIEF, NAME, NAMED)
    model = ScriptedModel("Tern.")
    await run([MemoryAdvisor(memory)], model, [KIND, WHICH], stream=stream, conversation_id="trip")
    assert model.prompts[0].messages == (KIND, NAME, NAMED, WHICH)
    assert await memory.get("trip") == (KIND, NAME, NAMED, WHICH, TERN)


@pytest.mark.parity(181)
@both_modes
@pytest.mark.parametrize(
    "remembered",
    [(NAME, NAMED), (UserMessage("Hello"), AssistantMessage("Hi"), NAME, NAMED)],
    ids=["all-of-it", "its-end"],
)
async def test_history_that_the_caller_sends_along_is_not_doubled(
    remembered: tuple[Message, ...], *, stream: bool
) -> None:
    memory = await remembering(*remembered)
    model = ScriptedModel("Tern.")
    await run([MemoryAdvisor(memory)], model, [NAME, NAMED, WHICH], stream=stream, conversation_id="trip")
    assert model.prompts[0].messages == (*remembered, WHICH)
    assert await memory.get("trip") == (*remembered, WHICH, TERN)


@pytest.mark.parity(181)
@both_modes
async def test_a_caller_who_sends_more_than_the_window_holds_is_taken_at_their_word(*, stream: bool) -> None:
    memory = InMemoryChatMemory(max_messages=2)
    await memory.append("trip", (NAME, NAMED))
    model = ScriptedModel("Tern.")
    sent = (UserMessage("Hello"), AssistantMessage("Hi"), NAME, NAMED, WHICH)
    await run([MemoryAdvisor(memory)], model, sent, stream=stream, conversation_id="trip")
    assert model.prompts[0].messages == sent
    assert await memory.get("trip") == (WHICH, TERN)


@pytest.mark.parity(181)
@both_modes
async def test_the_same_question_asked_again_is_a_new_turn(*, stream: bool) -> None:
    memory = await remembering(WHICH, TERN)
    model = ScriptedModel("Still Tern.")
    await run([MemoryAdvisor(memory)], model, [WHICH], stream=stream, conversation_id="trip")
    assert model.prompts[0].messages == (WHICH, TERN, WHICH)
    assert await memory.get("trip") == (WHICH, TERN, WHICH, AssistantMessage("Still Tern."))


# --- keeping


@pytest.mark.parity(178)
@pytest.mark.fault("M10")
@both_modes
async def test_without_a_conversation_id_nothing_is_remembered_or_shared(
    memory: InMemoryChatMemory, *, stream: bool
) -> None:
    model = ScriptedModel("A fine name.", "I do not know.")
    for said in (NAME, WHICH):
        await run([MemoryAdvisor(memory)], model, [said], stream=stream)
    assert model.prompts[1].messages == (WHICH,)
    assert await memory.conversation_ids() == ()


@pytest.mark.parity(178, 194)
@both_modes
async def test_a_blank_conversation_id_is_refused(memory: InMemoryChatMemory, *, stream: bool) -> None:
    model = ScriptedModel("Hello.")
    with pytest.raises(ValueError, match="must not be blank"):
        await run([MemoryAdvisor(memory)], model, stream=stream, conversation_id=" ")
    assert model.prompts == []


@pytest.mark.parity(183)
@pytest.mark.fault("M13")
async def test_both_modes_remember_the_same_turn_once(memory: InMemoryChatMemory) -> None:
    for stream in (False, True):
        reply = AssistantMessage("A fine name.", reasoning="The user has a boat.")
        await run([MemoryAdvisor(memory)], ScriptedModel(reply), [NAME], stream=stream, conversation_id=f"{stream}")
    assert await memory.get("True") == await memory.get("False") == (NAME, NAMED)


@pytest.mark.parity(179)
@both_modes
async def test_the_turn_is_stored_when_the_answer_is_seen_and_not_before(
    memory: InMemoryChatMemory, *, stream: bool
) -> None:
    call_next = chain([MemoryAdvisor(memory)], ScriptedModel("A fine name."))
    seen: list[tuple[bool, tuple[Message, ...]]] = []
    async with aclosing(call_next(request_of([NAME], stream=stream, conversation_id="trip"))) as events:
        seen += [(isinstance(event, Completed), await memory.get("trip")) async for event in events]
    assert {stored for is_last, stored in seen if not is_last} == {()}
    assert seen[-1] == (True, (NAME, NAMED))


@both_modes
async def test_a_store_that_fails_is_an_error_of_the_run(*, stream: bool) -> None:
    with pytest.raises(OSError, match="disk full"):
        await run([MemoryAdvisor(FullMemory())], ScriptedModel("Hi."), stream=stream, conversation_id="trip")


@both_modes
@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTENT_FILTER])
async def test_an_answer_with_text_is_remembered_whatever_ended_it(
    memory: InMemoryChatMemory, reason: FinishReason, *, stream: bool
) -> None:
    model = ScriptedModel(ChatResponse.of_call(NAMED, reason))
    await run([MemoryAdvisor(memory)], model, [NAME], stream=stream, conversation_id="trip")
    assert await memory.get("trip") == (NAME, NAMED)


@both_modes
async def test_a_refusal_is_remembered_as_a_refusal(memory: InMemoryChatMemory, *, stream: bool) -> None:
    refused = AssistantMessage(refusal="I cannot help with that.")
    await run([MemoryAdvisor(memory)], ScriptedModel(refused), [NAME], stream=stream, conversation_id="trip")
    assert await memory.get("trip") == (NAME, refused)


@pytest.mark.fault("M05")
@both_modes
@pytest.mark.parametrize(
    "reply",
    [
        tool_calls(("look", {})),
        tool_calls(("look", {}), content="Let me look."),
        ChatResponse.of_call(tool_calls(("look", {}), content="Let me look."), FinishReason.LENGTH),
        ChatResponse.of_call(tool_calls(("look", {}), content="Let me look."), FinishReason.STOP),
        ChatResponse.of_call(AssistantMessage("So far"), FinishReason.TOOL_CALL_LIMIT),
        ChatResponse.of_call(AssistantMessage("So far"), FinishReason.CANCELLED),
        ChatResponse.of_call(AssistantMessage("So far"), FinishReason.DEADLINE),
        AssistantMessage(),
        AssistantMessage(" \n"),
        ChatResponse.of_call(AssistantMessage(), FinishReason.CONTENT_FILTER),
        AssistantMessage(reasoning="Hm."),
    ],
    ids=[
        "calls", "text-and-calls", "cut-calls", "calls-left-to-the-caller", "limit", "cancelled", "deadline", "empty",
        "blank", "filtered-empty", "only-thought",
    ],
)  # fmt: skip
async def test_a_turn_without_an_answer_leaves_memory_as_it_was(reply: Reply, *, stream: bool) -> None:
    memory = await remembering(NAME, NAMED)
    await run([MemoryAdvisor(memory)], ScriptedModel(reply), [WHICH], stream=stream, conversation_id="trip")
    assert await memory.get("trip") == (NAME, NAMED)


@pytest.mark.parity(165)
@both_modes
async def test_a_failed_turn_leaves_memory_as_it_was(*, stream: bool) -> None:
    memory = await remembering(NAME, NAMED)
    model = ScriptedModel(Cut("It is call", ModelUnavailable("the server went away")))
    with pytest.raises(ModelUnavailable):
        await run([MemoryAdvisor(memory)], model, [WHICH], stream=stream, conversation_id="trip")
    assert await memory.get("trip") == (NAME, NAMED)


@pytest.mark.fault("M05")
@both_modes
async def test_a_cancelled_turn_leaves_memory_as_it_was(*, stream: bool) -> None:
    memory = await remembering(NAME, NAMED)
    reply = Hesitant()
    running = asyncio.create_task(
        run([MemoryAdvisor(memory)], ScriptedModel(reply), [WHICH], stream=stream, conversation_id="trip")
    )
    await asyncio.wait_for(reply.asked.wait(), PATIENCE)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await memory.get("trip") == (NAME, NAMED)


async def test_a_reader_who_leaves_before_the_answer_leaves_memory_as_it_was() -> None:
    memory = await remembering(NAME, NAMED)
    call_next = chain([MemoryAdvisor(memory)], ScriptedModel("It is called Tern."))
    async with aclosing(call_next(request_of([WHICH], stream=True, conversation_id="trip"))) as events:
        async for event in events:
            assert not isinstance(event, Completed)
            break
    assert await memory.get("trip") == (NAME, NAMED)


@pytest.mark.fault("M02")
@both_modes
async def test_of_a_loop_that_the_caller_drove_the_question_and_the_answer_are_remembered(
    memory: InMemoryChatMemory, *, stream: bool
) -> None:
    asked = AssistantMessage("Let me look.", (ToolCall("call_1", "look"),))
    found = ToolMessage((ToolResult("call_1", "look", "Tern"),))
    model = ScriptedModel(asked, TERN)
    await run([MemoryAdvisor(memory)], model, [WHICH], stream=stream, conversation_id="trip")
    sent: tuple[Message, ...] = (BRIEF, WHICH, asked, found)
    await run([MemoryAdvisor(memory)], model, sent, stream=stream, conversation_id="trip")
    assert model.prompts[1].messages == sent
    assert await memory.get("trip") == (BRIEF, WHICH, TERN)


@pytest.mark.fault("M02", "M13")
@both_modes
async def test_of_a_turn_with_tools_the_question_and_the_answer_are_remembered(
    memory: InMemoryChatMemory, *, stream: bool
) -> None:
    advisors: list[Advisor] = [MemoryAdvisor(memory), ToolCallingAdvisor(ToolCallingManager())]
    model = ScriptedModel(tool_calls(("look", {}), content="Let me look."), TERN, "As I said.")
    tools = (giving("look", "Tern"),)
    await run(advisors, model, [WHICH], stream=stream, conversation_id="trip", tools=tools)
    assert await memory.get("trip") == (WHICH, TERN)
    await run(advisors, model, [WHICH], stream=stream, conversation_id="trip", tools=tools)
    assert model.prompts[-1].messages == (WHICH, TERN, WHICH)


@both_modes
async def test_a_result_that_is_the_answer_is_remembered_as_the_answer(
    memory: InMemoryChatMemory, *, stream: bool
) -> None:
    advisors: list[Advisor] = [MemoryAdvisor(memory), ToolCallingAdvisor(ToolCallingManager())]
    model = ScriptedModel(tool_calls(("look", {}), content="Let me look."))
    tools = (giving("look", "Tern.", return_direct=True),)
    await run(advisors, model, [WHICH], stream=stream, conversation_id="trip", tools=tools)
    assert await memory.get("trip") == (WHICH, TERN)


@pytest.mark.parity(181)
@both_modes
async def test_a_history_with_calls_is_recognised_by_its_questions_and_answers(*, stream: bool) -> None:
    memory = await remembering(WHICH, TERN)
    asked = AssistantMessage(tool_calls=(ToolCall("call_1", "look"),))
    found = ToolMessage((ToolResult("call_1", "look", "Tern"),))
    sent: tuple[Message, ...] = (WHICH, asked, found, AssistantMessage(), replace(TERN, reasoning="Easy."), NAME)
    model = ScriptedModel(NAMED)
    await run([MemoryAdvisor(memory)], model, sent, stream=stream, conversation_id="trip")
    assert model.prompts[0].messages == sent
    assert await memory.get("trip") == (WHICH, TERN, NAME, NAMED)


@both_modes
async def test_what_is_remembered_is_the_answer_as_the_caller_gets_it(
    memory: InMemoryChatMemory, *, stream: bool
) -> None:
    async def shout(request: ChatRequest, call_next: CallNextBlocking) -> ChatResponse:
        response = await call_next(request)
        return replace(response, message=AssistantMessage(response.content.upper()))

    advisors: list[Advisor] = [MemoryAdvisor(memory), CallAdvisor(shout)]
    asked = await run(advisors, ScriptedModel(NAMED), [NAME], stream=stream, conversation_id="trip")
    assert asked.response.content == "A FINE NAME."
    assert await memory.get("trip") == (NAME, AssistantMessage("A FINE NAME."))


# --- many at once


@pytest.mark.fault("K09", "M11")
@both_modes
async def test_conversations_at_the_same_moment_do_not_see_each_other(
    memory: InMemoryChatMemory, *, stream: bool
) -> None:
    everyone_is_asking = asyncio.Barrier(10)

    async def echo(prompt: Prompt) -> str:
        await everyone_is_asking.wait()
        last = prompt.messages[-1]
        assert isinstance(last, UserMessage)
        return f"{len(prompt.messages)}: {last.content}"

    advisor, model = MemoryAdvisor(memory), ScriptedModel(forever=echo)
    for turn in range(2):
        answers = await asyncio.gather(
            *(run([advisor], model, f"I am {who}.", stream=stream, conversation_id=f"trip {who}") for who in range(10))
        )
        assert [asked.response.content for asked in answers] == [f"{1 + 2 * turn}: I am {who}." for who in range(10)]
    for who in range(10):
        said = UserMessage(f"I am {who}.")
        assert await memory.get(f"trip {who}") == (
            said, AssistantMessage(f"1: I am {who}."), said, AssistantMessage(f"3: I am {who}."),
        )  # fmt: skip


@pytest.mark.fault("M11")
@both_modes
async def test_two_turns_of_one_conversation_at_the_same_moment_are_stored_one_after_the_other(
    memory: InMemoryChatMemory, *, stream: bool
) -> None:
    both_are_asking = asyncio.Barrier(2)

    async def echo(prompt: Prompt) -> str:
        await both_are_asking.wait()
        last = prompt.messages[-1]
        assert isinstance(last, UserMessage)
        return last.content.upper()

    model = ScriptedModel(forever=echo)
    await asyncio.gather(
        *(
            run([MemoryAdvisor(memory)], model, text, stream=stream, conversation_id="trip")
            for text in ("port", "starboard")
        )
    )
    one, other = (
        (UserMessage("port"), AssistantMessage("PORT")),
        (UserMessage("starboard"), AssistantMessage("STARBOARD")),
    )
    assert await memory.get("trip") in ((*one, *other), (*other, *one))


@both_modes
async def test_inside_a_loop_by_itself_it_says_that_it_does_not_work(
    memory: InMemoryChatMemory, *, stream: bool
) -> None:
    request = replace(request_of([NAME], stream=stream, conversation_id="trip"), turn=(NAME,))
    with pytest.raises(ConfigurationError, match="inside_loop"):
        async with aclosing(chain([MemoryAdvisor(memory)], ScriptedModel("Hi."))(request)) as events:
            assert [event async for event in events]
