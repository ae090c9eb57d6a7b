"""What callers see when something dies: nothing that was confirmed is lost, and nothing comes twice."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter

import httpx
import pytest

from tests.scale.caller import Caller, Script
from tests.scale.conftest import Tell
from tests.scale.stack import Stack, docker, until
from tests.scale.waiting import passing

pytestmark = [pytest.mark.scale, pytest.mark.server]

LEASE = 10.0
"""Seconds, as it is set where nobody sets it."""


async def test_a_replica_is_killed_in_the_middle_of_twenty_streams(
    stack: Stack, client: httpx.AsyncClient, tell: Tell
) -> None:
    one, _ = await stack.replicas()
    callers = [Caller(stack.proxy, Script(words=150, tool=number % 2 == 0)) for number in range(20)]
    async with asyncio.TaskGroup() as group:
        for caller in callers:
            group.create_task(caller.hear())
        for caller in callers:
            await caller.has(15)
        async with stack.killed(one) as killed_at:
            for caller in callers:
                await caller.has(10_000)

    lost = [caller for caller in callers if caller.heard[-1].name == "run.failed"]
    whole = [caller for caller in callers if caller not in lost]
    assert lost
    assert whole
    for caller in lost:
        caller.assert_in_order()
        assert caller.heard[-1].data["type"] == "urn:advisor-gateway:lost"
        assert caller.cuts
        document = (await client.get(f"{stack.proxy}/runs/{caller.run_id}")).json()
        assert document["status"] == "failed"
        assert document["problem"]["type"] == "urn:advisor-gateway:lost"
        again = await Caller(stack.proxy, caller.script, location=caller.location).hear()
        assert [event[:3] for event in again.heard] == [event[:3] for event in caller.heard]
    for caller in whole:
        caller.assert_whole()
        assert await stack.calls(caller.script.name) == caller.script.calls
    times = sorted(caller.heard[-1].at - killed_at for caller in lost)
    tell(f"{len(lost)} of 20 lost, told after {times[0]:.1f} to {times[-1]:.1f} s; {_seen(callers)}")
    assert times[-1] <= LEASE + 2, times  # the caller comes back by itself, and the machine has other things to do


async def test_a_conversation_goes_on_after_the_replica_of_its_turn_was_killed(
    stack: Stack, client: httpx.AsyncClient, tell: Tell
) -> None:
    one, other = await stack.replicas()
    conversation = uuid.uuid4().hex
    first, lost, last = Script(words=2), Script(words=1_000), Script(words=2)
    body = {"message": first.message, "conversation_id": conversation}
    assert (await client.post(f"{one.url}/chat", json=body)).json()["content"] == first.answer()
    caller = Caller(one.url, lost, conversation_id=conversation)
    async with asyncio.TaskGroup() as group:
        group.create_task(caller.hear())
        await caller.has(10)
        caller.url = other.url
        async with stack.killed(one) as killed_at:
            body = {"message": last.message, "conversation_id": conversation, "when_busy": "queue"}
            answer = await client.post(f"{other.url}/chat", json=body)
            took = time.monotonic() - killed_at

    assert answer.json()["content"] == last.answer(first), answer.text
    assert caller.heard[-1].data["type"] == "urn:advisor-gateway:lost"
    kept = (await client.get(f"{other.url}/conversations/{conversation}")).json()
    assert len(kept["turns"]) == 2, kept
    tell(f"the next turn was answered {took:.1f} s after the replica was killed")


async def test_redis_is_restarted_in_the_middle_of_streams(stack: Stack, tell: Tell) -> None:
    near, far = await _followed_at_both(stack, 10, Script(words=100))
    async with asyncio.TaskGroup() as group:
        for caller in near + far:
            group.create_task(caller.hear())
        for caller in near + far:
            await caller.has(10)
        began = time.monotonic()
        await docker("restart", (await stack.container("redis")).id)
        tell(f"redis was restarted in {time.monotonic() - began:.1f} s")

    for caller in near + far:
        caller.assert_whole()
    for caller in near:
        assert not caller.cuts, "who reads where the run goes on does not notice"
        assert await stack.calls(caller.script.name) == caller.script.calls
    tell(f"at the run's replica: {_seen(near)}; at the other: {_seen(far)}")


async def test_redis_is_killed_and_what_was_confirmed_is_there(
    stack: Stack, client: httpx.AsyncClient, tell: Tell
) -> None:
    near, far = await _followed_at_both(stack, 5, Script(words=60))
    ended = await Caller(stack.proxy, Script(words=5)).hear()
    async with asyncio.TaskGroup() as group:
        for caller in near + far:
            group.create_task(caller.hear())
        for caller in near + far:
            await caller.has(10)
        async with stack.killed(await stack.container("redis")):
            pass

    for caller in near + far:
        caller.assert_whole()
    again = await Caller(stack.proxy, ended.script).hear()
    assert [event[:3] for event in again.heard] == [event[:3] for event in ended.heard]
    assert await stack.calls(ended.script.name) == ended.script.calls
    tell(f"at the run's replica: {_seen(near)}; at the other: {_seen(far)}")


async def test_redis_is_away_for_longer_than_a_lease(stack: Stack, client: httpx.AsyncClient, tell: Tell) -> None:
    one, _ = await stack.replicas()
    near, far = await _followed_at_both(stack, 5, Script(words=250))
    redis = await stack.container("redis")
    async with asyncio.TaskGroup() as group:
        for caller in near + far:
            group.create_task(caller.hear())
        for caller in near + far:
            await caller.has(10)
        await docker("stop", redis.id)
        gone_at = time.monotonic()
        refused = await client.post(
            f"{one.url}/chat", json={"message": Script(words=1).message}, headers={"Idempotency-Key": uuid.uuid4().hex}
        )
        plain = Script(words=1)
        answered = await client.post(f"{one.url}/chat", json={"message": plain.message})
        ready = await client.get(f"{one.url}/readyz")
        heard = [len(caller.heard) for caller in near]
        await passing(gone_at + LEASE * 1.5 - time.monotonic())
        went_on = [len(caller.heard) - before for caller, before in zip(near, heard, strict=True)]
        await docker("start", redis.id)

    assert refused.status_code == 503, refused.text
    assert refused.json()["type"] == "urn:advisor-gateway:shared-state-unavailable"
    assert int(refused.headers["Retry-After"]) >= 1
    assert answered.json()["content"] == plain.answer(), answered.text
    assert ready.json()["shared"] == "unavailable"
    assert min(went_on) > 20, "runs go on for their own readers"
    for caller in near + far:
        caller.assert_whole()
    assert not any(caller.cuts for caller in near)
    tell(f"at the run's replica: {_seen(near)}; at the other: {_seen(far)}")
    await until(lambda: _shares(client, one.url), "the replica shares again, without having been restarted")


async def test_postgres_is_restarted_in_the_middle_of_turns(
    stack: Stack, client: httpx.AsyncClient, tell: Tell
) -> None:
    postgres = await stack.container("postgres")
    callers = [
        Caller(stack.proxy, Script(words=20 + 10 * number), conversation_id=uuid.uuid4().hex) for number in range(12)
    ]
    async with asyncio.TaskGroup() as group:
        for caller in callers:
            group.create_task(caller.hear())
        for caller in callers:
            await caller.has(10)
        await docker("stop", postgres.id)
        gone_at = time.monotonic()
        await passing(3)
        refused = await client.post(
            f"{stack.proxy}/chat", json={"message": Script(words=1).message, "conversation_id": uuid.uuid4().hex}
        )
        await docker("start", postgres.id)
        back_at = time.monotonic()

    assert refused.status_code == 503, refused.text
    assert refused.json()["type"] == "urn:advisor-gateway:memory-unavailable"
    assert int(refused.headers["Retry-After"]) >= 1
    await stack.settled()
    ends = Counter[str]()
    for caller in callers:
        caller.assert_in_order()
        end = caller.heard[-1]
        kept = await client.get(f"{stack.proxy}/conversations/{caller.heard[-1].data.get('conversation_id')}")
        if end.name == "run.completed":
            caller.assert_whole()
            assert len(kept.json()["turns"]) == 1, kept.text
        else:
            assert end.data["type"] == "urn:advisor-gateway:memory-unavailable", end
        ends[end.name] += 1
    assert ends["run.completed"]
    assert ends["run.failed"]
    tell(f"away for {back_at - gone_at:.1f} s; {dict(ends)}; {_seen(callers)}")


async def test_a_replica_is_cut_off_from_redis_for_longer_than_a_lease(
    stack: Stack, client: httpx.AsyncClient, tell: Tell
) -> None:
    one, other = await stack.replicas()
    near = [Caller(one.url, Script(words=250)) for _ in range(5)]
    network = f"{stack.project}_redis"
    async with asyncio.TaskGroup() as group:
        for caller in near:
            group.create_task(caller.hear())
            await caller.has(10)
        far = [Caller(other.url, caller.script, location=caller.location) for caller in near]
        for caller in far:
            group.create_task(caller.hear())
            await caller.has(10)
        await docker("network", "disconnect", network, one.id)
        cut_at = time.monotonic()
        try:
            for caller in far:
                await caller.has(10_000)
            ready = await client.get(f"{one.url}/readyz")
            refused = await client.post(
                f"{one.url}/chat", json={"message": Script(words=1).message, "on_disconnect": "continue"}
            )
        finally:
            await docker("network", "connect", network, one.id)

    times = sorted(caller.heard[-1].at - cut_at for caller in far)
    tell(f"at the other replica: {_seen(far)}, told after {times[0]:.1f} to {times[-1]:.1f} s")
    tell(f"at the run's replica: {_seen(near)}, {sorted(c.heard[-1].at - cut_at for c in near)[-1]:.1f} s")
    assert ready.json()["shared"] == "unavailable"
    for caller in near + far:
        caller.assert_in_order()
    for caller in far:
        assert caller.heard[-1].data["type"] == "urn:advisor-gateway:lost"
    assert times[-1] <= LEASE + 2, times
    assert refused.status_code == 503, refused.text
    script = Script(words=3)
    answer = await Caller(one.url, script, conversation_id=uuid.uuid4().hex).hear()
    answer.assert_whole()


async def test_a_replica_is_cut_off_from_redis_for_a_moment(stack: Stack, tell: Tell) -> None:
    one, other = await stack.replicas()
    near = [Caller(one.url, Script(words=100)) for _ in range(5)]
    network = f"{stack.project}_redis"
    async with asyncio.TaskGroup() as group:
        for caller in near:
            group.create_task(caller.hear())
            await caller.has(10)
        far = [Caller(other.url, caller.script, location=caller.location) for caller in near]
        for caller in far:
            group.create_task(caller.hear())
            await caller.has(10)
        await docker("network", "disconnect", network, one.id)
        await passing(LEASE / 5)
        await docker("network", "connect", network, one.id)

    for caller in near + far:
        caller.assert_whole()
    assert not any(caller.cuts for caller in near)
    tell(f"at the run's replica: {_seen(near)}; at the other: {_seen(far)}")


async def _followed_at_both(stack: Stack, count: int, like: Script) -> tuple[list[Caller], list[Caller]]:
    """Callers of runs that have begun, at either replica, and for each one more at the other. None listens yet."""
    replicas = await stack.replicas()
    near = [Caller(replicas[number % 2].url, Script(like.words, like.pace)) for number in range(count)]
    for caller in near:
        await caller.begin()
    far = [
        Caller(replicas[1 - number % 2].url, caller.script, location=caller.location)
        for number, caller in enumerate(near)
    ]
    return near, far


def _seen(callers: list[Caller]) -> str:
    """What callers saw beside their events, in a few words."""
    ends = Counter(caller.heard[-1].name for caller in callers)
    told = sum((caller.told for caller in callers), Counter[str]())
    cuts = sum(caller.cuts for caller in callers)
    return f"{dict(ends)}, lines cut: {cuts}, answers that were no stream: {dict(told)}"


async def _shares(client: httpx.AsyncClient, url: str) -> bool:
    return bool((await client.get(f"{url}/readyz")).json()["shared"] == "available")
