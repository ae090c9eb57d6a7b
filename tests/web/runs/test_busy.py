"""A second message into a conversation whose run is still going: it is refused, waits, or ends the others."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partialmethod
from typing import Any

import pytest

from app.chat import BaseAdvisor, CallNext, ChatEvents, ChatRequest, ToolContext
from app.providers.scripted import ScriptedModel, tool_calls
from app.tooling import ToolCallingManager
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool
from tests.support.web import ask
from tests.web.runs.asking import AT_ONCE, each_way, line, said
from tests.web.runs.conftest import Gateways

C = {"conversation_id": "c"}
QUEUE = {**C, "when_busy": "queue"}
CANCEL = {**C, "when_busy": "cancel_previous"}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that cleans up is not left running meanwhile, however busy the machine is."""
    made = partialmethod(ToolCallingManager.__init__, cancel_grace=PATIENCE)
    monkeypatch.setattr(ToolCallingManager, "__init__", made)


class Tidy:
    """A tool that never ends by itself, and whose clean-up takes as long as a test wants.

    Attributes:
        tool: the tool.
        begun: set when it is at work.
        cleaning: set when it was told to stop.
        cleaned: set to let its clean-up end.
    """

    def __init__(self) -> None:
        self.tool = HandWrittenTool("tidy", self._work)
        self.begun = asyncio.Event()
        self.cleaning = asyncio.Event()
        self.cleaned = asyncio.Event()

    async def _work(self, _: str, __: ToolContext) -> str:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cleaning.set()
            await self.cleaned.wait()
        return "never"


# --- reject


@pytest.mark.fault("M11")
@each_way
@pytest.mark.parametrize("body", [{}, {"when_busy": None}, {"when_busy": "reject"}], ids=["default", "null", "reject"])
async def test_a_second_message_is_refused(gateway: Gateways, body: dict[str, Any], *, first: bool, then: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply, "Hi")
    async with gateway(model) as client:
        asking = asyncio.create_task(ask(client, "One", stream=first, **C))
        await reply.asked.wait()
        refused = await ask(client, "Two", stream=then, **C, **body)
        reply.go_on.set()
        answer = await asking
        again = await ask(client, "Two", stream=then, **C, **body)

    assert (refused.status, refused.document["type"]) == (409, "urn:advisor-gateway:conversation-busy")
    assert '"when_busy": "queue" or "cancel_previous"' in refused.document["detail"]
    assert (answer.document["content"], again.document["content"]) == ("At last.", "Hi")
    assert [said(prompt) for prompt in model.prompts] == [["One"], ["One", "At last.", "Two"]]


@pytest.mark.usefixtures("patient")
@each_way
async def test_a_run_that_was_told_to_end_is_waited_for_and_refuses_nobody(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    tidy = Tidy()
    model = ScriptedModel(tool_calls(("tidy", {})), "Hi")
    async with gateway(model, [tidy.tool], settings={"stream": AT_ONCE}) as client:
        asking = asyncio.create_task(ask(client, "One", stream=first, **C))
        await tidy.begun.wait()
        [run] = await line(client, "running")
        await client.post(f"/runs/{run}/cancel")
        second = asyncio.create_task(ask(client, "Two", stream=then, **C))
        await line(client, "running", "queued")
        third = await ask(client, "Three", stream=then, **C)
        asked_before = len(model.prompts)
        tidy.cleaned.set()
        ended, answer = await asking, await second

    assert (ended.document["finish_reason"], answer.document["content"], third.status) == ("cancelled", "Hi", 409)
    assert (asked_before, [said(prompt) for prompt in model.prompts]) == (1, [["One"], ["Two"]])


@both_modes
@pytest.mark.parametrize("junk", ["later", "", "Queue", 1, True, ["queue"], {}], ids=repr)
async def test_what_is_none_of_the_three_is_refused(gateway: Gateways, junk: object, *, stream: bool) -> None:
    model = ScriptedModel()
    async with gateway(model) as client:
        refused = await ask(client, stream=stream, **C, when_busy=junk)
        runs = (await client.get("/runs")).json()["runs"]

    assert (refused.status, refused.document["type"]) == (422, "urn:advisor-gateway:body-invalid")
    [error] = refused.document["errors"]
    assert error["loc"] == ["when_busy"]
    assert all(choice in error["message"] for choice in ("reject", "queue", "cancel_previous"))
    assert (model.prompts, runs) == ([], [])


@both_modes
@pytest.mark.parametrize("when_busy", ["reject", "queue", "cancel_previous"])
@pytest.mark.parametrize("other", [{"conversation_id": "d"}, {"conversation_id": None}, {}], ids=["d", "null", "none"])
async def test_other_conversations_and_requests_without_one_neither_wait_nor_disturb(
    gateway: Gateways, when_busy: str, other: dict[str, Any], *, stream: bool
) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply, "2", "3")) as client:
        asking = asyncio.create_task(ask(client, stream=stream, **C))
        await reply.asked.wait()
        others = [await ask(client, stream=stream, when_busy=when_busy, **other) for _ in range(2)]
        reply.go_on.set()
        answer = await asking

    assert [reply.document["content"] for reply in (answer, *others)] == ["At last.", "2", "3"]


@both_modes
@pytest.mark.parametrize("when_busy", ["reject", "queue", "cancel_previous"])
async def test_nobody_waits_where_nothing_is_going(gateway: Gateways, when_busy: str, *, stream: bool) -> None:
    async with gateway(ScriptedModel("1", "2")) as client:
        replies = [await ask(client, stream=stream, when_busy=when_busy, **C) for _ in range(2)]

    assert [reply.document["content"] for reply in replies] == ["1", "2"]


# --- cancel_previous


@pytest.mark.usefixtures("patient")
@pytest.mark.fault("M05")
@each_way
async def test_the_previous_run_is_cancelled_and_the_next_begins_when_it_has_cleaned_up(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    tidy = Tidy()
    model = ScriptedModel(tool_calls(("tidy", {}), content="Let me see."), "Hi")
    async with gateway(model, [tidy.tool], settings={"stream": AT_ONCE}) as client:
        asking = asyncio.create_task(ask(client, "One", stream=first, **C))
        await tidy.begun.wait()
        second = asyncio.create_task(ask(client, "Two", stream=then, **CANCEL))
        await tidy.cleaning.wait()
        await line(client, "running", "queued")
        asked_before = len(model.prompts)
        tidy.cleaned.set()
        cancelled, answer = await asking, await second

    assert asked_before == 1
    assert (cancelled.status, cancelled.document["finish_reason"]) == (200, "cancelled")
    assert cancelled.document["content"] == "Let me see."
    assert cancelled.names[-1:] == (["run.cancelled"] if first else [])
    assert (answer.status, answer.document["content"]) == (200, "Hi")
    assert [said(prompt) for prompt in model.prompts] == [["One"], ["Two"]]


@both_modes
async def test_all_that_wait_are_cancelled_too(gateway: Gateways, *, stream: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply, "Hi", "Ho")
    async with gateway(model) as client:
        earlier = [asyncio.create_task(ask(client, "One", stream=stream, **C))]
        await reply.asked.wait()
        for count, message in enumerate(("Two", "Three"), 1):
            earlier.append(asyncio.create_task(ask(client, message, stream=stream, **QUEUE)))
            await line(client, "running", *["queued"] * count)
        answer = await ask(client, "Four", stream=stream, **CANCEL)
        cancelled = await asyncio.gather(*earlier)
        after = await ask(client, "Five", stream=stream, **C)

    assert [reply.document["finish_reason"] for reply in cancelled] == ["cancelled"] * 3
    assert [reply.names[-1:] for reply in cancelled] == [["run.cancelled"] if stream else []] * 3
    assert (answer.document["content"], after.document["content"]) == ("Hi", "Ho")
    assert [said(prompt) for prompt in model.prompts] == [["One"], ["Four"], ["Four", "Hi", "Five"]]


@pytest.mark.usefixtures("patient")
@both_modes
async def test_of_several_that_cancel_the_others_the_last_one_runs(gateway: Gateways, *, stream: bool) -> None:
    tidy = Tidy()
    model = ScriptedModel(tool_calls(("tidy", {})), "Hi")
    async with gateway(model, [tidy.tool]) as client:
        asking = [asyncio.create_task(ask(client, "One", stream=stream, **C))]
        await tidy.begun.wait()
        statuses: list[str] = ["running"]
        for message in ("Two", "Three", "Four"):
            asking.append(asyncio.create_task(ask(client, message, stream=stream, **CANCEL)))
            statuses = ["running", *["cancelled"] * (len(statuses) - 1), "queued"]
            await line(client, *statuses)
        tidy.cleaned.set()
        *cancelled, answer = await asyncio.gather(*asking)

    assert [reply.document["finish_reason"] for reply in cancelled] == ["cancelled"] * 3
    assert answer.document["content"] == "Hi"
    assert [said(prompt) for prompt in model.prompts] == [["One"], ["Four"]]


@each_way
async def test_a_previous_run_that_has_just_its_answer_keeps_it_and_is_remembered_whole(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    answered, go_on = asyncio.Event(), asyncio.Event()

    class Slow(BaseAdvisor):
        """Takes its time to clean up when the answer has passed."""

        async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
            try:
                async with aclosing(call_next(request)) as events:
                    async for event in events:
                        yield event
            finally:
                answered.set()
                await go_on.wait()

    model = ScriptedModel("First.", "Second.")
    async with gateway(model, advisors=[Slow(100)]) as client:
        asking = asyncio.create_task(ask(client, "One", stream=first, **C))
        await answered.wait()
        second = asyncio.create_task(ask(client, "Two", stream=then, **CANCEL))
        async with asyncio.timeout(PATIENCE):
            while len((await client.get("/runs", params=C)).json()["runs"]) < 2:
                pass
        go_on.set()
        kept, answer = await asking, await second

    assert (kept.status, kept.document["content"], kept.document["finish_reason"]) == (200, "First.", "stop")
    assert kept.names[-1:] == (["run.completed"] if first else [])
    assert answer.document["content"] == "Second."
    assert [said(prompt) for prompt in model.prompts] == [["One"], ["One", "First.", "Two"]]
