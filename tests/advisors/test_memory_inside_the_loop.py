"""Memory inside of the tool loop: whole turns, calls and results included, in both modes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from app.advisors import MemoryAdvisor, ToolAdvisor, ToolCallingAdvisor
from app.advisors.registration import with_tool_loop
from app.chat import (
    Advisor,
    AssistantMessage,
    BaseAdvisor,
    ChatRequest,
    FinishReason,
    Message,
    SystemMessage,
    Tool,
    ToolCall,
    ToolFailed,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from app.client import ChatClient
from app.memory import InMemoryChatMemory
from app.memory.pairing import paired
from app.providers.scripted import Reply, ReplyTo, ScriptedModel, tool_calls
from app.tooling import ToolCallingManager, ToolCallLimits
from tests.support.asking import ask
from tests.support.chains import Asked, run
from tests.support.modes import both_modes
from tests.support.tools import Held, failing, giving

HELLO, HI = UserMessage("Hello"), AssistantMessage("Hi.")
DEPTH, DEEP = UserMessage("How deep is the harbour?"), AssistantMessage("9 m deep.")
LOOK = tool_calls(("sound", {"at": "pier"}))
FOUND = ToolMessage((ToolResult("call_1", "sound", "9 m"),))
BRIEF = SystemMessage("Be brief.")
SOUND = giving("sound", "9 m")


class Harbour:
    """A conversation with a memory inside of the loop."""

    def __init__(self, *script: Reply | ReplyTo, tools: Sequence[Tool] = (SOUND,), max_messages: int = 200) -> None:
        self.memory = InMemoryChatMemory(max_messages)
        self.model = ScriptedModel(*script)
        self.tools = tuple(tools)
        self.limits = ToolCallLimits()
        self.others: list[Advisor] = []

    def loop(self) -> ToolAdvisor:
        return ToolCallingAdvisor(ToolCallingManager(limits=self.limits))

    async def ask(self, *messages: Message, stream: bool, conversation_id: str | None = "trip") -> Asked:
        advisors = with_tool_loop([*self.others, MemoryAdvisor(self.memory, order=400)], self.loop)
        return await run(
            advisors, self.model, messages, stream=stream, conversation_id=conversation_id, tools=self.tools
        )

    async def remembered(self) -> tuple[Message, ...]:
        return await self.memory.get("trip")

    @property
    def prompts(self) -> list[tuple[Message, ...]]:
        return [prompt.messages for prompt in self.model.prompts]


@pytest.mark.parity(26, 181, 182, 184)
@pytest.mark.fault("L09")
@both_modes
async def test_each_rounds_prompt_is_system_memory_and_the_turn_each_once(*, stream: bool) -> None:
    harbour = Harbour(LOOK, LOOK, DEEP)
    await harbour.memory.append("trip", (HELLO, HI))
    await harbour.ask(BRIEF, DEPTH, stream=stream)
    assert harbour.prompts == [
        (BRIEF, HELLO, HI, DEPTH),
        (BRIEF, HELLO, HI, DEPTH, LOOK, FOUND),
        (BRIEF, HELLO, HI, DEPTH, LOOK, FOUND, LOOK, FOUND),
    ]


@pytest.mark.parity(180, 183)
@pytest.mark.fault("M02", "M13")
@both_modes
async def test_calls_and_results_are_remembered_in_their_places(*, stream: bool) -> None:
    harbour = Harbour(LOOK, DEEP, "You asked me of the harbour.")
    await harbour.ask(BRIEF, DEPTH, stream=stream)
    assert await harbour.remembered() == (BRIEF, DEPTH, LOOK, FOUND, DEEP)
    await harbour.ask(HELLO, stream=stream)
    assert harbour.prompts[-1] == (BRIEF, DEPTH, LOOK, FOUND, DEEP, HELLO)


@pytest.mark.parity(180)
@both_modes
async def test_nothing_is_stored_while_the_turn_is_going(*, stream: bool) -> None:
    held = Held("sound")
    harbour = Harbour(LOOK, DEEP, tools=[held.tool])
    running = asyncio.create_task(harbour.ask(DEPTH, stream=stream))
    await held.begun()
    assert await harbour.remembered() == ()
    held.let_go.set()
    await running
    assert len(await harbour.remembered()) == 4


@pytest.mark.parity(181)
@both_modes
async def test_a_window_that_overflows_within_a_turn_does_not_shorten_the_turn(*, stream: bool) -> None:
    harbour = Harbour(LOOK, LOOK, DEEP, max_messages=6)
    await harbour.memory.append("trip", (HELLO, HI))
    await harbour.ask(DEPTH, stream=stream)
    assert harbour.prompts[-1] == (HELLO, HI, DEPTH, LOOK, FOUND, LOOK, FOUND)
    assert await harbour.remembered() == (DEPTH, LOOK, FOUND, LOOK, FOUND, DEEP)


@pytest.mark.parity(178)
@pytest.mark.fault("M10")
@both_modes
async def test_without_a_conversation_id_the_turn_is_whole_and_is_not_remembered(*, stream: bool) -> None:
    harbour = Harbour(LOOK, DEEP)
    await harbour.ask(BRIEF, DEPTH, stream=stream, conversation_id=None)
    assert harbour.prompts[-1] == (BRIEF, DEPTH, LOOK, FOUND)
    assert await harbour.memory.conversation_ids() == ()


@both_modes
async def test_a_result_that_is_the_answer_is_remembered_as_both(*, stream: bool) -> None:
    harbour = Harbour(LOOK, tools=[giving("sound", "9 m", return_direct=True)])
    asked = await harbour.ask(DEPTH, stream=stream)
    assert asked.response.finish_reason == FinishReason.RETURN_DIRECT
    assert await harbour.remembered() == (DEPTH, LOOK, FOUND, AssistantMessage("9 m"))


@both_modes
async def test_a_tool_that_failed_is_remembered_with_its_error(*, stream: bool) -> None:
    harbour = Harbour(LOOK, "I cannot tell.", tools=[failing("sound", ToolFailed("the lead is lost"))])
    await harbour.ask(DEPTH, stream=stream)
    lost = ToolMessage((ToolResult("call_1", "sound", "the lead is lost", is_error=True),))
    assert await harbour.remembered() == (DEPTH, LOOK, lost, AssistantMessage("I cannot tell."))


@pytest.mark.fault("M05")
@both_modes
async def test_a_turn_that_a_limit_ended_leaves_memory_as_it_was(*, stream: bool) -> None:
    harbour = Harbour(LOOK, LOOK)
    harbour.limits = ToolCallLimits(total=1)
    await harbour.memory.append("trip", (HELLO, HI))
    asked = await harbour.ask(DEPTH, stream=stream)
    assert asked.response.finish_reason == FinishReason.TOOL_CALL_LIMIT
    assert await harbour.remembered() == (HELLO, HI)


@pytest.mark.fault("M05")
@both_modes
async def test_a_turn_cancelled_while_a_tool_runs_leaves_memory_fit_for_the_next(*, stream: bool) -> None:
    held = Held("sound")
    harbour = Harbour(LOOK, DEEP, tools=[held.tool])
    await harbour.memory.append("trip", (HELLO, HI))
    running = asyncio.create_task(harbour.ask(DEPTH, stream=stream))
    await held.begun()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await harbour.remembered() == (HELLO, HI)
    await harbour.ask(DEPTH, stream=stream)
    assert harbour.prompts[-1] == (HELLO, HI, DEPTH)


@both_modes
async def test_what_a_server_needs_back_beside_its_calls_is_remembered(*, stream: bool) -> None:
    look = AssistantMessage(
        "", (ToolCall("call_1", "sound", "{}", {"signature": "s"}),), reasoning="To the pier.", extra={"more": 1}
    )
    harbour = Harbour(look, AssistantMessage("9 m deep.", reasoning="Easy."))
    await harbour.ask(DEPTH, stream=stream)
    assert await harbour.remembered() == (DEPTH, look, FOUND, AssistantMessage("9 m deep.", reasoning="Easy."))


@pytest.mark.parity(181)
@both_modes
async def test_a_turn_that_the_caller_sends_along_is_recognised_without_its_reasoning(*, stream: bool) -> None:
    harbour = Harbour(
        AssistantMessage(LOOK.content, LOOK.tool_calls, reasoning="To the pier."),
        AssistantMessage("9 m deep.", reasoning="Easy."),
        HI,
    )
    await harbour.ask(DEPTH, stream=stream)
    remembered = await harbour.remembered()
    await harbour.ask(DEPTH, LOOK, FOUND, DEEP, HELLO, stream=stream)
    assert harbour.prompts[-1] == (DEPTH, LOOK, FOUND, DEEP, HELLO)
    assert await harbour.remembered() == (*remembered, HELLO, HI)


@both_modes
async def test_calls_that_the_caller_ran_are_remembered_too(*, stream: bool) -> None:
    harbour = Harbour(DEEP)
    await harbour.ask(DEPTH, LOOK, FOUND, stream=stream)
    assert await harbour.remembered() == (DEPTH, LOOK, FOUND, DEEP)


@pytest.mark.fault("M05")
@both_modes
async def test_calls_that_the_caller_left_open_are_not_remembered(*, stream: bool) -> None:
    harbour = Harbour(HI)
    await harbour.ask(DEPTH, LOOK, HELLO, stream=stream)
    assert await harbour.remembered() == (DEPTH, HELLO, HI)


@both_modes
async def test_instructions_that_an_advisor_within_the_loop_changes_reach_the_model(*, stream: bool) -> None:
    class French(BaseAdvisor):
        async def before(self, request: ChatRequest) -> ChatRequest:
            return request.with_messages((SystemMessage("Answer in French."), *request.messages[1:]))

    harbour = Harbour(LOOK, DEEP)
    harbour.others = [French(order=350)]
    await harbour.ask(BRIEF, DEPTH, stream=stream)
    french = SystemMessage("Answer in French.")
    assert harbour.prompts == [(french, DEPTH), (french, DEPTH, LOOK, FOUND)]


@both_modes
async def test_it_remembers_the_same_where_the_caller_drives_the_loop(*, stream: bool) -> None:
    memory, model = InMemoryChatMemory(), ScriptedModel(LOOK, DEEP, HI)
    client = ChatClient(model, advisors=[MemoryAdvisor(memory, order=400)], tools=[SOUND])
    driven = partial(ask, client, stream=stream, tool_calling=False, conversation_id="trip")

    assert (await driven([DEPTH])).response.tool_calls == LOOK.tool_calls
    assert await memory.get("trip") == ()
    await driven([DEPTH, LOOK, FOUND])
    assert await memory.get("trip") == (DEPTH, LOOK, FOUND, DEEP)
    await driven([DEPTH, LOOK, FOUND, DEEP, HELLO])

    assert [prompt.messages for prompt in model.prompts] == [
        (DEPTH,),
        (DEPTH, LOOK, FOUND),
        (DEPTH, LOOK, FOUND, DEEP, HELLO),
    ]
    assert await memory.get("trip") == (DEPTH, LOOK, FOUND, DEEP, HELLO, HI)


@pytest.mark.fault("M02")
@both_modes
async def test_whatever_was_remembered_can_be_sent_again(*, stream: bool) -> None:
    harbour = Harbour(LOOK, DEEP, LOOK, LOOK, DEEP, HI, max_messages=7)
    for question in (DEPTH, DEPTH, HELLO):
        await harbour.ask(question, stream=stream)
        remembered = await harbour.remembered()
        assert paired(remembered) == remembered
        assert isinstance(remembered[0], UserMessage)
