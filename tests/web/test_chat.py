"""`/chat` and `/chat/stream` side by side: one core, two doors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.chat import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    ModelUnavailable,
    Prompt,
    ToolCall,
    ToolFailed,
    Usage,
    UserMessage,
)
from app.providers.scripted import Cut, ReplyTo, ScriptedModel, tool_calls
from app.providers.scripted import Reply as Said
from app.web.documents import AnswerDocument
from tests.support.modes import both_modes
from tests.support.tools import Held, echo, failing, giving
from tests.support.web import ENDPOINTS, Event, Reply, ask, gateway

USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
SCRIPTS: dict[str, tuple[Said | ReplyTo, ...]] = {
    "an answer": ("Hello, how are you?",),
    "an empty answer": ("",),
    "reasoning": (AssistantMessage("Four.", reasoning="Two and two."),),
    "a refusal": (AssistantMessage("", refusal="I'd rather not."),),
    "a cut answer": (ChatResponse.of_call(AssistantMessage("It is"), FinishReason.LENGTH, USAGE),),
    "one tool": (tool_calls(("echo", {"a": 1}), content="I ask. "), "It says so."),
    "two tools, one fails": (tool_calls(("echo", {"a": "ü\u2028"}), ("fail", {})), "Half of it."),
    "three rounds": (tool_calls(("echo", {"n": 1})), tool_calls(("echo", {"n": 2}), content="More. "), "Enough."),
    "an unknown tool": (tool_calls(("ehco", "{")), "Sorry."),
    "a direct result": (tool_calls(("direct", {})),),
    "a limit": (tool_calls(("once", {"n": 1})), tool_calls(("once", {"n": 2}))),
    "calls in a cut answer": (
        ChatResponse.of_call(AssistantMessage("", (ToolCall("c", "echo", '{"a"'),)), FinishReason.LENGTH, USAGE),
    ),
}
TOOLS = [
    echo(),
    echo("once", max_calls=1),
    failing("fail", ToolFailed("the door is locked")),
    giving("direct", "straight from the tool", return_direct=True),
]


def folded(events: list[Event]) -> dict[str, Any]:
    """The answer as a reader of the stream adds it up, without what only the end tells."""
    answer: dict[str, Any] = {"content": "", "reasoning": None, "tool_runs": [], "rounds": []}
    arguments: dict[tuple[int, str], str] = {}
    for event in events:
        data = event.data
        match event.name:
            case "round.started":
                answer |= {"content": "", "reasoning": None}
            case "text.delta":
                answer["content"] += data["text"]
            case "reasoning.delta":
                answer["reasoning"] = (answer["reasoning"] or "") + data["text"]
            case "tool_call.ready":
                arguments[data["round"], data["call_id"]] = data["arguments"]
            case "tool_call.result" | "tool_call.error":
                run = {key: value for key, value in data.items() if key in {"round", "name", "result", "error"}}
                call = {"id": data["call_id"], "arguments": arguments[data["round"], data["call_id"]]}
                answer["tool_runs"].append(run | call)
            case "round.completed":
                answer["rounds"].append({"finish_reason": data["finish_reason"], "usage": data["usage"]})
    return answer


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs from run to run."""
    runs = [{key: value for key, value in run.items() if key != "ms"} for run in answer["tool_runs"]]
    return {**answer, "id": "", "tool_runs": runs}


async def both(*script: Said | ReplyTo, **body: Any) -> tuple[Reply, Reply]:
    """The same script through both endpoints."""
    replies = []
    for stream in (False, True):
        async with gateway(ScriptedModel(*script, usage=USAGE), TOOLS) as client:
            replies.append(await ask(client, stream=stream, **body))
    return replies[0], replies[1]


@pytest.mark.parity(1, 2, 3, 5, 6, 13, 15, 19, 20, 32)
@pytest.mark.fault("L05", "L12")
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_the_blocking_answer_equals_the_folded_stream(script: tuple[Said | ReplyTo, ...]) -> None:
    blocking, streamed = await both(*script)

    assert (blocking.status, streamed.status) == (200, 200)
    assert timeless(blocking.document) == timeless(streamed.document)
    AnswerDocument.model_validate(blocking.document)
    told = folded(list(streamed.events))
    if blocking.document["finish_reason"] == "return_direct":
        told["content"] = blocking.document["content"]  # the result, told by its own event
    assert timeless(blocking.document) == timeless(blocking.document | told)


@pytest.mark.parity(43, 97)
@both_modes
async def test_a_caller_who_drives_the_loop_gets_the_calls_as_they_came(*, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("echo", "{not json"), ("nobody", {}), content="Look."))
    async with gateway(model, TOOLS) as client:
        answer = (await ask(client, stream=stream, tool_calling=False)).document

    assert answer["finish_reason"] == "tool_calls"
    assert answer["content"] == "Look."
    assert answer["tool_calls"] == [
        {"id": "call_1", "name": "echo", "arguments": "{not json"},
        {"id": "call_2", "name": "nobody", "arguments": "{}"},
    ]
    assert answer["tool_runs"] == []


@both_modes
async def test_every_field_of_an_answer_is_there_and_unknown_usage_is_null(*, stream: bool) -> None:
    unknown = dict.fromkeys(("input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens"))
    async with gateway(ScriptedModel("Hi")) as client:
        answer = (await ask(client, stream=stream)).document

    assert answer == {
        "id": answer["id"],
        "conversation_id": None,
        "model": "scripted",
        "content": "Hi",
        "reasoning": None,
        "refusal": None,
        "finish_reason": "stop",
        "tool_calls": [],
        "tool_runs": [],
        "usage": unknown,
        "rounds": [{"finish_reason": "stop", "usage": unknown}],
    }
    assert answer["id"]


@both_modes
async def test_a_tool_run_holds_a_result_or_an_error(*, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("echo", {"a": 1}), ("fail", {})), "Done.")
    async with gateway(model, TOOLS) as client:
        runs = (await ask(client, stream=stream)).document["tool_runs"]

    assert all(isinstance(run.pop("ms"), float) for run in runs)
    assert runs == [
        {"round": 1, "id": "call_1", "name": "echo", "arguments": '{"a": 1}', "result": '{"a": 1}'},
        {"round": 1, "id": "call_2", "name": "fail", "arguments": "{}", "error": "the door is locked"},
    ]


@both_modes
async def test_the_model_servers_own_name_labels_the_answer_where_it_tells_one(*, stream: bool) -> None:
    named = ChatResponse.of_call(AssistantMessage("Hi"), model="scripted-2026-01")
    unnamed = ChatResponse.of_call(AssistantMessage("Hi"))
    async with gateway(ScriptedModel(named, unnamed)) as client:
        labels = [(await ask(client, stream=stream)).document["model"] for _ in range(2)]

    assert labels == ["scripted-2026-01", "scripted"]


@both_modes
async def test_what_users_ask_and_models_answer_survives_in_every_script(*, stream: bool) -> None:
    odd = 'quote " back\\slash\ttab\r\nline\u2028\u2029\u0085\x00\x1f\ufeff ελληνικά 中文 🌍🏽 </script>'
    model = ScriptedModel(forever=lambda prompt: prompt.messages[0].content)  # type: ignore[union-attr] # the user's
    async with gateway(model) as client:
        assert (await ask(client, odd, stream=stream)).document["content"] == odd


@pytest.mark.fault("U36")
@both_modes
async def test_half_a_character_from_a_model_is_replaced(*, stream: bool) -> None:
    async with gateway(ScriptedModel("half \ud83d of it")) as client:
        assert (await ask(client, stream=stream)).document["content"] == "half \ufffd of it"


# --- conversations


def said_before(prompt: Prompt) -> list[str]:
    """What users said, as the model sees it."""
    return [message.content for message in prompt.messages if isinstance(message, UserMessage)]


@pytest.mark.parity(185)
@both_modes
async def test_a_conversation_is_remembered_under_its_id_through_both_doors(*, stream: bool) -> None:
    model = ScriptedModel(forever="Hi")
    async with gateway(model) as client:
        await ask(client, "I am Ada.", stream=stream, conversation_id="ada")
        await ask(client, "I am Bob.", stream=stream, conversation_id="bob")
        await ask(client, "Who am I?", stream=not stream, conversation_id="ada")

    assert said_before(model.prompts[2]) == ["I am Ada.", "Who am I?"]


@pytest.mark.fault("M10")
@pytest.mark.parity(178)
@both_modes
async def test_without_an_id_nothing_is_remembered_or_shared(*, stream: bool) -> None:
    model = ScriptedModel(forever="Hi")
    async with gateway(model) as client:
        await ask(client, "I am Ada.", stream=stream)
        await ask(client, "Who am I?", stream=stream)

    assert said_before(model.prompts[1]) == ["Who am I?"]


@both_modes
async def test_a_turn_that_broke_is_not_remembered(*, stream: bool) -> None:
    model = ScriptedModel(Cut("I will", ModelUnavailable("gone")), "Hi")
    async with gateway(model) as client:
        await ask(client, "Lost.", stream=stream, conversation_id="c")
        await ask(client, "Kept.", stream=stream, conversation_id="c")

    assert said_before(model.prompts[1]) == ["Kept."]


@pytest.mark.fault("M11")
@both_modes
async def test_two_requests_at_once_on_one_conversation_do_not_mix(*, stream: bool) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {})), "First.", forever="Next.")
    async with gateway(model, [held.tool]) as client:
        first = asyncio.create_task(ask(client, "One.", stream=False, conversation_id="c"))
        await held.begun()
        second = await ask(client, "Two.", stream=stream, conversation_id="c")
        elsewhere = await ask(client, "Other.", stream=stream, conversation_id="d")
        held.let_go.set()
        await first
        third = await ask(client, "Three.", stream=stream, conversation_id="c")

    assert (second.status, second.document["type"]) == (409, "urn:advisor-gateway:conversation-busy")
    assert (elsewhere.status, third.status) == (200, 200)
    assert said_before(model.prompts[-1]) == ["One.", "Three."]


@both_modes
async def test_runs_beyond_the_limit_are_refused_and_welcome_later(*, stream: bool) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {})), forever="Hi")
    async with gateway(model, [held.tool], settings={"runs": {"max_active": 1}}) as client:
        first = asyncio.create_task(ask(client, stream=not stream))
        await held.begun()
        refused = await ask(client, stream=stream)
        held.let_go.set()
        await first
        later = await ask(client, stream=stream)

    assert (refused.status, refused.document["type"]) == (503, "urn:advisor-gateway:gateway-full")
    assert int(refused.headers["retry-after"]) >= 1
    assert later.status == 200


@both_modes
async def test_only_posts_are_answered(*, stream: bool) -> None:
    async with gateway(ScriptedModel()) as client:
        response = await client.get(ENDPOINTS[stream])

    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
