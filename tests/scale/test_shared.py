"""What any replica knows, whichever of them was told."""

from __future__ import annotations

import asyncio
import time
import uuid

import httpx
import pytest

from tests.scale.caller import Caller, Script
from tests.scale.conftest import Tell
from tests.scale.stack import Stack

pytestmark = [pytest.mark.scale, pytest.mark.server]


async def test_a_run_of_one_replica_is_followed_and_cancelled_through_the_other(
    stack: Stack, client: httpx.AsyncClient, tell: Tell
) -> None:
    one, other = await stack.replicas()
    script = Script(words=1_000)
    begun = Caller(one.url, script)
    async with asyncio.TaskGroup() as group:
        group.create_task(begun.hear())
        await begun.has(5)
        follower = Caller(other.url, script, location=begun.location)
        group.create_task(follower.hear())
        await follower.has(20)
        told_at = time.monotonic()
        cancelled = await client.post(f"{other.url}/runs/{begun.run_id}/cancel")

    assert cancelled.status_code == 202, cancelled.text
    for caller in (begun, follower):
        caller.assert_in_order()
        assert caller.heard[-1].name == "run.cancelled"
    assert [event[:3] for event in begun.heard] == [event[:3] for event in follower.heard]
    assert (await stack.calls(script.name)) == {"begun": 1, "answered": 0, "left": 1}
    documents = [(await client.get(f"{replica.url}/runs/{begun.run_id}")).json() for replica in (one, other)]
    assert documents[0] == documents[1]
    assert documents[0]["status"] == "cancelled"
    tell(f"cancelled through the other replica after {begun.heard[-1].at - told_at:.2f} s")


async def test_a_reader_at_the_other_replica_hears_as_soon_as_one_at_the_same(stack: Stack, tell: Tell) -> None:
    one, other = await stack.replicas()
    script = Script(words=50, tool=True)
    begun = Caller(one.url, script)
    async with asyncio.TaskGroup() as group:
        group.create_task(begun.hear())
        await begun.has(1)
        follower = Caller(other.url, script, location=begun.location)
        group.create_task(follower.hear())
    late = Caller(other.url, script, location=begun.location)
    await late.hear()

    for caller in (begun, follower, late):
        caller.assert_whole()
    assert (await stack.calls(script.name)) == script.calls
    behind = sorted(there.at - here.at for here, there in zip(begun.heard, follower.heard, strict=True))[10:]
    tell(f"later at the other replica: {1000 * behind[len(behind) // 2]:.0f} ms, at most {1000 * behind[-1]:.0f} ms")


async def test_what_was_said_at_one_replica_is_known_at_the_other(stack: Stack, client: httpx.AsyncClient) -> None:
    one, other = await stack.replicas()
    conversation = uuid.uuid4().hex
    scripts = [Script(words=3) for _ in range(4)]
    for number, script in enumerate(scripts):
        replica = (one, other)[number % 2]
        body = {"message": script.message, "conversation_id": conversation}
        answer = await client.post(f"{replica.url}/chat", json=body)
        assert answer.json()["content"] == script.answer(*scripts[:number]), answer.text

    kept = [(await client.get(f"{replica.url}/conversations/{conversation}")).json() for replica in (one, other)]
    assert kept[0] == kept[1]
    assert len(kept[0]["turns"]) == 4, kept[0]


async def test_one_key_at_both_replicas_at_once_begins_one_run(stack: Stack, client: httpx.AsyncClient) -> None:
    one, other = await stack.replicas()
    script = Script(words=5)
    body = {"message": script.message, "on_disconnect": "continue"}
    key = {"Idempotency-Key": script.name}
    answers = await asyncio.gather(
        *(client.post(f"{replica.url}/chat", json=body, headers=key) for replica in [one, other] * 5)
    )

    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert [answer.headers.get("Idempotency-Replayed") for answer in answers].count("true") == 9
    assert (await stack.calls(script.name)) == script.calls


async def test_a_queue_goes_through_both_replicas(stack: Stack, client: httpx.AsyncClient) -> None:
    one, other = await stack.replicas()
    conversation = uuid.uuid4().hex
    callers: list[Caller] = []
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            url = (one, other)[number % 2].url
            caller = Caller(url, Script(words=10), conversation_id=conversation, when_busy="queue")
            callers.append(caller)
            group.create_task(caller.hear())
            await caller.has(1)

    for number, caller in enumerate(callers):
        caller.assert_whole(*(before.script for before in callers[:number]))
    kept = (await client.get(f"{one.url}/conversations/{conversation}")).json()
    said = [message["content"] for turn in kept["turns"] for message in turn["messages"] if message["role"] == "user"]
    assert said == [caller.script.message for caller in callers]


async def test_a_conversation_that_is_busy_at_one_replica_is_busy_at_the_other(
    stack: Stack, client: httpx.AsyncClient
) -> None:
    one, other = await stack.replicas()
    conversation = uuid.uuid4().hex
    long, short = Script(words=1_000), Script(words=3)
    begun = Caller(one.url, long, conversation_id=conversation)
    async with asyncio.TaskGroup() as group:
        group.create_task(begun.hear())
        await begun.has(5)
        body = {"message": short.message, "conversation_id": conversation}
        refused = await client.post(f"{other.url}/chat", json=body)
        taken = await client.post(f"{other.url}/chat", json={**body, "when_busy": "cancel_previous"})

    assert refused.status_code == 409, refused.text
    assert taken.json()["content"] == short.answer(), taken.text
    assert begun.heard[-1].name == "run.cancelled"


async def test_the_list_of_runs_is_the_same_at_both(stack: Stack, client: httpx.AsyncClient) -> None:
    one, other = await stack.replicas()
    for replica in (one, other):
        assert (await client.post(f"{replica.url}/chat", json={"message": Script(words=1).message})).status_code == 200

    lists = [(await client.get(f"{replica.url}/runs")).json() for replica in (one, other)]
    assert lists[0] == lists[1]
    assert len(lists[0]["runs"]) >= 2
