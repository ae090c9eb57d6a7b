"""How a run begins: when its store knows of it, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from app.client import ChatClient
from app.providers.scripted import ScriptedModel
from app.runs import (
    GatewayFull,
    IdempotencyKey,
    InMemoryRunStore,
    LocalRun,
    RunLimits,
    RunOptions,
    Runs,
    SharedStateUnavailable,
    ShuttingDown,
)
from tests.support.chains import request_of
from tests.support.gates import PATIENCE

KEY = IdempotencyKey("me", "key", "body")


class Slow(InMemoryRunStore):
    """A store that takes its time to know of a run.

    Attributes:
        told: set when it is told of one.
        go_on: set to let it know.
        fails: whether it cannot.
        shared: which runs were said to need others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.told = asyncio.Event()
        self.go_on = asyncio.Event()
        self.fails = False
        self.shared: list[bool] = []

    async def add(self, run: LocalRun, key: IdempotencyKey | None, *, shared: bool) -> None:
        """See `RunStore.add`."""
        await super().add(run, key, shared=shared)
        self.shared.append(shared)
        self.told.set()
        await self.go_on.wait()
        if self.fails:
            raise SharedStateUnavailable("nobody there")


async def test_the_model_is_not_asked_before_the_store_knows_of_the_run() -> None:
    model, store = ScriptedModel("Hi"), Slow()
    starting = asyncio.create_task(Runs(ChatClient(model), store=store).start(request_of(stream=False)))
    await store.told.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert model.prompts == []

    store.go_on.set()

    assert (await (await starting).result()).content == "Hi"


async def test_a_run_that_the_store_cannot_know_of_leaves_no_trace() -> None:
    model, store = ScriptedModel("Hi"), Slow()
    runs = Runs(ChatClient(model), RunLimits(active=1), store)
    store.fails = True
    store.go_on.set()

    for _ in range(2):
        with pytest.raises(SharedStateUnavailable):
            await runs.start_once(KEY, request_of(stream=False, conversation_id="c"))

    assert (model.prompts, runs.active, await runs.page(10)) == ([], 0, [])
    store.fails = False
    run, is_new = await runs.start_once(KEY, request_of(stream=False, conversation_id="c"))
    assert (is_new, (await run.result()).content) == (True, "Hi")


async def test_one_who_goes_away_while_the_run_begins_leaves_no_trace() -> None:
    model, store = ScriptedModel("Hi"), Slow()
    runs = Runs(ChatClient(model), store=store)
    starting = asyncio.create_task(runs.start_once(KEY, request_of(stream=False, conversation_id="c")))
    await store.told.wait()

    starting.cancel()
    await asyncio.wait([starting])

    assert (starting.cancelled(), model.prompts, await runs.page(10)) == (True, [], [])
    store.go_on.set()
    run, is_new = await runs.start_once(KEY, request_of(stream=False, conversation_id="c"))
    assert (is_new, (await run.result()).content) == (True, "Hi")


async def test_runs_that_are_about_to_begin_take_their_places() -> None:
    model, store = ScriptedModel(forever="Hi"), Slow()
    runs = Runs(ChatClient(model), RunLimits(active=2), store)
    starting = [asyncio.create_task(runs.start(request_of(stream=False))) for _ in range(2)]
    await store.told.wait()
    await asyncio.sleep(0)

    with pytest.raises(GatewayFull, match="2 runs"):
        await runs.start(request_of(stream=False))

    store.go_on.set()
    for run in await asyncio.gather(*starting):
        await run.result()
    assert (await (await runs.start(request_of(stream=False))).result()).content == "Hi"


async def test_a_run_that_was_about_to_begin_when_the_gateway_shut_down_does_not() -> None:
    model, store = ScriptedModel("Hi"), Slow()
    runs = Runs(ChatClient(model), store=store)
    starting = asyncio.create_task(runs.start(request_of(stream=False, conversation_id="c")))
    await store.told.wait()

    await runs.drain(timeout=0)
    store.go_on.set()

    with pytest.raises(ShuttingDown):
        await starting
    assert (model.prompts, runs.active, await runs.page(10)) == ([], 0, [])
    assert (await store.enter("c", "run_1", "reject")).is_first


async def test_one_that_joins_by_a_key_waits_until_the_run_of_the_other_has_begun_or_not() -> None:
    store = Slow()
    runs = Runs(ChatClient(ScriptedModel("Hi")), store=store)
    first = asyncio.create_task(runs.start_once(KEY, request_of(stream=False)))
    await store.told.wait()
    second = asyncio.create_task(runs.start_once(KEY, request_of(stream=False)))
    await asyncio.sleep(0)
    store.go_on.set()

    async with asyncio.timeout(PATIENCE):
        (begun, is_new), (joined, was_new) = await first, await second

    assert begun is joined
    assert (is_new, was_new) == (True, False)


@pytest.mark.parametrize(
    ("conversation", "key", "options", "needs_others"),
    [
        (None, None, RunOptions(), False),
        ("c", None, RunOptions(), True),
        (None, KEY, RunOptions(), True),
        (None, None, RunOptions(on_disconnect="continue"), True),
    ],
    ids=["plain", "conversation", "key", "continue"],
)
async def test_what_others_have_to_know_of_is_what_they_may_ask_for(
    conversation: str | None, key: IdempotencyKey | None, options: RunOptions, *, needs_others: bool
) -> None:
    store = Slow()
    store.go_on.set()
    runs = Runs(ChatClient(ScriptedModel("Hi")), store=store)
    request = request_of(stream=False, conversation_id=conversation)

    run = await runs.start(request, options) if key is None else (await runs.start_once(key, request, options))[0]
    await run.result()

    assert store.shared == [needs_others]
