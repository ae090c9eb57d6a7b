"""The memory that a gateway is put together with, by its settings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from app.chat import AssistantMessage, ConfigurationError, Message, SystemMessage, UserMessage
from app.main import create_app
from app.memory import InMemoryChatMemory
from app.providers.scripted import ScriptedModel
from app.settings import Settings
from tests.support.web import ask, gateway


def users(messages: Iterable[Message]) -> list[str]:
    """What users said."""
    return [message.content for message in messages if isinstance(message, UserMessage)]


def files(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


async def test_conversations_are_in_a_file_by_default_which_the_next_gateway_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GATEWAY_MEMORY__URL")
    first, second = ScriptedModel("Hi"), ScriptedModel("Again")
    for model, text in ((first, "One."), (second, "Two.")):
        async with gateway(model) as client:
            await ask(client, text, stream=False, conversation_id="c")

    assert users(second.prompts[0].messages) == ["One.", "Two."]
    assert files(tmp_path / "data") == ["gateway.db"], "and it is closed"


@pytest.mark.parametrize("url", ["memory://", "here/gateway.db"])
async def test_what_leaves_a_conversation_is_summed_up_where_the_operator_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    model = ScriptedModel("One!", "Two!", "Three!", "They counted.", "Four!")
    settings = {"memory": {"url": url, "summarize": True, "max_messages": 5}}
    async with gateway(model, settings=settings) as client:
        replies = [
            await ask(client, text, stream=False, conversation_id="c", system="Count.")
            for text in ("One.", "Two.", "Three.", "Four.")
        ]
        kept = (await client.get("/conversations/c")).json()

    assert [reply.document["content"] for reply in replies] == ["One!", "Two!", "Three!", "Four!"]
    assert [type(message) for message in model.prompts[3].messages] == [SystemMessage, UserMessage]
    system, summary, *said = model.prompts[4].messages
    assert system == SystemMessage("Count.")
    assert isinstance(summary, SystemMessage)
    assert summary.content == "What was said before, in short: They counted."
    assert users(said) == ["Three.", "Four."]
    assert (kept["summary"], kept["system"]) == ("They counted.", ["Count."])
    assert [turn["number"] for turn in kept["turns"]] == [3, 4]


async def test_conversations_keep_their_limits_in_messages_and_tokens(tmp_path: Path) -> None:
    settings = {"memory": {"url": str(tmp_path / "gateway.db"), "max_messages": 4, "max_tokens": 100}}
    async with gateway(ScriptedModel(forever="Hi"), settings=settings) as client:
        for text in ("One.", "Two.", "Three."):
            await ask(client, text, stream=False, conversation_id="many")
        for text in ("One." * 50, "Two." * 50):
            await ask(client, text, stream=False, conversation_id="long")
        kept = [(await client.get(f"/conversations/{name}")).json()["turns"] for name in ("many", "long")]

    assert [[turn["number"] for turn in turns] for turns in kept] == [[2, 3], [2]]


async def test_old_conversations_are_forgotten_while_the_gateway_runs() -> None:
    memory = InMemoryChatMemory()
    for name in ("old", "young"):
        await memory.append(name, (UserMessage("Hello"), AssistantMessage("Hi")))
    old = await memory.read("old")
    await memory.replace(old, replace(old, updated_at=old.updated_at - timedelta(days=8)))
    async with gateway(ScriptedModel(), settings={"memory": {"keep_days": 7}}, memory=memory) as client:
        await asyncio.sleep(0)  # the first look is at the start
        found = (await client.get("/conversations")).json()["conversations"]

    assert [one["id"] for one in found] == ["young"]
    assert not [task for task in asyncio.all_tasks() if "forget_old" in repr(task)]


def test_an_address_that_cannot_be_one_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="the memory's address must be a path") as refused:
        create_app(Settings(memory={"url": "postgresql://user:hunter2@host"}), model=ScriptedModel(), tools=[])

    assert "hunter2" not in str(refused.value)
