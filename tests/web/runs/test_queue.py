"""Messages that wait for their conversation: they run one after the other, in the order they came."""

from __future__ import annotations

import asyncio

import pytest

from app.chat import ModelUnavailable
from app.providers.scripted import ScriptedModel
from app.web.sse import PING
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.web import ENDPOINTS, ask
from tests.web.runs.asking import AT_ONCE, each_way, leave, line, listening, said
from tests.web.runs.conftest import Gateways

C = {"conversation_id": "c"}
QUEUE = {**C, "when_busy": "queue"}


@pytest.mark.fault("M11")
@each_way
async def test_the_second_waits_for_the_first_and_sees_its_turn(gateway: Gateways, *, first: bool, then: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply, "Hi")
    async with gateway(model) as client:
        asking = asyncio.create_task(ask(client, "One", stream=first, **C))
        await reply.asked.wait()
        second = asyncio.create_task(ask(client, "Two", stream=then, **QUEUE))
        await line(client, "running", "queued")
        asked_before = len(model.prompts)
        reply.go_on.set()
        replies = await asking, await second

    assert asked_before == 1
    assert [(reply.status, reply.document["content"]) for reply in replies] == [(200, "At last."), (200, "Hi")]
    assert [said(prompt) for prompt in model.prompts] == [["One"], ["One", "At last.", "Two"]]


@pytest.mark.fault("S06")
async def test_the_stream_of_one_that_waits_begins_and_is_kept_alive(gateway: Gateways) -> None:
    reply = Hesitant()
    settings = {"stream": {"commit_after": 0, "heartbeat": 0.001}}
    async with gateway(ScriptedModel(reply, "Hi"), settings=settings) as client:
        asking = asyncio.create_task(ask(client, "One", stream=True, **C))
        await reply.asked.wait()
        async with listening(client, "Two", **QUEUE) as waiting:
            await waiting.until("run.started")
            silence = [await waiting.write() for _ in range(3)]
            reply.go_on.set()
            await waiting.end()
        await asking

    assert silence == [PING.decode()] * 3
    assert [event.name for event in waiting.events] == [
        "run.started",
        "round.started",
        "text.delta",
        "round.completed",
        "run.completed",
    ]
    assert [event.id for event in waiting.events] == [1, 2, 3, 4, 5]


async def test_one_that_waits_in_the_background_says_so(gateway: Gateways) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply, "Hi")) as client:
        asking = asyncio.create_task(ask(client, "One", stream=False, **C))
        await reply.asked.wait()
        accepted = await client.post("/chat", json={"message": "Two", "background": True, **QUEUE})
        reply.go_on.set()
        await asking
        await line(client, "completed", "completed")
        answer = (await client.get(accepted.headers["location"])).json()["answer"]

    assert (accepted.status_code, accepted.json()["status"]) == (202, "queued")
    assert answer["content"] == "Hi"


@pytest.mark.fault("M11")
@both_modes
async def test_ten_that_wait_run_one_at_a_time_in_the_order_they_came(gateway: Gateways, *, stream: bool) -> None:
    replies = [Hesitant(f"Answer {number}") for number in range(11)]
    texts = [f"Message {number}" for number in range(11)]
    model = ScriptedModel(*replies)
    async with gateway(model) as client:
        asking = []
        for count, text in enumerate(texts):
            asking.append(asyncio.create_task(ask(client, text, stream=stream, **QUEUE)))
            await line(client, "running", *["queued"] * count)
        for count, reply in enumerate(replies):
            await line(client, *["completed"] * count, "running", *["queued"] * (10 - count))
            reply.go_on.set()
        answers = await asyncio.gather(*asking)

    assert [answer.document["content"] for answer in answers] == [f"Answer {number}" for number in range(11)]
    before = [text for number in range(10) for text in (f"Message {number}", f"Answer {number}")]
    assert [said(prompt) for prompt in model.prompts] == [
        [*before[: 2 * number], text] for number, text in enumerate(texts)
    ]


@both_modes
async def test_one_who_leaves_when_its_turn_has_come_ends_its_run(gateway: Gateways, *, stream: bool) -> None:
    one, two = Hesitant(), Hesitant()
    async with gateway(ScriptedModel(one, two)) as client:
        asking = asyncio.create_task(ask(client, "One", stream=stream, **C))
        await one.asked.wait()
        leaving = asyncio.create_task(ask(client, "Two", stream=stream, **QUEUE))
        await line(client, "running", "queued")
        one.go_on.set()
        await asking
        await two.asked.wait()
        await leave(leaving)
        await line(client, "completed", "cancelled")

    assert two.cancelled.is_set()


@each_way
async def test_one_who_leaves_while_it_waits_disturbs_nobody(gateway: Gateways, *, first: bool, then: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply, "Hi")
    async with gateway(model, settings={"stream": AT_ONCE}) as client:
        asking = asyncio.create_task(ask(client, "One", stream=first, **C))
        await reply.asked.wait()
        leaving = asyncio.create_task(client.post(ENDPOINTS[then], json={"message": "Two", **QUEUE}))
        await line(client, "running", "queued")
        last = asyncio.create_task(ask(client, "Three", stream=then, **QUEUE))
        await line(client, "running", "queued", "queued")
        await leave(leaving)
        await line(client, "running", "cancelled", "queued")
        assert not reply.cancelled.is_set()
        reply.go_on.set()
        replies = await asking, await last

    assert [reply.document["content"] for reply in replies] == ["At last.", "Hi"]
    assert [said(prompt) for prompt in model.prompts] == [["One"], ["One", "At last.", "Three"]]


@both_modes
async def test_one_that_is_to_go_on_without_its_caller_keeps_its_place(gateway: Gateways, *, stream: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply, "Hi", "Ho")
    body = {"message": "Two", "on_disconnect": "continue", **QUEUE}
    async with gateway(model, settings={"stream": AT_ONCE}) as client:
        asking = asyncio.create_task(ask(client, "One", stream=stream, **C))
        await reply.asked.wait()
        leaving = asyncio.create_task(client.post(ENDPOINTS[stream], json=body))
        await line(client, "running", "queued")
        await leave(leaving)
        last = asyncio.create_task(ask(client, "Three", stream=stream, **QUEUE))
        await line(client, "running", "queued", "queued")
        reply.go_on.set()
        await asking
        answer = await last

    assert answer.document["content"] == "Ho"
    assert said(model.prompts[2]) == ["One", "At last.", "Two", "Hi", "Three"]


@each_way
async def test_one_that_is_cancelled_while_it_waits_ends_at_once_and_was_never_asked(
    gateway: Gateways, *, first: bool, then: bool
) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply, "Hi")
    async with gateway(model, settings={"stream": AT_ONCE}) as client:
        asking = asyncio.create_task(ask(client, "One", stream=first, **C))
        await reply.asked.wait()
        second = asyncio.create_task(ask(client, "Two", stream=then, **QUEUE))
        _, run = await line(client, "running", "queued")
        await client.post(f"/runs/{run}/cancel")
        cancelled = await second
        reply.go_on.set()
        await asking
        after = await ask(client, "Three", stream=then, **C)

    assert (cancelled.status, cancelled.document["finish_reason"]) == (200, "cancelled")
    assert cancelled.names == (["run.started", "run.cancelled"] if then else [])
    assert after.document["content"] == "Hi"
    assert [said(prompt) for prompt in model.prompts] == [["One"], ["One", "At last.", "Three"]]


@each_way
async def test_when_the_first_fails_the_next_runs(gateway: Gateways, *, first: bool, then: bool) -> None:
    reply = Hesitant(ModelUnavailable("the model server is tired"))
    model = ScriptedModel(reply, "Hi")
    async with gateway(model) as client:
        asking = asyncio.create_task(ask(client, "One", stream=first, **C))
        await reply.asked.wait()
        second = asyncio.create_task(ask(client, "Two", stream=then, **QUEUE))
        await line(client, "running", "queued")
        reply.go_on.set()
        failed, answer = await asking, await second

    assert failed.document["type"] == "urn:advisor-gateway:model-unavailable"
    assert answer.document["content"] == "Hi"
    assert [said(prompt) for prompt in model.prompts] == [["One"], ["Two"]]


@each_way
async def test_when_the_first_is_cancelled_the_next_runs(gateway: Gateways, *, first: bool, then: bool) -> None:
    reply = Hesitant()
    model = ScriptedModel(reply, "Hi")
    async with gateway(model) as client:
        asking = asyncio.create_task(ask(client, "One", stream=first, **C))
        await reply.asked.wait()
        second = asyncio.create_task(ask(client, "Two", stream=then, **QUEUE))
        run, _ = await line(client, "running", "queued")
        await client.post(f"/runs/{run}/cancel")
        cancelled, answer = await asking, await second

    assert cancelled.document["finish_reason"] == "cancelled"
    assert answer.document["content"] == "Hi"
    assert [said(prompt) for prompt in model.prompts] == [["One"], ["Two"]]


@both_modes
async def test_those_that_wait_do_not_let_one_pass_that_would_not(gateway: Gateways, *, stream: bool) -> None:
    one, two = Hesitant("1"), Hesitant("2")
    async with gateway(ScriptedModel(one, two)) as client:
        asking = [asyncio.create_task(ask(client, "One", stream=stream, **C))]
        await one.asked.wait()
        asking.append(asyncio.create_task(ask(client, "Two", stream=stream, **QUEUE)))
        await line(client, "running", "queued")
        one.go_on.set()
        await two.asked.wait()
        refused = await ask(client, "Three", stream=stream, **C)
        two.go_on.set()
        replies = await asyncio.gather(*asking)

    assert refused.status == 409
    assert [reply.document["content"] for reply in replies] == ["1", "2"]


@both_modes
@pytest.mark.parametrize("when_busy", ["queue", "cancel_previous"])
async def test_those_that_wait_count_and_one_refused_for_that_cancels_nobody(
    single_gateway: Gateways, when_busy: str, *, stream: bool
) -> None:
    reply = Hesitant()
    async with single_gateway(ScriptedModel(reply, "Hi"), settings={"runs": {"max_active": 2}}) as client:
        asking = [asyncio.create_task(ask(client, "One", stream=stream, **C))]
        await reply.asked.wait()
        asking.append(asyncio.create_task(ask(client, "Two", stream=stream, **QUEUE)))
        await line(client, "running", "queued")
        refused = await ask(client, "Three", stream=stream, **C, when_busy=when_busy)
        elsewhere = await ask(client, "Three", stream=stream)
        reply.go_on.set()
        replies = await asyncio.gather(*asking)

    for full in (refused, elsewhere):
        assert (full.status, full.document["type"]) == (503, "urn:advisor-gateway:gateway-full")
        assert int(full.headers["retry-after"]) >= 1
    assert [reply.document["content"] for reply in replies] == ["At last.", "Hi"]


async def test_a_place_of_one_that_left_the_line_is_free_again(single_gateway: Gateways) -> None:
    reply = Hesitant()
    settings = {"runs": {"max_active": 2}, "stream": AT_ONCE}
    async with single_gateway(ScriptedModel(reply, "Hi", "Ho"), settings=settings) as client:
        asking = asyncio.create_task(ask(client, "One", stream=True, **C))
        await reply.asked.wait()
        async with listening(client, "Two", **QUEUE):
            assert (await ask(client, "Elsewhere", stream=True)).status == 503
        async with asyncio.timeout(PATIENCE):
            await line(client, "running", "cancelled")
        elsewhere = await ask(client, "Elsewhere", stream=True)
        reply.go_on.set()
        await asking

    assert (elsewhere.status, elsewhere.document["content"]) == (200, "Hi")
