"""Answers are held to a structure, in both modes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from app.advisors import MemoryAdvisor, StructuredOutputAdvisor, ToolCallingAdvisor
from app.advisors.registration import with_tool_loop
from app.chat import (
    Advisor,
    AssistantMessage,
    CallNext,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    ConfigurationError,
    FinishReason,
    Message,
    ModelProtocolError,
    ModelUnavailable,
    Round,
    RoundCompleted,
    RoundStarted,
    SystemMessage,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from app.memory import InMemoryChatMemory
from app.providers.scripted import Reply, ScriptedModel, tool_calls
from app.tooling import ToolCallingManager
from tests.support.chains import run
from tests.support.modes import both_modes
from tests.support.tools import giving


class Sounding(BaseModel):
    """A depth somewhere."""

    place: str
    metres: float


@dataclass
class Berth:
    number: int


class Tide(TypedDict):
    high: bool


GOOD = '{"place": "pier", "metres": 9}'
BAD = '{"place": "pier", "metres": "deep"}'
ASK = UserMessage("How deep is it at the pier?")
USED = Usage(10, 5, 15)


def sounding(**options: Any) -> StructuredOutputAdvisor[Sounding]:
    return StructuredOutputAdvisor.for_type(Sounding, **options)


@both_modes
async def test_an_answer_that_fits_comes_after_one_call_and_can_be_read(*, stream: bool) -> None:
    advisor, model = sounding(), ScriptedModel(GOOD, usage=USED)
    asked = await run([advisor], model, [ASK], stream=stream)
    assert asked.response == ChatResponse.of_call(AssistantMessage(GOOD), FinishReason.STOP, USED, model="scripted")
    assert advisor.value(asked.response) == Sounding(place="pier", metres=9)


@both_modes
async def test_the_schema_is_asked_for_by_the_response_format(*, stream: bool) -> None:
    model = ScriptedModel(GOOD)
    await run([sounding()], model, [ASK], stream=stream, response_format={"type": "text"}, temperature=0.5)
    assert model.prompts[0].messages == (ASK,)
    assert model.prompts[0].options.temperature == 0.5
    assert model.prompts[0].options.response_format == {
        "type": "json_schema",
        "json_schema": {"name": "Sounding", "schema": Sounding.model_json_schema()},
    }


@both_modes
@pytest.mark.parametrize("system", [(), (SystemMessage("Be brief."),)], ids=["without", "with"])
async def test_the_schema_can_be_asked_for_in_the_prompt(system: tuple[Message, ...], *, stream: bool) -> None:
    model = ScriptedModel(GOOD)
    await run([sounding(in_prompt=True)], model, [*system, ASK], stream=stream)
    first, *others = model.prompts[0].messages
    assert isinstance(first, SystemMessage)
    assert first.content.startswith("Be brief.\n\n" if system else "Give your final answer")
    assert json.loads(first.content.splitlines()[-1]) == Sounding.model_json_schema()
    assert others == [ASK]
    assert model.prompts[0].options.response_format is None


@both_modes
async def test_an_answer_that_does_not_fit_is_shown_to_the_model_with_what_is_wrong(*, stream: bool) -> None:
    model = ScriptedModel(BAD, GOOD)
    await run([sounding()], model, [ASK], stream=stream)
    asked, failed, complaint = model.prompts[1].messages
    assert (asked, failed) == (ASK, AssistantMessage(BAD))
    assert isinstance(complaint, UserMessage)
    assert "metres: Input should be a valid number" in complaint.content
    assert "https://" not in complaint.content


@both_modes
async def test_attempts_are_rounds_and_add_up(*, stream: bool) -> None:
    model = ScriptedModel("no JSON", BAD, GOOD, usage=USED)
    asked = await run([sounding()], model, [ASK], stream=stream)
    assert [event for event in asked.events if isinstance(event, (RoundStarted, RoundCompleted))] == [
        RoundStarted(1),
        RoundCompleted(1, FinishReason.STOP, USED),
        RoundStarted(2),
        RoundCompleted(2, FinishReason.STOP, USED),
        RoundStarted(3),
    ]
    assert asked.response.rounds == (Round(FinishReason.STOP, USED),) * 3
    assert asked.response.usage == Usage(30, 15, 45)
    assert asked.response.generated == (AssistantMessage(GOOD),)
    assert asked.last_text == (GOOD if stream else "")


@both_modes
async def test_after_the_last_attempt_it_is_an_error_that_does_not_quote_the_answer(*, stream: bool) -> None:
    model = ScriptedModel(BAD, BAD)
    with pytest.raises(ModelProtocolError, match="after 2 attempts") as caught:
        await run([sounding(max_attempts=2)], model, [ASK], stream=stream)
    assert len(model.prompts) == 2
    assert "deep" not in str(caught.value)
    assert caught.value.__cause__ is None


@both_modes
async def test_a_failed_call_is_not_tried_again(*, stream: bool) -> None:
    model = ScriptedModel(ModelUnavailable("gone"), GOOD)
    with pytest.raises(ModelUnavailable):
        await run([sounding()], model, [ASK], stream=stream)
    assert len(model.prompts) == 1


@both_modes
@pytest.mark.parametrize("content", ["", " \n"])
async def test_an_empty_answer_is_asked_for_again_without_an_empty_message(content: str, *, stream: bool) -> None:
    model = ScriptedModel(content, GOOD)
    await run([sounding()], model, [ASK], stream=stream)
    assert [type(message) for message in model.prompts[1].messages] == [UserMessage, UserMessage]


@both_modes
@pytest.mark.parametrize(
    ("content", "bare"),
    [
        (f"```json\n{GOOD}\n```", GOOD),
        (f"```\n{GOOD}\n```\n", GOOD),
        (f"```JSON {GOOD}```", GOOD),
        (f"\n {GOOD} ", GOOD),
        ('{"place": "```pier```", "metres": 1}', '{"place": "```pier```", "metres": 1}'),
        ('```json\n{"place": "```pier```", "metres": 1}\n```', '{"place": "```pier```", "metres": 1}'),
    ],
    ids=["fence", "plain-fence", "one-line", "spaces", "fence-within", "both"],
)
async def test_a_fence_around_the_answer_is_taken_off(content: str, bare: str, *, stream: bool) -> None:
    asked = await run([sounding()], ScriptedModel(content), [ASK], stream=stream)
    assert asked.response.content == bare
    assert asked.response.generated == (AssistantMessage(bare),)


@both_modes
@pytest.mark.parametrize(
    "reply",
    [
        tool_calls(("sound", {}), content="Let me look."),
        AssistantMessage(refusal="I will not tell."),
        ChatResponse.of_call(AssistantMessage("Filtered"), FinishReason.CONTENT_FILTER),
        ChatResponse.of_call(AssistantMessage("9 m"), FinishReason.RETURN_DIRECT),
        ChatResponse.of_call(AssistantMessage("So far"), FinishReason.TOOL_CALL_LIMIT),
    ],
    ids=["calls", "refusal", "filtered", "direct", "limit"],
)
async def test_what_is_not_the_models_answer_is_not_checked(reply: Reply, *, stream: bool) -> None:
    model = ScriptedModel(reply)
    asked = await run([sounding()], model, [ASK], stream=stream)
    assert asked.response.message == (reply.message if isinstance(reply, ChatResponse) else reply)
    assert len(model.prompts) == 1


@both_modes
async def test_an_answer_cut_by_the_token_limit_does_not_pass_for_a_whole_one(*, stream: bool) -> None:
    cut = ChatResponse.of_call(AssistantMessage(GOOD[:-5]), FinishReason.LENGTH)
    with pytest.raises(ModelProtocolError):
        await run([sounding(max_attempts=1)], ScriptedModel(cut), [ASK], stream=stream)


@both_modes
async def test_an_advisor_below_that_answers_without_a_model_makes_no_rounds(*, stream: bool) -> None:
    class Cache:
        order = 260

        def __init__(self) -> None:
            self.answers = [BAD, GOOD]

        async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
            assert request.round == 1
            message = AssistantMessage(self.answers.pop(0))
            yield Completed(ChatResponse(message, generated=(message,)))

    asked = await run([sounding(), Cache()], ScriptedModel(), [ASK], stream=stream)
    assert asked.response.content == GOOD
    assert asked.of(RoundCompleted) == []


# --- with tools


LOOK = tool_calls(("sound", {}))
FOUND = ToolMessage((ToolResult("call_1", "sound", "9 m"),))
SOUND = giving("sound", "9 m")


@both_modes
async def test_outside_of_the_loop_an_attempt_is_a_whole_turn(*, stream: bool) -> None:
    model = ScriptedModel(LOOK, BAD, GOOD, usage=USED)
    loop = ToolCallingAdvisor(ToolCallingManager())
    asked = await run([sounding(), loop], model, [ASK], stream=stream, tools=(SOUND,), tool_choice="required")
    assert [prompt.messages[:4] for prompt in model.prompts[1:]] == [
        (ASK, LOOK, FOUND),
        (ASK, LOOK, FOUND, AssistantMessage(BAD)),
    ]
    assert [event.round for event in asked.of(RoundStarted)] == [1, 2, 3]
    assert [event.round for event in asked.of(RoundCompleted)] == [1, 2]
    assert asked.response.generated == (LOOK, FOUND, AssistantMessage(GOOD))
    assert len(asked.response.tool_runs) == 1
    assert asked.response.usage == Usage(30, 15, 45)


@pytest.mark.fault("L03")
@both_modes
@pytest.mark.parametrize(("asked", "then"), [("required", "auto"), ("sound", "auto"), ("none", "none"), (None, None)])
async def test_a_forced_tool_is_not_forced_again(asked: str | None, then: str | None, *, stream: bool) -> None:
    model = ScriptedModel(BAD, GOOD)
    await run([sounding()], model, [ASK], stream=stream, tool_choice=asked)
    assert [prompt.options.tool_choice for prompt in model.prompts] == [asked, then]


@both_modes
async def test_failed_attempts_are_not_remembered(*, stream: bool) -> None:
    memory = InMemoryChatMemory()
    advisors: list[Advisor] = [MemoryAdvisor(memory), sounding(in_prompt=True)]
    await run(advisors, ScriptedModel(BAD, GOOD), [ASK], stream=stream, conversation_id="trip")
    assert await memory.get("trip") == (ASK, AssistantMessage(GOOD))


@both_modes
async def test_inside_of_the_loop_an_answer_is_corrected_within_the_turn_that_memory_puts_together(
    *, stream: bool
) -> None:
    memory, model = InMemoryChatMemory(), ScriptedModel(LOOK, BAD, GOOD)
    advisors = with_tool_loop(
        [MemoryAdvisor(memory, order=400), sounding(order=350)], lambda: ToolCallingAdvisor(ToolCallingManager())
    )
    await run(advisors, model, [ASK], stream=stream, conversation_id="trip", tools=(SOUND,))
    assert model.prompts[2].messages[:4] == (ASK, LOOK, FOUND, AssistantMessage(BAD))
    assert len(model.prompts[2].messages) == 5
    assert await memory.get("trip") == (ASK, LOOK, FOUND, AssistantMessage(GOOD))


@both_modes
async def test_inside_of_the_loop_a_correction_that_asks_for_tools_goes_on_in_the_next_round(*, stream: bool) -> None:
    model = ScriptedModel(BAD, LOOK, GOOD, usage=USED)
    loop = ToolCallingAdvisor(ToolCallingManager())
    asked = await run([loop, sounding(order=350)], model, [ASK], stream=stream, tools=(SOUND,))
    assert [event for event in asked.events if isinstance(event, (RoundStarted, RoundCompleted))] == [
        RoundStarted(1),
        RoundCompleted(1, FinishReason.STOP, USED),
        RoundStarted(2),
        RoundCompleted(2, FinishReason.TOOL_CALLS, USED),
        RoundStarted(3),
    ]
    assert [ran.round for ran in asked.response.tool_runs] == [2]
    assert len(asked.response.rounds) == 3


# --- what can be asked for


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Berth, '{"number": 4}', Berth(4)),
        (Tide, '{"high": true}', {"high": True}),
        (list[int], "[1, 2]", [1, 2]),
        (Berth | None, "null", None),
    ],
    ids=["dataclass", "typed-dict", "list", "union"],
)
async def test_types_of_several_kinds_can_be_read(kind: Any, text: str, value: object) -> None:
    advisor = StructuredOutputAdvisor.for_type(kind)
    asked = await run([advisor], ScriptedModel(text), [ASK], stream=False)
    assert advisor.value(asked.response) == value


async def test_a_schema_and_a_check_of_ones_own_will_do() -> None:
    def even(text: str) -> int:
        number = int(text)
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number

    schema: Mapping[str, Any] = {"type": "integer", "multipleOf": 2}
    advisor, model = StructuredOutputAdvisor(schema, even, name="even"), ScriptedModel("3", "4")
    asked = await run([advisor], model, [ASK], stream=False)
    assert advisor.value(asked.response) == 4
    complaint = model.prompts[1].messages[-1]
    assert isinstance(complaint, UserMessage)
    assert "3 is odd" in complaint.content
    assert model.prompts[0].options.response_format == {
        "type": "json_schema",
        "json_schema": {"name": "even", "schema": schema},
    }


@pytest.mark.parametrize("kind", [Callable[[], int], type], ids=["callable", "class"])
def test_a_type_without_a_json_form_is_refused_by_name(kind: type[Any]) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(repr(kind))):
        StructuredOutputAdvisor.for_type(kind)


def test_an_answer_that_was_not_checked_may_not_be_readable() -> None:
    with pytest.raises(ValueError, match="Invalid JSON"):
        sounding().value(ChatResponse(AssistantMessage(refusal="I will not tell.")))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"max_attempts": 0}, "max_attempts must be positive, got 0"), ({"name": "a b"}, "got 'a b'")],
)
def test_an_advisor_that_cannot_work_is_not_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        StructuredOutputAdvisor({}, json.loads, **options)
