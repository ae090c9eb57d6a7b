"""The gateway as a process that is on its way out: what still goes on, what hurries it, and what cannot hold it up."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.gateway_process import UVICORN
from tests.support.leaving import LONG, assert_in_time, assert_refused, assert_told, beginning, stage, using

pytestmark = pytest.mark.server


async def test_what_ends_within_the_drain_is_told_whole() -> None:
    async with stage(LONG) as gate:
        gate.model.always(using("wait", gate.door))
        reading, asking = gate.follow(conversation_id="c"), gate.ask()
        await gate.door.arrivals(2)
        queued = gate.ask(conversation_id="c", when_busy="queue")
        while len((await gate.client.get("/runs")).json()["runs"]) < 3:
            pass
        gate.tell()
        await gate.drains()
        gate.door.let_go()
        await gate.door.arrivals()
        gate.door.let_go()
        left = await gate.left()

        last = await reading.end()
        answers = [(await one).json() for one in (asking, queued)]
    assert left.code == 0
    assert (last.name, last.data["content"]) == ("run.completed", "Done.")
    assert [answer["content"] for answer in answers] == ["Done.", "Done."]
    assert [answer["tool_runs"][0]["result"] for answer in answers] == ["there", "there"]


async def test_new_runs_are_refused_while_those_that_are_going_can_be_read_joined_and_cancelled() -> None:
    async with stage(LONG) as gate:
        gate.model.always(using("wait", gate.door))
        key = {"Idempotency-Key": "k"}
        where = (await gate.ask(background=True)).headers["Location"]
        first = gate.ask("/chat", key)
        await gate.door.arrivals(2)
        gate.tell()
        await gate.drains()

        assert_refused(await gate.client.get("/readyz"))
        for path in ("/chat", "/chat/stream"):
            assert_refused(await gate.ask(path))
        assert (await gate.client.get("/healthz")).status_code == 200
        assert (await gate.client.get(where)).json()["status"] == "running"
        assert [run["status"] for run in (await gate.client.get("/runs")).json()["runs"]] == ["running"] * 2

        reading = gate.come_back(f"{where}/events")
        await reading.saw("tool_call.ready")
        assert (await gate.client.post(f"{where}/cancel")).status_code == 202
        assert (await reading.end()).name == "run.cancelled"

        joined = gate.follow(key)
        await joined.saw("tool_call.ready")
        gate.door.let_go()
        left = await gate.left()

        answers = [(await first).json(), (await joined.end()).data]
    assert left.code == 0
    assert [answer["content"] for answer in answers] == ["Done.", "Done."]
    assert joined.headers["Idempotency-Replayed"] == "true"


# --- told again


async def test_a_second_sigterm_takes_no_time_away() -> None:
    async with stage(LONG) as gate:
        gate.model.always(using("wait", gate.door))
        asking = gate.ask()
        await gate.door.arrivals()
        gate.tell()
        await gate.drains()
        gate.tell()
        assert_refused(await gate.client.get("/readyz"))
        gate.door.let_go()
        left = await gate.left()

        assert (await asking).json()["content"] == "Done."
    assert_in_time(left, 0)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
async def test_a_second_interrupt_ends_runs_at_once(first: signal.Signals) -> None:
    async with stage(LONG, beginning) as gate:
        reading = gate.follow()
        await reading.saw("text.delta")
        gate.tell(first)
        await gate.drains()
        gate.tell(signal.SIGINT)
        left = await gate.left()

        assert_told(await reading.end())
    assert_in_time(left, 0)


@pytest.mark.parametrize("tool", ["hang", "stall", "ignore"])
async def test_a_second_interrupt_is_not_held_up_by_a_tool(tool: str) -> None:
    async with stage(LONG) as gate:
        gate.model.always(using(tool, gate.door))
        reading = gate.follow()
        await gate.door.arrivals()
        gate.tell(signal.SIGINT)
        await gate.drains()
        gate.tell(signal.SIGINT)
        left = await gate.left()

        assert_told(await reading.end())
    assert_in_time(left, 0)


# --- the rest of the world


LOGGING = """
version = 1
root = {{level = "INFO", handlers = ["pipe"]}}
handlers = {{pipe = {{class = "logging.FileHandler", filename = "{pipe}"}}}}
"""


async def test_a_log_that_nobody_reads_any_more_does_not_hold_it_up(tmp_path: Path) -> None:
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    (tmp_path / "logging.toml").write_text(LOGGING.format(pipe=pipe))
    log = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        async with stage(0.1, GATEWAY_CONFIG_DIR=str(tmp_path)) as gate:
            with suppress(BlockingIOError):
                while True:
                    os.write(log, b".")
            gate.tell()
            left = await gate.left()
    finally:
        os.close(log)
    assert_in_time(left, 0.1)


async def test_under_a_server_of_others_it_ends_too_and_readers_are_told() -> None:
    async with stage(0.5, beginning, arguments=UVICORN) as gate:
        readings = [gate.follow(), gate.follow()]
        begun = await gate.ask(background=True)
        for reading in readings:
            await reading.saw("text.delta")
        gate.tell()
        left = await gate.left()

        for reading in readings:
            assert_told(await reading.end())
    assert begun.status_code == 202
    assert left.code == -signal.SIGTERM, "uvicorn's own way to leave"
    assert left.seconds <= 0.5 + 5
