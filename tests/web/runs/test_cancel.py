"""`POST /runs/{id}/cancel`: wherever the run is, it ends with what was done, and nothing half-done is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest

from app.chat import AssistantMessage, Message, ModelUnavailable, UserMessage
from app.memory import InMemoryChatMemory
from app.providers.scripted import ScriptedModel
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.web import ask
from tests.web.runs.conftest import Gateways
from tests.web.runs.following import AT_ONCE, data_of, ended, name_of, newest, read
from tests.web.runs.stages import Stage, Stop, Tidying, every_stage

LATE = {"stream": {"commit_after": PATIENCE}}
HELLO = UserMessage("Hello")
AGAIN = UserMessage("Again?")


async def cancel(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    """Cancel a run; what is told of it."""
    response = await client.post(f"/runs/{run_id}/cancel")
    assert response.status_code == 202
    told = dict(response.json())
    assert told["id"] == run_id
    return told


async def runs_of(client: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    """The runs there are, the newest first, as soon as they are so many."""
    async with asyncio.timeout(PATIENCE):
        while len(runs := (await client.get("/runs")).json()["runs"]) < count:
            pass
    return list(runs)


# --- while it goes


@every_stage
@both_modes
async def test_a_run_ends_with_what_was_done_wherever_it_is_cancelled(
    gateway: Gateways, stage: Callable[[], Stage], *, stream: bool
) -> None:
    at = stage()
    async with gateway(at.model, at.tools, advisors=at.advisors, settings=AT_ONCE) as client:
        asking = asyncio.create_task(ask(client, stream=stream, conversation_id="c"))
        await at.here()
        run_id = await newest(client)
        await cancel(client, run_id)
        reply = await asking
        await at.stopped()
        run = await ended(client, run_id)
        written = await read(client, run_id)
        at.let_go()
        again = await ask(client, "Again?", stream=stream, conversation_id="c")

    answer, so_far = reply.document, at.so_far[stream]
    assert reply.status == 200
    assert (answer["id"], answer["finish_reason"], answer["tool_calls"]) == (run_id, "cancelled", [])
    assert (answer["content"], answer["reasoning"]) == (so_far.content, so_far.reasoning)
    assert [ran["name"] for ran in answer["tool_runs"]] == list(so_far.runs)
    assert [one["finish_reason"] for one in answer["rounds"]] == list(so_far.rounds)
    assert (run["status"], run["answer"]) == ("cancelled", answer)
    assert [name_of(one) for one in written[-2:]] == [so_far.told, "run.cancelled"]
    assert data_of(written[-1]) == answer
    if stream:
        assert reply.names == [name_of(one) for one in written]
    assert [tool.asked for tool in at.unwanted] == [[]] * len(at.unwanted)
    assert again.document["finish_reason"] == "stop"
    assert at.model.prompts[-1].messages == (AGAIN,), "nothing of the turn is remembered"


async def test_a_stream_that_has_not_begun_ends_with_its_event_as_any_other(gateway: Gateways) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply), settings=LATE) as client:
        asking = asyncio.create_task(ask(client, stream=True))
        await reply.asked.wait()
        await cancel(client, await newest(client))
        answered = await asking

    assert answered.names == ["run.started", "round.started", "run.cancelled"]
    assert reply.cancelled.is_set()


async def test_a_run_in_the_background_is_cancelled_as_any_other(gateway: Gateways) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply)) as client:
        begun = (await client.post("/chat", json={"message": "Hello", "background": True})).json()
        await reply.asked.wait()
        await cancel(client, begun["id"])
        run = await ended(client, begun["id"])

    assert (run["status"], run["answer"]["finish_reason"]) == ("cancelled", "cancelled")
    assert reply.cancelled.is_set()


@both_modes
async def test_a_run_that_waits_for_its_conversation_is_cancelled_without_having_begun(
    gateway: Gateways, *, stream: bool
) -> None:
    front = Hesitant()
    model = ScriptedModel(front, forever="Again.")
    async with gateway(model, settings=AT_ONCE) as client:
        talk = {"conversation_id": "c", "when_busy": "queue"}
        first = asyncio.create_task(ask(client, stream=stream, **talk))
        await front.asked.wait()
        waiting = asyncio.create_task(ask(client, "Wait.", stream=stream, **talk))
        run, _ = await runs_of(client, 2)
        last = asyncio.create_task(ask(client, "Again?", stream=stream, **talk))
        await runs_of(client, 3)
        await cancel(client, run["id"])
        cancelled = await waiting
        going = [one["status"] for one in await runs_of(client, 3)]
        front.go_on.set()
        others = [(await one).document["content"] for one in (first, last)]

    assert run["status"] == "queued"
    assert (cancelled.status, cancelled.document["finish_reason"]) == (200, "cancelled")
    assert (cancelled.document["content"], cancelled.document["rounds"]) == ("", [])
    if stream:
        assert cancelled.names == ["run.started", "run.cancelled"]
    assert going == ["queued", "cancelled", "running"], "the run before it goes on, the one behind it waits for that"
    assert others == ["At last.", "Again."]
    assert [prompt.messages for prompt in model.prompts] == [(HELLO,), (HELLO, AssistantMessage("At last."), AGAIN)]


# --- while it cleans up


@pytest.mark.fault("D04")
@both_modes
async def test_cancelling_twice_does_not_interrupt_the_clean_up(gateway: Gateways, *, stream: bool) -> None:
    reply, tidying = Hesitant(), Tidying()
    async with gateway(ScriptedModel(reply), advisors=[tidying]) as client:
        asking = asyncio.create_task(ask(client, stream=stream))
        await reply.asked.wait()
        run_id = await newest(client)
        await cancel(client, run_id)
        await tidying.stop.reached.wait()
        again = await cancel(client, run_id)
        tidying.stop.go_on.set()
        answered = await asking
        once_more = await cancel(client, run_id)

    assert (again["status"], once_more["status"]) == ("running", "cancelled")
    assert (tidying.cleaned, tidying.stop.cancelled.is_set()) == (1, False)
    assert (answered.status, answered.document["finish_reason"]) == (200, "cancelled")


@pytest.mark.fault("D04", "M11")
@both_modes
async def test_a_cancelled_run_does_not_keep_its_conversation_busy_and_the_next_waits_for_its_clean_up(
    gateway: Gateways, *, stream: bool
) -> None:
    reply, tidying = Hesitant(), Tidying()
    model = ScriptedModel(reply, "Again.")
    async with gateway(model, advisors=[tidying]) as client:
        asking = asyncio.create_task(ask(client, stream=stream, conversation_id="c"))
        await reply.asked.wait()
        await cancel(client, await newest(client))
        await tidying.stop.reached.wait()
        next_one = asyncio.create_task(ask(client, "Again?", stream=stream, conversation_id="c"))
        statuses = [one["status"] for one in await runs_of(client, 2)]
        asked = len(model.prompts)
        tidying.stop.go_on.set()
        cancelled, answered = await asking, await next_one

    assert statuses == ["queued", "running"]
    assert asked == 1
    assert cancelled.document["finish_reason"] == "cancelled"
    assert (answered.status, answered.document["content"]) == (200, "Again.")


@both_modes
async def test_a_run_that_has_its_answer_keeps_it(gateway: Gateways, *, stream: bool) -> None:
    tidying = Tidying()
    model = ScriptedModel("Hi", forever="Again.")
    async with gateway(model, advisors=[tidying]) as client:
        asking = asyncio.create_task(ask(client, stream=stream, conversation_id="c"))
        await tidying.stop.reached.wait()
        run_id = await newest(client)
        told = await cancel(client, run_id)
        answered = await asking
        run = await ended(client, run_id)
        tidying.stop.go_on.set()
        await ask(client, "Again?", stream=stream, conversation_id="c")

    assert told["status"] == "running", "its end is not told before everything is given back"
    assert (answered.document["content"], answered.document["finish_reason"]) == ("Hi", "stop")
    assert (run["status"], run["answer"]) == ("completed", answered.document)
    assert model.prompts[-1].messages == (HELLO, AssistantMessage("Hi"), AGAIN)


class SlowMemory(InMemoryChatMemory):
    """Takes its time to store the first turn, before or behind the deed."""

    def __init__(self, *, before: bool) -> None:
        super().__init__()
        self.stop = Stop()
        self._before = before

    async def append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        """See `ChatMemory.append`."""
        if self._before:
            await self.stop()
        await super().append(conversation_id, messages)
        if not self._before:
            await self.stop()


@pytest.mark.fault("M05")
@both_modes
@pytest.mark.parametrize("before", [True, False], ids=["not stored yet", "stored"])
async def test_a_turn_that_is_cancelled_while_it_is_stored_is_remembered_whole_or_not_at_all(
    gateway: Gateways, *, before: bool, stream: bool
) -> None:
    memory = SlowMemory(before=before)
    model = ScriptedModel("Hi", forever="Again.")
    async with gateway(model, memory=memory) as client:
        asking = asyncio.create_task(ask(client, stream=stream, conversation_id="c"))
        await memory.stop.reached.wait()
        await cancel(client, await newest(client))
        answered = await asking
        memory.stop.go_on.set()
        await ask(client, "Again?", stream=stream, conversation_id="c")

    assert answered.document["finish_reason"] == "cancelled"
    turn = () if before else (HELLO, AssistantMessage("Hi"))
    assert model.prompts[-1].messages == (*turn, AGAIN)


# --- after its end


@both_modes
@pytest.mark.parametrize(
    ("reply", "status"), [("Hi", "completed"), (ModelUnavailable("down"), "failed")], ids=["completed", "failed"]
)
async def test_cancelling_a_run_that_has_ended_changes_nothing(
    gateway: Gateways, reply: str | Exception, status: str, *, stream: bool
) -> None:
    async with gateway(ScriptedModel(reply)) as client:
        await ask(client, stream=stream)
        run_id = await newest(client)
        before = (await client.get(f"/runs/{run_id}")).json(), await read(client, run_id)
        told = await cancel(client, run_id)
        after = (await client.get(f"/runs/{run_id}")).json(), await read(client, run_id)

    assert told["status"] == status
    assert before == after


async def test_a_run_that_never_was_cannot_be_cancelled_nor_one_that_is_forgotten(gateway: Gateways) -> None:
    async with gateway(ScriptedModel("Hi"), settings={"runs": {"keep": 0}}) as client:
        forgotten = (await ask(client, stream=False)).document["id"]
        async with asyncio.timeout(PATIENCE):
            while (await client.get(f"/runs/{forgotten}")).status_code == 200:
                pass
        refused = [await client.post(f"/runs/{run_id}/cancel") for run_id in ("run_" + "0" * 32, "x", forgotten)]

    assert [response.status_code for response in refused] == [404, 404, 410]
    assert [response.json()["type"].rpartition(":")[2] for response in refused] == [
        "run-not-found",
        "run-not-found",
        "run-gone",
    ]
