"""Where runs are known: what is promised of one store is shown of all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from app.chat import AssistantMessage, ChatEvents, ChatResponse, Completed
from app.runs import (
    ConversationBusy,
    IdempotencyKey,
    IdempotencyKeyReused,
    LocalRun,
    Retention,
    RunCompleted,
    RunGone,
    RunNotFound,
    RunStore,
    WhenBusy,
)
from app.runs.run import new_run_id
from app.runs.store import Place
from tests.runs.conftest import Opening
from tests.support.gates import PATIENCE

KEY = IdempotencyKey("me", "key", "body")
SHORT = Retention(seconds=0.05)

WEIRD = ["", "c", "c:line", "c:", "C", "c\n", "ü c", "c\0", "c\ud800", "%63", "*", "c" * 2_000]
"""Names of conversations as callers may choose them."""


class Chain:
    """What a run drives: it ends when it is told to.

    Attributes:
        go_on: set to let it end.
    """

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def events(self) -> ChatEvents:
        """The events."""
        await self.go_on.wait()
        yield Completed(ChatResponse(AssistantMessage("Hi")))


class Begun:
    """A run of a store.

    Attributes:
        run: the run.
        place: its place in its conversation.
    """

    def __init__(self, run: LocalRun, chain: Chain, place: Place | None) -> None:
        self.run = run
        self.place = place
        self._chain = chain

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.id

    async def end(self) -> None:
        """Let it end, and wait until its store knows."""
        self._chain.go_on.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([self.run.task])


async def begin(
    store: RunStore,
    key: IdempotencyKey | None = None,
    *,
    conversation_id: str | None = None,
    when_busy: WhenBusy = "reject",
) -> Begun:
    """A run that is going until it is told to end."""
    run_id = new_run_id()
    if key is not None:
        assert await store.claim(key, run_id) is None
    place = None if conversation_id is None else await store.enter(conversation_id, run_id, when_busy)
    chain = Chain()
    run = LocalRun(
        chain.events(),
        run_id=run_id,
        journal=store.journal(run_id),
        conversation_id=conversation_id,
        turn=None if place is None or place.is_first else place.wait,
        release=None if place is None else place.leave,
        ending=store.ending,
        ended=store.end,
        request_id="req_1",
    )
    await store.add(run, key, shared=True)
    return Begun(run.begin(), chain, place)


async def begin_and_end(store: RunStore, key: IdempotencyKey | None = None) -> Begun:
    begun = await begin(store, key)
    await begun.end()
    return begun


async def stand(
    store: RunStore, conversation_id: str = "c", when_busy: WhenBusy = "queue", run_id: str | None = None
) -> Place:
    """A place without a run."""
    return await store.enter(conversation_id, run_id or new_run_id(), when_busy)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await condition():
                return
            await asyncio.sleep(0)


async def is_gone(store: RunStore, run_id: str) -> bool:
    """Whether a run was forgotten; an error where it never was."""
    try:
        return (await store.get(run_id)).id != run_id
    except RunGone:
        return True


async def ids(store: RunStore, limit: int = 100, **which: str | None) -> list[str]:
    """The ids of a page."""
    return [run.id for run in await store.page(limit, **which)]


# --- finding


async def test_a_run_is_found_by_its_id_while_it_goes_and_after_its_end(store: RunStore) -> None:
    one, other = await begin(store, conversation_id="c"), await begin(store)
    assert await store.get(one.id) is one.run
    assert await store.get(other.id) is other.run

    await one.end()
    found = await store.get(one.id)

    assert (found.id, found.conversation_id, found.request_id) == (one.id, "c", "req_1")
    assert (found.status, found.end) == ("completed", RunCompleted(ChatResponse(AssistantMessage("Hi"))))
    assert (found.created_at, found.ended_at) == (one.run.created_at, one.run.ended_at)
    assert (await found.result()).content == "Hi"
    assert await store.get(other.id) is other.run


@pytest.mark.parametrize("run_id", ["", "run_", "run_" + "0" * 32, "ünknown\n"])
async def test_what_never_was_is_not_found(store: RunStore, run_id: str) -> None:
    await begin(store)

    with pytest.raises(RunNotFound, match="there is no run"):
        await store.get(run_id)


async def test_a_run_that_does_not_begin_after_all_is_not_found_nor_listed(store: RunStore) -> None:
    kept = await begin(store)
    run_id = new_run_id()
    run = LocalRun(Chain().events(), run_id=run_id, journal=store.journal(run_id), conversation_id="c")
    await store.add(run, None, shared=True)

    for _ in range(2):
        await store.drop(run)

    with pytest.raises(RunNotFound):
        await store.get(run_id)
    assert (await ids(store), await ids(store, conversation_id="c")) == ([kept.id], [])


# --- how long


async def test_a_run_is_forgotten_when_its_time_is_over_and_not_before_its_end(open_store: Opening) -> None:
    store = await open_store(SHORT)
    going, ended = await begin(store), await begin_and_end(store)

    await until(lambda: is_gone(store, ended.id))

    with pytest.raises(RunGone, match=ended.id):
        await store.get(ended.id)
    assert await store.get(going.id) is going.run
    assert await ids(store) == [going.id]
    await going.end()
    await until(lambda: is_gone(store, going.id))
    assert await ids(store) == []


async def test_nothing_is_kept_where_nothing_is_to_be_kept(open_store: Opening) -> None:
    store = await open_store(Retention(seconds=0))
    ended = await begin_and_end(store)

    await until(lambda: is_gone(store, ended.id))


async def test_a_run_is_kept_while_its_time_is_not_over(open_store: Opening) -> None:
    store = await open_store(Retention(seconds=1_000))
    ended, others = await begin_and_end(store), [await begin_and_end(store) for _ in range(20)]

    assert not await is_gone(store, ended.id)
    assert await ids(store) == [one.id for one in (*others[::-1], ended)]


# --- keys


async def test_a_key_leads_to_the_run_that_it_began_while_that_goes_and_after_its_end(store: RunStore) -> None:
    begun = await begin(store, KEY)
    await begin(store)
    assert await store.claim(KEY, new_run_id()) == begun.id

    await begun.end()

    assert await store.claim(KEY, new_run_id()) == begun.id


async def test_a_key_that_is_claimed_leads_to_the_run_though_that_is_not_there_yet(store: RunStore) -> None:
    assert await store.claim(KEY, "run_1") is None
    assert await store.claim(KEY, "run_1") is None, "asked again by the same run"

    assert await store.claim(KEY, "run_2") == "run_1"


async def test_of_many_who_claim_a_key_at_once_one_has_it(store: RunStore) -> None:
    claimed = await asyncio.gather(*[store.claim(KEY, f"run_{number}") for number in range(20)])

    [winner] = [number for number, holder in enumerate(claimed) if holder is None]
    assert {holder for holder in claimed if holder is not None} == {f"run_{winner}"}


async def test_the_keys_of_others_and_other_keys_have_begun_nothing(store: RunStore) -> None:
    await begin(store, KEY)
    others = [replace(KEY, principal="you"), replace(KEY, text="KEY"), IdempotencyKey("mek", "ey", "body")]
    others += [IdempotencyKey("a:b", "c", "body"), IdempotencyKey("a", "b:c", "body"), IdempotencyKey("a", "b", "c")]

    assert [await store.claim(other, f"run_{number}") for number, other in enumerate(others)] == [None] * len(others)


async def test_a_key_is_refused_for_another_request_and_still_leads_to_its_own(store: RunStore) -> None:
    begun = await begin(store, KEY)

    with pytest.raises(IdempotencyKeyReused, match="new key"):
        await store.claim(replace(KEY, fingerprint="another body"), new_run_id())

    assert await store.claim(KEY, new_run_id()) == begun.id


async def test_a_key_is_free_when_its_run_was_refused(store: RunStore) -> None:
    await store.claim(KEY, "run_1")
    for _ in range(2):
        await store.unclaim(KEY, "run_1")

    assert await store.claim(replace(KEY, fingerprint="another body"), "run_2") is None
    await store.unclaim(KEY, "run_1")
    with pytest.raises(IdempotencyKeyReused):
        await store.claim(KEY, "run_3")


async def test_a_key_is_free_when_its_run_is_forgotten_also_for_another_request(open_store: Opening) -> None:
    store = await open_store(SHORT)
    old = await begin_and_end(store, KEY)
    await until(lambda: is_gone(store, old.id))

    new = await begin(store, replace(KEY, fingerprint="another body"))

    assert await store.claim(replace(KEY, fingerprint="another body"), new_run_id()) == new.id


# --- conversations


async def test_the_first_one_need_not_wait_and_others_wait_for_all_before_them_in_their_order(store: RunStore) -> None:
    first, *others = [await stand(store) for _ in range(5)]
    came: list[int] = []

    async def wait(number: int, place: Place) -> None:
        await place.wait()
        came.append(number)

    waiting = [asyncio.create_task(wait(number, place)) for number, place in enumerate(others)]
    await asyncio.sleep(0)
    assert (first.is_first, [place.is_first for place in others], came) == (True, [False] * 4, [])
    for number, place in enumerate([first, *others[:-1]]):
        await place.leave()
        async with asyncio.timeout(PATIENCE):
            await waiting[number]
        assert came == list(range(number + 1))


async def test_one_that_leaves_the_middle_of_the_line_lets_nobody_in_before_it_is_their_turn(store: RunStore) -> None:
    first, middle, last = [await stand(store) for _ in range(3)]
    waiting = asyncio.create_task(last.wait())

    for _ in range(2):
        await middle.leave()
    await asyncio.sleep(0)
    assert not waiting.done()
    await first.leave()

    async with asyncio.timeout(PATIENCE):
        await waiting


@pytest.mark.parametrize("when_busy", ["reject", "queue", "cancel_previous"])
async def test_a_conversation_that_all_have_left_is_as_if_nobody_had_been_there(
    store: RunStore, when_busy: WhenBusy
) -> None:
    for place in [await stand(store) for _ in range(3)]:
        await place.leave()

    assert (await stand(store, when_busy=when_busy)).is_first


@pytest.mark.parametrize("name", WEIRD, ids=ascii)
async def test_conversations_do_not_know_of_each_other_whatever_they_are_called(store: RunStore, name: str) -> None:
    others = [await stand(store, other) for other in WEIRD if other != name]

    assert all(place.is_first for place in others)
    assert (await stand(store, name)).is_first
    assert not (await stand(store, name)).is_first


async def test_who_does_not_want_to_wait_is_refused_and_leaves_no_trace(store: RunStore) -> None:
    begun = await begin(store, conversation_id="c")

    with pytest.raises(ConversationBusy, match="'c'"):
        await stand(store, when_busy="reject")
    await begun.end()

    assert (await stand(store, when_busy="reject")).is_first


async def test_who_does_not_want_to_wait_is_refused_also_by_what_is_no_run(store: RunStore) -> None:
    await stand(store)

    with pytest.raises(ConversationBusy):
        await stand(store, when_busy="reject")


async def test_one_that_was_told_to_end_refuses_nobody_and_is_waited_for(store: RunStore) -> None:
    begun = await begin(store, conversation_id="c")
    begun.run.cancel()

    place = await stand(store, when_busy="reject")

    assert not place.is_first
    async with asyncio.timeout(PATIENCE):
        await place.wait()
        await asyncio.wait([begun.run.task])
    assert begun.run.status == "cancelled"


async def test_all_that_were_before_are_told_to_end_where_that_is_wanted(store: RunStore) -> None:
    earlier = [await begin(store, conversation_id="c", when_busy="queue") for _ in range(3)]
    other = await begin(store, conversation_id="d")

    place = await stand(store, when_busy="cancel_previous")
    async with asyncio.timeout(PATIENCE):
        await place.wait()
        await asyncio.wait([one.run.task for one in earlier])

    assert [one.run.status for one in earlier] == ["cancelled"] * 3
    assert other.run.status == "running"


async def test_a_run_is_queued_as_long_as_it_waits(store: RunStore) -> None:
    first = await begin(store, conversation_id="c")
    second = await begin(store, conversation_id="c", when_busy="queue")
    assert [run.status for run in await store.page(2)] == ["queued", "running"]

    await first.end()

    async def is_running() -> bool:
        return [run.status for run in await store.page(2)] == ["running", "completed"]

    await until(is_running)
    await second.end()


# --- in order


async def test_the_newest_run_comes_first_whether_it_has_ended_or_not(store: RunStore) -> None:
    begun = [await begin(store) for _ in range(4)]
    await begun[2].end()
    await begun[0].end()
    newest_first = [one.id for one in begun[::-1]]

    assert await ids(store) == newest_first
    assert await ids(store, 2) == newest_first[:2]
    assert await ids(store, 2, before=begun[2].id) == newest_first[2:]
    assert await ids(store, 2, before=begun[0].id) == []
    assert [run.status for run in await store.page(4)] == ["running", "completed", "running", "completed"]


async def test_a_page_goes_on_where_the_last_one_ended_though_that_run_is_forgotten(open_store: Opening) -> None:
    store = await open_store(SHORT)
    begun = [await begin(store) for _ in range(4)]
    await begun[2].end()
    await until(lambda: is_gone(store, begun[2].id))

    assert await ids(store, before=begun[2].id) == [begun[1].id, begun[0].id]
    assert await ids(store, 2) == [begun[3].id, begun[1].id]


async def test_a_page_may_be_of_one_conversation(store: RunStore) -> None:
    names = ["a", "b", None, "a", "a"]
    begun = [await begin(store, conversation_id=name, when_busy="queue") for name in names]

    assert await ids(store, 2, conversation_id="a") == [begun[4].id, begun[3].id]
    assert await ids(store, 2, conversation_id="a", before=begun[3].id) == [begun[0].id]
    assert await ids(store, conversation_id="b") == [begun[1].id]
    assert await ids(store, conversation_id="") == []


async def test_a_page_is_full_though_many_in_it_are_forgotten(open_store: Opening) -> None:
    store = await open_store(SHORT)
    oldest = [await begin(store) for _ in range(3)]
    forgotten = [await begin_and_end(store) for _ in range(120)]
    await until(lambda: is_gone(store, forgotten[-1].id))

    assert await ids(store, 2) == [oldest[2].id, oldest[1].id]


# --- alone


async def test_nobody_reads_elsewhere_where_there_is_no_elsewhere(store: RunStore) -> None:
    begun = await begin(store)

    assert store.available is not False
    assert not await store.is_read_elsewhere(begun.run)
    await store.confirm(begun.run.id)
