"""A run whose readers leave: it is cancelled at once, or after a while, or goes on, as was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from app.chat import AssistantMessage, ToolContext, UserMessage
from app.providers.scripted import ScriptedModel, tool_calls
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, Held
from tests.support.web import ENDPOINTS, ask
from tests.web.runs.conftest import Gateways
from tests.web.runs.following import AT_ONCE, data_of, ended, following, hung_up, name_of, newest, read
from tests.web.runs.stages import ANSWER, Stage, Tidying, every_stage

LATE = {"stream": {"commit_after": PATIENCE}}
HELLO = UserMessage("Hello")
AGAIN = UserMessage("Again?")

Here = Callable[[], Awaitable[object]]


async def begun(client: httpx.AsyncClient, here: Here, *, stream: bool, **body: Any) -> asyncio.Task[httpx.Response]:
    """Ask, and wait until the work is where it is wanted."""
    said = {"message": "Hello", "conversation_id": "c", **body}
    asking = asyncio.create_task(client.post(ENDPOINTS[stream], json=said))
    async with asyncio.timeout(PATIENCE):
        await here()
    return asking


async def left(client: httpx.AsyncClient, here: Here, *, stream: bool, **body: Any) -> str:
    """Ask, and hang up when the work is where it is wanted. The run's id."""
    asking = await begun(client, here, stream=stream, **body)
    run_id = await newest(client)
    await hung_up(asking)
    return run_id


async def status_of(client: httpx.AsyncClient, run_id: str) -> str:
    """How far a run is."""
    return str((await client.get(f"/runs/{run_id}")).json()["status"])


# --- cancelled at once


@pytest.mark.fault("D03", "M05")
@every_stage
@both_modes
async def test_a_run_is_cancelled_at_once_wherever_it_is_when_its_reader_leaves(
    gateway: Gateways, stage: Callable[[], Stage], *, stream: bool
) -> None:
    at = stage()
    async with gateway(at.model, at.tools, advisors=at.advisors, settings=AT_ONCE) as client:
        run_id = await left(client, at.here, stream=stream)
        await at.stopped()
        run = await ended(client, run_id)
        written = await read(client, run_id)
        at.let_go()
        again = await ask(client, "Again?", stream=stream, conversation_id="c")

    assert (run["status"], run["answer"]["content"]) == ("cancelled", at.so_far[stream].content)
    assert name_of(written[-1]) == "run.cancelled"
    assert data_of(written[-1]) == run["answer"]
    assert [tool.asked for tool in at.unwanted] == [[]] * len(at.unwanted)
    assert again.document["finish_reason"] == "stop"
    assert at.model.prompts[-1].messages == (AGAIN,), "nothing of the turn is remembered"


@pytest.mark.fault("D03")
async def test_the_reader_of_a_stream_that_has_not_begun_ends_the_run_too(gateway: Gateways) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply), settings=LATE) as client:
        run = await ended(client, await left(client, reply.asked.wait, stream=True))

    assert (run["status"], reply.cancelled.is_set()) == ("cancelled", True)


@pytest.mark.fault("D03")
async def test_a_reader_who_leaves_in_the_middle_of_the_stream_ends_the_run(gateway: Gateways) -> None:
    held = Held()
    async with gateway(ScriptedModel(tool_calls(("held", {}))), [held.tool]) as client:
        async with client.stream("POST", "/chat/stream", json={"message": "Hello"}) as response:
            await held.begun()
            assert response.status_code == 200
        async with asyncio.timeout(PATIENCE):
            await held.ended.wait()

    assert held.cancelled == 1


@pytest.mark.fault("D04", "D13")
@both_modes
async def test_what_a_tool_cleans_up_after_itself_is_finished(gateway: Gateways, *, stream: bool) -> None:
    running, cleaned = asyncio.Event(), asyncio.Event()

    async def tidy(_: str, __: ToolContext) -> str:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # an await in the clean-up: the very thing that a second cancellation would end
            cleaned.set()
        return "never"

    async with gateway(ScriptedModel(tool_calls(("tidy", {}))), [HandWrittenTool("tidy", tidy)]) as client:
        await left(client, running.wait, stream=stream)
        async with asyncio.timeout(PATIENCE):
            await cleaned.wait()


@both_modes
async def test_a_run_that_waits_for_its_conversation_is_cancelled_before_it_has_begun(
    gateway: Gateways, *, stream: bool
) -> None:
    front = Hesitant()
    model = ScriptedModel(front, forever="Again.")
    async with gateway(model, settings=AT_ONCE) as client:
        first = await begun(client, front.asked.wait, stream=stream)

        async def queued() -> None:
            while (await client.get("/runs")).json()["runs"][0]["status"] != "queued":
                pass

        run_id = await left(client, queued, stream=stream, message="Wait.", when_busy="queue")
        run = await ended(client, run_id)
        going = not first.done()
        front.go_on.set()
        await first
        await ask(client, "Again?", stream=stream, conversation_id="c")

    assert (run["status"], run["answer"]["content"], going) == ("cancelled", "", True)
    assert [prompt.messages for prompt in model.prompts] == [(HELLO,), (HELLO, AssistantMessage("At last."), AGAIN)]


@pytest.mark.fault("D04", "M11")
@both_modes
async def test_the_next_message_waits_until_the_run_that_was_left_has_cleaned_up(
    gateway: Gateways, *, stream: bool
) -> None:
    reply, tidying = Hesitant(), Tidying()
    model = ScriptedModel(reply, "Again.")
    async with gateway(model, advisors=[tidying]) as client:
        await left(client, reply.asked.wait, stream=stream)
        await tidying.stop.reached.wait()

        async def there() -> None:
            while len((await client.get("/runs")).json()["runs"]) < 2:
                pass

        next_one = await begun(client, there, stream=stream, message="Again?")
        asked = len(model.prompts)
        tidying.stop.go_on.set()
        answered = await next_one

    assert (asked, answered.status_code) == (1, 200)
    assert model.prompts[-1].messages == (AGAIN,)


# --- going on


@every_stage
@both_modes
async def test_a_run_that_is_to_go_on_is_found_again_and_remembered_wherever_it_is_left(
    gateway: Gateways, stage: Callable[[], Stage], *, stream: bool
) -> None:
    at = stage()
    async with gateway(at.model, at.tools, advisors=at.advisors, settings=AT_ONCE) as client:
        asking = await begun(client, at.here, stream=stream, on_disconnect="continue")
        await hung_up(asking)
        [found] = (await client.get("/runs", params={"conversation_id": "c"})).json()["runs"]
        at.let_go()
        written = await read(client, found["id"])
        run = await ended(client, found["id"])
        await ask(client, "Again?", stream=stream, conversation_id="c")

    assert found["status"] == "running"
    assert (run["status"], run["answer"]["content"], run["answer"]["finish_reason"]) == ("completed", ANSWER, "stop")
    assert name_of(written[-1]) == "run.completed"
    assert data_of(written[-1]) == run["answer"]
    assert at.model.prompts[-1].messages == (HELLO, AssistantMessage(ANSWER), AGAIN)


@both_modes
async def test_a_run_goes_on_as_long_as_one_of_its_readers_stays(gateway: Gateways, *, stream: bool) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply), settings=AT_ONCE) as client:
        asking = await begun(client, reply.asked.wait, stream=stream)
        run_id = await newest(client)
        async with following(client, run_id) as other:
            await other.until(lambda text: "round.started" in text)
            await hung_up(asking)
            status = await status_of(client, run_id)
        run = await ended(client, run_id)

    assert (status, run["status"]) == ("running", "cancelled")
    assert reply.cancelled.is_set()


async def test_the_readers_of_a_run_in_the_background_come_and_go_as_they_like(gateway: Gateways) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply)) as client:
        run_id = (await client.post("/chat", json={"message": "Hello", "background": True})).json()["id"]
        async with following(client, run_id) as reader:
            await reader.until(lambda text: "round.started" in text)
        status = await status_of(client, run_id)
        reply.go_on.set()
        run = await ended(client, run_id)

    assert (status, run["status"], run["answer"]["content"]) == ("running", "completed", "At last.")


@both_modes
async def test_a_run_that_is_to_go_on_can_still_be_cancelled(gateway: Gateways, *, stream: bool) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply), settings=AT_ONCE) as client:
        run_id = await left(client, reply.asked.wait, stream=stream, on_disconnect="continue")
        await client.post(f"/runs/{run_id}/cancel")
        run = await ended(client, run_id)

    assert (run["status"], reply.cancelled.is_set()) == ("cancelled", True)


# --- coming back within the grace


def grace(seconds: float) -> dict[str, Any]:
    """Settings with a time in which readers may come back."""
    return {**AT_ONCE, "runs": {"disconnect_grace": seconds}}


@every_stage
@both_modes
async def test_a_reader_who_comes_back_in_time_has_the_answer_and_lacks_no_event(
    gateway: Gateways, stage: Callable[[], Stage], *, stream: bool
) -> None:
    at = stage()
    async with gateway(at.model, at.tools, advisors=at.advisors, settings=grace(60)) as client:
        run_id = await left(client, at.here, stream=stream)
        status = await status_of(client, run_id)
        async with following(client, run_id) as reader:
            await reader.until(lambda text: at.so_far[stream].told in text)
            at.let_go()
            events = await reader.rest()
        written = await read(client, run_id)

    assert status == "running"
    assert name_of(events[-1]) == "run.completed"
    assert data_of(events[-1])["content"] == ANSWER
    assert events == written


@every_stage
@both_modes
async def test_a_run_to_which_nobody_comes_back_in_time_is_cancelled(
    gateway: Gateways, stage: Callable[[], Stage], *, stream: bool
) -> None:
    at = stage()
    async with gateway(at.model, at.tools, advisors=at.advisors, settings=grace(0.01)) as client:
        run_id = await left(client, at.here, stream=stream)
        await at.stopped()
        run = await ended(client, run_id)
        at.let_go()

    assert (run["status"], run["answer"]["finish_reason"]) == ("cancelled", "cancelled")
    assert run["answer"]["content"] == at.so_far[stream].content


@both_modes
async def test_the_time_is_counted_from_when_the_last_reader_has_left(gateway: Gateways, *, stream: bool) -> None:
    kept, later = Hesitant(), Hesitant()
    async with gateway(ScriptedModel(kept, later), settings=grace(1)) as client:
        kept_id = await left(client, kept.asked.wait, stream=stream)
        async with following(client, kept_id):
            later_id = await left(client, later.asked.wait, stream=stream, conversation_id="later")
            # The run that was left later has had its time: so has the other, but for the one who came back to it.
            lost = await ended(client, later_id)
            status = await status_of(client, kept_id)
        left_again = await ended(client, kept_id)

    assert (lost["status"], later.cancelled.is_set()) == ("cancelled", True)
    assert status == "running"
    assert (left_again["status"], kept.cancelled.is_set()) == ("cancelled", True)
