"""Many who write into one conversation: its turns are whole, and follow each other."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.chat import Prompt, ToolMessage
from app.providers.scripted import ScriptedModel, tool_calls
from tests.support.tools import echo
from tests.support.web import ENDPOINTS, gateway
from tests.web.conversations import STORES, memory_url

CLIENTS = 50


@pytest.fixture(params=STORES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    memory = {"url": memory_url(request, tmp_path), "max_messages": 1000, "inside_loop": True}
    return {"memory": memory, "runs": {"max_active": 2 * CLIENTS}}


def answering(prompt: Prompt) -> Any:
    """Has a tool called, and answers then with what was asked."""
    last = prompt.messages[-1]
    if isinstance(last, ToolMessage):
        return f"You said {said(prompt)[-1]}."
    return tool_calls(("echo", {"n": len(prompt.messages)}))


def said(prompt: Prompt) -> list[str]:
    """What users said in a prompt."""
    return [message.content for message in prompt.messages if type(message).__name__ == "UserMessage"]  # type: ignore[union-attr] # users' messages have one


async def write(client: httpx.AsyncClient, number: int) -> None:
    """Write a message by one of the two endpoints."""
    sent = {"message": f"message {number}", "conversation_id": "busy", "when_busy": "queue"}
    response = await client.post(ENDPOINTS[bool(number % 2)], json=sent)
    assert response.status_code == 200, response.text
    assert f"You said message {number}." in response.text


def assert_whole(turns: list[dict[str, Any]]) -> list[str]:
    """Every turn is one message, its call, the result and its own answer. Returns the messages."""
    for turn in turns:
        user, call, result, answer = turn["messages"]
        assert [one["role"] for one in (user, call, result, answer)] == ["user", "assistant", "tool", "assistant"]
        assert call["tool_calls"][0]["id"] == result["tool_call_id"]
        assert answer["content"] == f"You said {user['content']}."
    assert [turn["number"] for turn in turns] == list(range(1, len(turns) + 1))
    return [turn["messages"][0]["content"] for turn in turns]


async def test_fifty_clients_that_wait_for_each_other_write_whole_turns_each_knowing_those_before(
    settings: dict[str, Any],
) -> None:
    model = ScriptedModel(forever=answering)
    async with gateway(model, [echo()], settings=settings) as client:
        await asyncio.gather(*(write(client, number) for number in range(CLIENTS)))
        conversation = (await client.get("/conversations/busy")).json()

    messages = assert_whole(conversation["turns"])
    assert sorted(messages) == sorted(f"message {number}" for number in range(CLIENTS))
    knew = sorted((said(prompt) for prompt in model.prompts), key=len)[::2]  # the first of each run's two rounds
    assert knew == [messages[: count + 1] for count in range(CLIENTS)]
    times = [turn["created_at"] for turn in conversation["turns"]]
    assert all(before <= after for before, after in pairwise(times))


@pytest.mark.parametrize("settings", STORES[1:], indirect=True)
async def test_two_gateways_that_know_nothing_of_each_other_write_whole_turns(settings: dict[str, Any]) -> None:
    async with (
        gateway(ScriptedModel(forever=answering), [echo()], settings=settings) as one,
        gateway(ScriptedModel(forever=answering), [echo()], settings=settings) as other,
    ):
        await asyncio.gather(*(write((one, other)[number // 2 % 2], number) for number in range(24)))
        conversation = (await one.get("/conversations/busy")).json()

    assert sorted(assert_whole(conversation["turns"])) == sorted(f"message {number}" for number in range(24))
