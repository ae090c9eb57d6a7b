"""Many runs at once before a model server that fails in every way: each ends rightly or honestly, and nothing is left.

    python -m benchmarks.chaos --runs 10000 --at-once 200 --seed 1

Gateway, callers and model server share one process, so that what is counted (tasks, sockets, threads, objects, memory)
is all there is; between gateway and model server are real connections. The exit code is 1 where a run ended wrongly or
something was left over.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from app.main import create_app
from app.memory import ChatMemory, InMemoryChatMemory
from app.settings import Settings
from app.tooling import tool
from benchmarks.failing_server import FailingServer, question, right_answer
from tests.support.model_server import ModelServer
from tests.support.web import ENDPOINTS, Reply, events_in, opened, reply_of

WARM_UP = 400
"""Runs before the first count: caches, pools and imports are made by then."""
STREAMED = 0.5
"""Share of the runs that are streamed."""
LEAVING = 0.1
"""Share of the streams whose callers hang up in the middle."""
PATIENCE = 120.0
"""Seconds after which a caller takes a run for hung."""
IDLE = 15.0
"""Seconds after which the gateway has closed all connections that it keeps for later."""
MEMORY = 32.0
"""Megabytes that the process may have grown by: allocators give back what they like."""
OBJECTS_A_RUN = 0.1
"""Objects that may be left for each run: a single leaked one is more."""
PREFIX = "urn:advisor-gateway:"


@tool
async def note(run: int) -> str:
    """Take note of a run."""
    return f"noted {run}"


class Wrong(Exception):
    """A run that ended neither rightly nor honestly."""


@dataclass(frozen=True, slots=True)
class Count:
    """What the process holds."""

    tasks: int
    sockets: int
    threads: int
    objects: int
    memory: float

    @classmethod
    async def at_rest(cls) -> Count:
        """Counted when what was closed is gone, which takes an event loop some turns."""
        sockets = -1
        while sockets != (sockets := sum(1 for _ in _sockets())):
            await asyncio.sleep(0.5)
            gc.collect()
        return cls(
            len(asyncio.all_tasks()),
            sum(1 for _ in _sockets()),
            threading.active_count(),
            len(gc.get_objects()),
            _memory(),
        )

    def left_over(self, before: Count, runs: int) -> list[str]:
        """What is more than before, and more than may be."""
        allowed = {"objects": runs * OBJECTS_A_RUN, "memory": MEMORY}
        grown = {one.name: getattr(self, one.name) - getattr(before, one.name) for one in fields(self)}
        return [f"{more:.0f} more {name}" for name, more in grown.items() if more > allowed.get(name, 0)]


class Trial:
    """Runs before a failing server.

    Args:
        seed: of everything that is drawn.
        share: of wrong answers.
        at_once: runs at a time.
    """

    def __init__(self, seed: int, share: float, at_once: int) -> None:
        self.server = FailingServer(seed, share)
        self.ends: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._seed = seed
        self._places = asyncio.Semaphore(at_once)
        self._memory: ChatMemory = InMemoryChatMemory()

    async def run(self, upstream: ModelServer, runs: int) -> None:
        """Make so many runs through a gateway of their own, which is closed at the end."""
        upstream.always(self.server)
        app = create_app(_settings(upstream.base_url), tools=[note], memory=self._memory)
        async with opened(app, PATIENCE) as (client, gateway):
            async with asyncio.TaskGroup() as group:
                for run in range(runs):
                    await self._places.acquire()
                    group.create_task(self._judge(client, run)).add_done_callback(lambda _: self._places.release())
                    upstream.exchanges.clear()  # it keeps them for tests
            if gateway.runs.active:
                self.wrong.append(f"{gateway.runs.active} runs are still going")
            await self._assert_unused(upstream)
        upstream.exchanges.clear()

    async def _assert_unused(self, upstream: ModelServer) -> None:
        """A connection nobody uses is closed after a while; at the gateway's end all would be, and nothing be seen."""
        try:
            async with asyncio.timeout(IDLE):
                await upstream.until(lambda: upstream.open_connections == 0)
        except TimeoutError:
            self.wrong.append(f"{upstream.open_connections} connections are neither used nor closed")

    async def _judge(self, client: httpx.AsyncClient, run: int) -> None:
        try:
            end = await self._one(client, run)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted and printed
            self.wrong.append(f"run {run}, given {self.server.wrong[run]}: {type(error).__name__}: {error}")
            end = "WRONG"
        self.ends[end] += 1

    async def _one(self, client: httpx.AsyncClient, run: int) -> str:
        chance = random.Random(f"{self._seed}/{run}")
        stream, conversation = chance.random() < STREAMED, f"conversation {run}"
        body = {"message": question(run), "conversation_id": conversation}
        if stream and chance.random() < LEAVING:
            await _leave(client, body, after=chance.randrange(1, 12))
            end = "the caller left"
        else:
            end = self._assert_end(run, reply_of(await client.post(ENDPOINTS[stream], json=body)))
            kept = await self._memory.get(conversation)
            if len(kept) != (2 if end == "answered" else 0):
                raise Wrong(f"{end}, and memory holds {kept}")
        await self._memory.clear(conversation)
        return end

    def _assert_end(self, run: int, reply: Reply) -> str:
        told = "".join(data["text"] for data in reply.of("text.delta"))
        document: dict[str, Any] = reply.document
        if "content" in document:
            if document["content"] != right_answer(run) or document["finish_reason"] != "stop":
                raise Wrong(f"answered {document}")
            if reply.events and told != right_answer(run):
                raise Wrong(f"told {told!r}")
            if any(one.get("result") != f"noted {run}" for one in document["tool_runs"]):
                raise Wrong(f"ran {document['tool_runs']}")
            return "answered"
        kind = str(document["type"])
        if not kind.startswith(f"{PREFIX}model-"):
            raise Wrong(f"failed with {document}")
        if not right_answer(run).startswith(told):
            raise Wrong(f"told {told!r} before it failed")
        if not self._is_honest(run, document):
            raise Wrong(f"failed with what did not happen: {document}")
        return kind.removeprefix(PREFIX)

    def _is_honest(self, run: int, problem: dict[str, Any]) -> bool:
        given, status = self.server.wrong[run], problem.get("upstream_status")
        if status is None:
            return any(not kind.startswith("status ") for kind in given)
        return f"status {status}" in given or (
            status == HTTPStatus.INTERNAL_SERVER_ERROR and any(kind.startswith("an error") for kind in given)
        )


async def _leave(client: httpx.AsyncClient, body: dict[str, Any], *, after: int) -> None:
    """Hang up after so many events, if there are so many."""
    async with client.stream("POST", ENDPOINTS[True], json=body) as response:
        seen = 0
        with suppress(StopAsyncIteration):
            pieces = response.aiter_text()
            while seen < after:
                seen += len(events_in(await anext(pieces))) if response.is_success else after


def _settings(base_url: str) -> Settings:
    return Settings(
        model={
            "base_url": base_url,
            "first_byte_timeout": 3,
            "idle_timeout": 3,
            "total_timeout": 12,  # a busy machine may stand still for seconds
            "max_event_bytes": 2**16,
        },
        retry={"base_delay": 0.05, "max_delay": 0.2, "budget_ratio": 1},
        stream={"heartbeat": 1},
    )


def _memory() -> float:
    """Megabytes that are resident."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _sockets() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            if (target := str(entry.readlink())).startswith("socket:"):
                yield target


async def chaos(arguments: argparse.Namespace) -> int:
    """The whole trial. Returns the exit code."""
    async with ModelServer() as upstream:
        await Trial(arguments.seed + 1, arguments.share, arguments.at_once).run(upstream, WARM_UP)
        before = await Count.at_rest()
        began = time.monotonic()
        trial = Trial(arguments.seed, arguments.share, arguments.at_once)
        await trial.run(upstream, arguments.runs)
        took = time.monotonic() - began
        ends, drawn, wrong = trial.ends, trial.server.drawn, trial.wrong
        del trial
        upstream.always(_nothing)
        after = await Count.at_rest()
    left_over = after.left_over(before, arguments.runs)
    print(f"{arguments.runs} runs, {arguments.at_once} at once, seed {arguments.seed}, in {took:.0f} s")
    _table("what the model server answered", drawn)
    _table("how runs ended", ends)
    print(f"\n{'':10} {'before':>10} {'after':>10}")
    for one in fields(Count):
        print(f"{one.name:10} {getattr(before, one.name):>10.0f} {getattr(after, one.name):>10.0f}")
    for line in wrong[:20]:
        print(f"WRONG: {line}")
    for line in left_over:
        print(f"LEFT OVER: {line}")
    return 1 if wrong or left_over else 0


def _nothing(_: object) -> Any:
    raise AssertionError("the trial is over")


def _table(title: str, counted: Counter[str]) -> None:
    print(f"\n{title}")
    for name, number in counted.most_common():
        print(f"{number:>8}  {name}")


def main() -> int:
    """Read the command line, try, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="how many runs")
    parser.add_argument("--at-once", type=int, default=200, help="how many of them at a time")
    parser.add_argument("--share", type=float, default=0.5, help="how many of the answers are wrong, from 0 to 1")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same luck")
    arguments = parser.parse_args()
    if not Path("/proc/self/fd").is_dir():
        parser.error("it counts sockets and memory in /proc, which only Linux has")
    logging.disable(logging.CRITICAL)  # every failure is told in its answer
    return asyncio.run(chaos(arguments))


if __name__ == "__main__":
    sys.exit(main())
