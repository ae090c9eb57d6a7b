"""Whatever a model says, and wherever the line breaks: every event is seen once, in order, by every reader."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.chat import (
    AssistantMessage,
    ChatEvents,
    ChatResponse,
    Completed,
    ModelUnavailable,
    Prompt,
    ToolContext,
    ToolFailed,
    Usage,
)
from app.providers.scripted import Cut, Reply, ScriptedModel, tool_calls
from app.tooling import tool
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, failing
from tests.support.web import ask, events_in
from tests.web.runs.conftest import Gateways
from tests.web.runs.following import AT_ONCE, RETRY, Following, blocks, data_of, named, read

BROKEN = ModelUnavailable("the model server is tired", status=503, code="tired")


class Pace:
    """Lets what waits go on, one step at a time."""

    def __init__(self) -> None:
        self._steps = asyncio.Semaphore(0)

    def go(self, steps: int = 1) -> None:
        """Let so many steps be made, now or later."""
        for _ in range(steps):
            self._steps.release()

    async def step(self) -> None:
        """Wait for one."""
        await self._steps.acquire()


class Paced(ScriptedModel):
    """Says each thing in a step of its own. Where a step is made, an event follows: nobody waits for it in vain."""

    def __init__(self, pace: Pace, *script: Reply) -> None:
        super().__init__(*script, usage=Usage(1, 2, 3))
        self._pace = pace

    async def call(self, prompt: Prompt) -> ChatResponse:
        """The next reply, in one step."""
        await self._pace.step()
        return await super().call(prompt)

    async def stream(self, prompt: Prompt) -> ChatEvents:
        """The next reply, a step for each delta."""
        async with aclosing(super().stream(prompt)) as events:
            async for event in events:
                if not isinstance(event, Completed):
                    await self._pace.step()
                yield event


def tools_at(pace: Pace) -> list[Any]:
    """Tools that end in a step of their own, in a thread, and in failure."""

    async def paced(arguments: str, context: ToolContext) -> str:
        context.progress("begun", data=arguments)
        await pace.step()
        return arguments

    @tool
    def threaded(n: int, context: ToolContext) -> dict[str, Any]:
        """Answer from a thread."""
        context.progress(current=n)
        return {"n": n, "line": "a\n\nb"}

    @tool
    def refusing(n: int) -> str:
        """Refuse from a thread."""
        raise ToolFailed(f"not {n}")

    return [HandWrittenTool("paced", paced), threaded, refusing, failing("failing", ValueError("secret"))]


@dataclass(frozen=True, slots=True)
class Visit:
    """One connection.

    Attributes:
        steps: how many are made before the first look at it.
        length: how much of the stream is read until it breaks; None = all.
        by: how it says which event was the last.
    """

    steps: int = 0
    length: int | None = None
    by: str = "Last-Event-ID"


texts = st.lists(st.sampled_from(["a", "bé", "🚋\n\n", "id: 9", "\r\u2028", ":"]), max_size=12).map(" ".join)
calls = st.tuples(
    st.sampled_from(["paced", "threaded", "refusing", "failing", "nobody"]),
    st.sampled_from(["{}", '{"n": 1}', '{"n": 2}', '{"n": "a line that is longer than a piece"}', '{"n":']),
)
asking = st.builds(
    lambda text, called: tool_calls(*called, content=text), texts, st.lists(calls, min_size=1, max_size=3)
)
ends = st.builds(
    lambda text, thought, n: AssistantMessage(text, reasoning=thought or None) if n else Cut(f"Well, {text}", BROKEN),
    texts,
    texts,
    st.integers(0, 4),
)
scripts = st.builds(lambda rounds, end: [*rounds, end], st.lists(asking, max_size=3), ends)
visits = st.lists(
    st.builds(Visit, st.integers(0, 4), st.integers(20, 600), st.sampled_from(["Last-Event-ID", "after"])),
    min_size=3,
    max_size=16,
)


class Wanderer:
    """A client whose line breaks again and again. It takes whole events only, and comes back until there are no more.

    Attributes:
        seen: the events it has, byte for byte.
    """

    def __init__(self, client: httpx.AsyncClient, pace: Pace) -> None:
        self.seen: list[str] = []
        self._client = client
        self._pace = pace

    async def begin(self, visit: Visit) -> str:
        """Ask for a stream, and read it until the line breaks. Returns the run's id."""
        body = {"message": "Hello", "on_disconnect": "continue"}
        async with self._client.stream("POST", "/chat/stream", json=body) as response:
            self._pace.go(visit.steps)
            await self._read(response, visit)
            return response.headers["Location"].split("/")[2]

    async def come_back(self, run_id: str, visit: Visit) -> bool:
        """Read on until the line breaks. Returns whether there is more."""
        number = events_in(self.seen[-1])[0].id if self.seen else 0
        self._pace.go(visit.steps)
        async with self._client.stream("GET", f"/runs/{run_id}/events", **named(number, visit.by)) as response:
            if response.status_code == 204:
                return False
            assert response.status_code == 200
            await self._read(response, visit)
            return True

    async def _read(self, response: httpx.Response, visit: Visit) -> None:
        reader = Following(response)
        while visit.length is None or len(reader.text) < visit.length:
            self._pace.go()  # who waits is not to wait for ever
            if not await reader.more():
                break
        self.seen += blocks(reader.text[: visit.length])


def folded(seen: list[str]) -> dict[str, Any]:
    """What somebody has who adds the events of a stream up."""
    events = [event for block in seen for event in events_in(block)]
    last, asked, ran = events[-1].data["round"], {}, {}
    for event in events:
        data = event.data
        place = (data.get("round"), data.get("call_id"))
        if event.name == "tool_call.ready":
            asked[place] = {"round": place[0], "id": place[1], "name": data["name"], "arguments": data["arguments"]}
        elif event.name in {"tool_call.result", "tool_call.error"}:
            ran[place] = {key: data[key] for key in ("result", "error", "ms") if key in data}
    return {
        "content": "".join(e.data["text"] for e in events if e.name == "text.delta" and e.data["round"] == last),
        "reasoning": "".join(e.data["text"] for e in events if e.name == "reasoning.delta" and e.data["round"] == last)
        or None,
        "tool_runs": [call | ran[place] for place, call in asked.items() if place in ran],
        "rounds": [
            {"finish_reason": event.data["finish_reason"], "usage": event.data["usage"]}
            for event in events
            if event.name == "round.completed"
        ],
    }


def lasting(document: dict[str, Any]) -> dict[str, Any]:
    """What is the same whenever the same is asked and answered."""
    kept = {key: value for key, value in document.items() if key not in {"id", "request_id"}}
    if "tool_runs" in kept:
        kept["tool_runs"] = [{key: ran[key] for key in ran if key != "ms"} for ran in kept["tool_runs"]]
    return kept


@both_modes
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])  # it holds no state
@given(script=scripts, visits=visits)
def test_every_event_is_seen_once_and_in_order_however_often_the_line_breaks(
    gateway: Gateways, stream: bool, script: list[Reply], visits: list[Visit]
) -> None:
    async def wander() -> tuple[list[str], str, list[str]]:
        pace = Pace()
        async with gateway(Paced(pace, *script), tools_at(pace), settings=AT_ONCE) as client:
            wanderer = Wanderer(client, pace)
            left = [*visits, Visit(), Visit()]  # all that is there at last, and nothing after it
            if stream:
                run_id = await wanderer.begin(left.pop(0))
            else:
                accepted = await client.post("/chat", json={"message": "Hello", "background": True})
                run_id = accepted.json()["id"]
            steady = asyncio.create_task(client.get(f"/runs/{run_id}/events"))
            there_is_more = True
            for visit in left:
                there_is_more = there_is_more and await wanderer.come_back(run_id, visit)
            assert not there_is_more
            return wanderer.seen, (await steady).text, await read(client, run_id)

    async def wait() -> dict[str, Any]:
        pace = Pace()
        pace.go(1_000)
        async with gateway(Paced(pace, *script), tools_at(pace)) as client:
            return (await ask(client, stream=False)).document

    seen, steady, again = asyncio.run(wander())
    assert seen == again
    assert steady == RETRY + "".join(seen)
    assert [event.id for event in events_in("".join(seen))] == list(range(1, len(seen) + 1))
    answer = data_of(seen[-1])
    if stream and "content" in answer:
        added_up = folded(seen)
        assert added_up == {key: answer[key] for key in added_up}
    assert lasting(asyncio.run(wait())) == lasting(answer)
