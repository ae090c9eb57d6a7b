"""The fence: what the model answers to a run that others have ended is not used for anything."""

from __future__ import annotations

import asyncio

import pytest

from app.advisors.memory import MemoryAdvisor
from app.client import ChatClient
from app.memory import InMemoryChatMemory
from app.providers.scripted import ScriptedModel, tool_calls
from app.runs import Fence, InMemoryRunStore, LocalRun, RunLost, Runs
from tests.support.chains import request_of
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import echo


class Doubtful(InMemoryRunStore):
    """A store that says of a run, when it is told to, that others have ended it.

    Attributes:
        lost: whether that is so.
        asked: the ids of runs that it was asked for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lost = False
        self.asked: list[str] = []

    async def confirm(self, run_id: str) -> None:
        """See `RunStore.confirm`."""
        self.asked.append(run_id)
        if self.lost:
            raise RunLost("gone")


@both_modes
async def test_an_answer_that_comes_too_late_is_not_remembered(*, stream: bool) -> None:
    reply, memory, store = Hesitant(), InMemoryChatMemory(), Doubtful()
    client = ChatClient(ScriptedModel(reply), advisors=[MemoryAdvisor(memory), Fence()])
    run = await Runs(client, store=store).start(request_of(stream=stream, conversation_id="c"))
    await reply.asked.wait()

    store.lost = True
    reply.go_on.set()

    with pytest.raises(RunLost):
        await run.result()
    assert await memory.get("c") == ()


@both_modes
async def test_tools_that_are_asked_for_too_late_are_not_run(*, stream: bool) -> None:
    reply, look, store = Hesitant(tool_calls(("look", {}))), echo("look"), Doubtful()
    run = await Runs(ChatClient(ScriptedModel(reply), tools=[look], advisors=[Fence()]), store=store).start(
        request_of(stream=stream)
    )
    await reply.asked.wait()

    store.lost = True
    reply.go_on.set()

    with pytest.raises(RunLost):
        await run.result()
    assert look.asked == []


@both_modes
async def test_every_answer_of_a_run_asks_for_that_run(*, stream: bool) -> None:
    store = Doubtful()
    model = ScriptedModel(tool_calls(("look", {})), tool_calls(("look", {})), "Done.", "Hi")
    runs = Runs(ChatClient(model, tools=[echo("look")], advisors=[Fence()]), store=store)

    one = await runs.start(request_of(stream=stream))
    await one.result()
    other = await runs.start(request_of(stream=stream))
    await other.result()

    assert store.asked == [one.id] * 3 + [other.id]


@both_modes
async def test_what_is_no_run_needs_nobody_to_confirm_it(*, stream: bool) -> None:
    client = ChatClient(ScriptedModel("Hi"), advisors=[Fence()])

    events = [event async for event in client.run(request_of(stream=stream))]

    assert events


async def test_a_run_that_others_have_ended_has_that_end_whatever_it_does() -> None:
    reply, ended = Hesitant(), asyncio.Event()

    async def note(_: LocalRun) -> None:
        ended.set()

    client = ChatClient(ScriptedModel(reply))
    run = LocalRun(client.run(request_of(stream=False)), ended=note).begin()
    await reply.asked.wait()

    run.lose(RunLost("gone"))

    assert run.status == "failed"
    with pytest.raises(RunLost):
        await run.result()
    await ended.wait()
    assert reply.cancelled.is_set()
    assert run.status == "failed"
