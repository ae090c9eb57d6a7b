"""`POST /tool-calls`: running calls for a caller who drives the loop."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from app.chat import ToolContext, ToolFailed, ToolMessage, ToolResult
from app.providers.scripted import ScriptedModel, tool_calls
from app.web.documents import ToolCallsDocument
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, Held, echo, failing, giving
from tests.support.web import ask, gateway

USER = {"role": "user", "content": "Hello"}


def asking(*calls: tuple[str, str, str]) -> dict[str, Any]:
    """An assistant's message; each call is its id, the tool's name and the arguments."""
    return {
        "role": "assistant",
        "tool_calls": [{"id": id_, "name": name, "arguments": arguments} for id_, name, arguments in calls],
    }


async def run(client: httpx.AsyncClient, *messages: dict[str, Any], **body: Any) -> dict[str, Any]:
    """The answer to a body."""
    response = await client.post("/tool-calls", json={"messages": messages, **body})
    assert response.status_code == 200, response.text
    document: dict[str, Any] = response.json()
    ToolCallsDocument.model_validate(document)
    return document


async def refusal(client: httpx.AsyncClient, *messages: dict[str, Any], **body: Any) -> dict[str, str]:
    """What is said of a body that is refused, by the place in it."""
    response = await client.post("/tool-calls", json={"messages": messages, **body})
    assert response.status_code == 422, response.text
    return {".".join(map(str, error["loc"])): error["message"] for error in response.json()["errors"]}


@pytest.mark.parity(66, 67)
async def test_the_history_comes_back_as_it_was_sent_and_grown_by_one_message_a_call() -> None:
    nested = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "echo", "arguments": '{"n": 1}'}},
            {"id": "b", "function": {"name": "fail", "arguments": "{}"}},
            {"id": "c", "function": {"name": "nobody", "arguments": "{}"}},
        ],
        "refusal": None,
    }
    async with gateway(ScriptedModel(), [echo(), failing("fail", ToolFailed("no luck"))]) as client:
        document = await run(client, {"role": "system", "content": ""}, USER, nested)

    *before, unknown = document["messages"]
    assert before == [
        {"role": "system", "content": ""},
        USER,
        nested,
        {"role": "tool", "tool_call_id": "a", "content": '{"n": 1}'},
        {"role": "tool", "tool_call_id": "b", "content": "no luck"},
    ]
    assert "echo" in unknown["content"]  # the names there are
    assert document["return_direct"] is False


@pytest.mark.parity(97)
@both_modes
@pytest.mark.parametrize("by", ["operator", "request"])
async def test_a_caller_drives_the_loop_to_the_same_answer(by: str, *, stream: bool) -> None:
    script = (tool_calls(("echo", {"n": 1})), tool_calls(("echo", {"n": 2}), content="Once more."), "Both are odd.")
    driven = ScriptedModel(*script)
    settings = {"tool_calling": {"auto_register": by == "request"}}
    async with gateway(driven, [echo()], settings=settings) as client:
        messages: list[Any] = [USER]
        tool_calling = None if by == "operator" else False
        answer = (await ask(client, None, stream=stream, messages=messages, tool_calling=tool_calling)).document
        while answer["finish_reason"] == "tool_calls":
            said = {"role": "assistant", "content": answer["content"], "tool_calls": answer["tool_calls"]}
            messages = (await run(client, *messages, said))["messages"]
            answer = (await ask(client, None, stream=stream, messages=messages, tool_calling=tool_calling)).document

    looped = ScriptedModel(*script)
    async with gateway(looped, [echo()]) as client:
        expected = (await ask(client, stream=stream)).document

    assert answer["content"] == expected["content"] == "Both are odd."
    assert driven.prompts[-1].messages == looped.prompts[-1].messages


@pytest.mark.parity(69, 70, 71)
@pytest.mark.parametrize(
    ("names", "direct"), [(["direct"], True), (["direct", "direct"], True), (["direct", "echo"], False)]
)
async def test_return_direct_is_told_when_every_call_wants_it(names: list[str], direct: bool) -> None:
    calls = [(f"call_{number}", name, "{}") for number, name in enumerate(names)]
    async with gateway(ScriptedModel(), [echo(), giving("direct", "straight", return_direct=True)]) as client:
        assert (await run(client, asking(*calls)))["return_direct"] is direct


@pytest.mark.parity(64, 98)
async def test_only_the_tools_that_are_offered_run() -> None:
    tools = [echo("first"), echo("hidden", default=False)]
    calls = asking(("a", "first", "{}"), ("b", "hidden", "{}"))

    async with gateway(ScriptedModel(), tools) as client:
        await run(client, calls)
        await run(client, calls, tools=["hidden"])
        await run(client, calls, tools=[])
        said = await refusal(client, calls, tools=["third"])

    assert [len(tool.asked) for tool in tools] == [1, 1]
    assert said == {"tools": "unknown tool 'third'; there are: first, hidden"}


@pytest.mark.parity(61, 91)
async def test_tool_context_goes_to_the_tools_over_the_configured_one() -> None:
    seen: list[dict[str, Any]] = []

    async def look(_: str, context: ToolContext) -> str:
        seen.append(dict(context))
        return "seen"

    settings = {"tools": {"context": {"tenant": "ours", "region": "north"}}}
    async with gateway(ScriptedModel(), [HandWrittenTool("look", look)], settings=settings) as client:
        await run(client, asking(("a", "look", "{}")), tool_context={"tenant": "theirs"})
        await run(client, asking(("a", "look", "{}")))

    assert seen == [{"tenant": "theirs", "region": "north"}, {"tenant": "ours", "region": "north"}]


@pytest.mark.parity(75, 81, 83)
async def test_the_limits_of_a_turn_are_counted_over_the_history() -> None:
    tool = echo(max_calls=1)
    done = [asking(("a", "echo", "{}")), {"role": "tool", "tool_call_id": "a", "content": "{}"}]
    async with gateway(ScriptedModel(), [tool]) as client:
        same_turn = await run(client, USER, *done, asking(("b", "echo", "{}")))
        next_turn = await run(client, USER, *done, USER, asking(("b", "echo", "{}")))

    assert "1" in same_turn["messages"][-1]["content"]
    assert same_turn["messages"][-1]["content"] != "{}"
    assert next_turn["messages"][-1]["content"] == "{}"
    assert len(tool.asked) == 1


@pytest.mark.parity(63)
@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([USER], "messages.0.tool_calls"),
        ([USER, {"role": "assistant", "content": "Hi"}], "messages.1.tool_calls"),
        ([USER, {"role": "assistant", "tool_calls": []}], "messages.1.tool_calls"),
        ([asking(("a", "echo", "{}")), {"role": "tool", "tool_call_id": "a", "content": ""}], "messages.1.tool_calls"),
        ([asking(("a", "echo", "{}")), asking(("b", "echo", "{}"))], "messages.0.tool_calls"),
        ([asking(("a", "echo", "{}"), ("a", "echo", "{}"))], "messages.0.tool_calls"),
        (
            [{"role": "tool", "tool_call_id": "a", "content": ""}, asking(("b", "echo", "{}"))],
            "messages.0.tool_call_id",
        ),
        ([], "messages"),
    ],
)
async def test_the_last_message_must_ask_for_calls_and_those_before_be_answered(
    messages: list[dict[str, Any]], place: str
) -> None:
    async with gateway(ScriptedModel(), [echo()]) as client:
        assert list(await refusal(client, *messages)) == [place]


async def test_the_results_are_a_whole_history_for_the_model() -> None:
    model = ScriptedModel("Done.")
    async with gateway(model, [echo()]) as client:
        grown = await run(client, USER, asking(("b", "echo", "{}"), ("a", "echo", '{"n": 2}')))
        await ask(client, None, stream=False, messages=grown["messages"])

    assert model.prompts[0].messages[-1] == ToolMessage(
        (ToolResult("b", "echo", "{}"), ToolResult("a", "echo", '{"n": 2}'))
    )


async def test_calls_run_side_by_side() -> None:
    held = Held()
    async with gateway(ScriptedModel(), [held.tool]) as client:
        running = asyncio.create_task(run(client, asking(("a", "held", "1"), ("b", "held", "2"))))
        await held.begun(2)
        held.let_go.set()
        document = await running

    assert [message["content"] for message in document["messages"][1:]] == ["1", "2"]


@pytest.mark.fault("L07")
@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit])
async def test_a_tool_that_raises_an_order_to_end_more_is_a_fault_and_no_caller_who_left(
    kind: type[BaseException],
) -> None:
    async with gateway(ScriptedModel(), [failing("leave", kind()), echo()]) as client:
        response = await client.post("/tool-calls", json={"messages": [USER, asking(("a", "leave", "{}"))]})
        document = await run(client, USER, asking(("a", "echo", "{}")))

    assert (response.status_code, response.json()["type"]) == (500, "urn:advisor-gateway:internal")
    assert document["messages"][-1]["content"] == "{}"
