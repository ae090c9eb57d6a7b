"""The gateway as a process that is told to stop, at every stage: when it leaves, how, and what its clients are told.

What is promised: exit code 0 within the drain and two seconds more, and an end for everyone who waits for one.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.chunks import chunk, event
from tests.support.gates import PATIENCE
from tests.support.gateway_process import GatewayProcess
from tests.support.leaving import (
    LONG,
    Stage,
    assert_in_time,
    assert_refused,
    assert_told,
    beginning,
    silence,
    stage,
    using,
)
from tests.support.model_server import HANG, Answer

pytestmark = pytest.mark.server

DRAIN = 0.5

signals = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])


def driven(gate: Stage, tool: str) -> Any:
    """Ask for a tool's call as one who drives the loop."""
    asked = {"id": "1", "name": tool, "arguments": json.dumps({"port": gate.door.port})}
    return gate.ask("/tool-calls", messages=[{"role": "assistant", "tool_calls": [asked]}])


async def connected(gate: Stage, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which something was sent."""
    url = httpx.URL(gate.process.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(data)
    return reader, writer


# --- before it serves


@signals
def test_told_to_stop_while_it_imports_itself_it_leaves_at_once(number: signal.Signals) -> None:
    process = GatewayProcess()
    try:
        while "pydantic_core" not in Path(f"/proc/{process.pid}/maps").read_text():
            assert process.returncode is None, process.log
        process.signal(number)

        assert process.wait() == 0, process.log
    finally:
        process.close()


def test_told_to_stop_while_it_imports_tools_it_leaves_at_once() -> None:
    process = GatewayProcess({"GATEWAY_TOOLS__PACKAGES": '["tests.support.stopping_tools"]'})
    try:
        assert process.wait() == 0, process.log
    finally:
        process.close()


# --- nothing is going


@signals
async def test_idle_it_leaves_without_waiting_and_closes_connections_that_are_kept_alive(
    number: signal.Signals,
) -> None:
    async with stage(LONG) as gate:
        reader, writer = await connected(gate, b"GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n")
        await reader.readuntil(b"}")
        gate.tell(number)
        left = await gate.left()
        rest = await reader.read()
        writer.close()

    assert_in_time(left, 0)
    assert rest == b""


async def test_a_client_that_does_not_send_the_rest_of_its_request_is_not_waited_for() -> None:
    async with stage(DRAIN) as gate:
        head = b"POST /chat HTTP/1.1\r\nhost: gateway\r\ncontent-length: 99\r\nexpect: 100-continue\r\n\r\n"
        reader, writer = await connected(gate, head)
        assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
        gate.tell()
        left = await gate.left()
        rest = await reader.read()
        writer.close()

    assert_in_time(left, DRAIN)
    assert rest == b""


# --- a model is asked


@signals
async def test_in_the_silence_before_the_first_byte_callers_are_told_by_the_status(number: signal.Signals) -> None:
    async with stage(DRAIN, silence, GATEWAY_STREAM__COMMIT_AFTER=str(PATIENCE)) as gate:
        asking = [gate.ask("/chat"), gate.ask("/chat/stream")]
        await gate.model.request(2)
        gate.tell(number)
        left = await gate.left()

        for one in asking:
            assert_refused(await one)
    assert_in_time(left, DRAIN)
    assert left.seconds >= DRAIN


async def test_in_the_silence_after_the_headers_readers_are_told_by_an_event() -> None:
    async with stage(DRAIN, silence, GATEWAY_STREAM__COMMIT_AFTER="0") as gate:
        reading = gate.follow()
        await reading.saw("round.started")
        gate.tell()
        left = await gate.left()

        assert_told(await reading.end())
    assert_in_time(left, DRAIN)


@pytest.mark.fault("C06")
@signals
async def test_in_the_text_callers_are_told(number: signal.Signals) -> None:
    async with stage(DRAIN, beginning) as gate:
        reading, asking = gate.follow(), gate.ask()
        await reading.saw("text.delta")
        await (await gate.model.request(2)).told.wait()
        gate.tell(number)
        left = await gate.left()

        assert_told(await reading.end())
        assert_refused(await asking)
    assert_in_time(left, DRAIN)
    assert left.seconds >= DRAIN


# --- tools are at work


@pytest.mark.fault("C06")
@pytest.mark.parametrize("tool", ["wait", "hang", "stall", "ignore"])
async def test_in_a_tool_callers_are_told_whatever_it_does(tool: str) -> None:
    async with stage(DRAIN) as gate:
        gate.model.always(using(tool, gate.door))
        reading, asking, driving = gate.follow(), gate.ask(), driven(gate, tool)
        await gate.door.arrivals(3)
        gate.tell()
        left = await gate.left()

        assert_told(await reading.end())
        assert_refused(await asking)
        assert_refused(await driving)
    assert_in_time(left, DRAIN)
    assert left.seconds >= DRAIN


@signals
async def test_in_a_tool_that_blocks_the_event_loop_it_leaves_in_time(number: signal.Signals) -> None:
    async with stage(DRAIN) as gate:
        gate.model.always(using("block", gate.door))
        reading = gate.follow()
        await gate.door.arrivals()
        gate.tell(number)
        left = await gate.left()

        assert await reading.cut() in {None, "tool_call.ready"}
    assert_in_time(left, DRAIN)


async def test_a_tool_that_blocks_the_event_loop_for_a_while_does_not_cost_its_caller_the_answer() -> None:
    async with stage(PATIENCE) as gate:
        gate.model.always(using("block", gate.door))
        asking = gate.ask()
        await gate.door.arrivals()
        gate.tell()
        gate.door.let_go()
        left = await gate.left()

        assert (await asking).json()["content"] == "Done."
    assert_in_time(left, 0)


# --- several runs, and readers of all kinds


async def test_runs_that_wait_for_their_conversation_end_with_the_one_they_wait_for() -> None:
    async with stage(DRAIN) as gate:
        gate.model.always(using("wait", gate.door))
        asking = [gate.ask(conversation_id="c")]
        await gate.door.arrivals()
        asking.append(gate.ask(conversation_id="c", when_busy="queue"))
        reading = gate.follow(conversation_id="c", when_busy="queue")
        await reading.saw("run.started")
        gate.tell()
        left = await gate.left()

        for one in asking:
            assert_refused(await one)
        assert_told(await reading.end())
    assert_in_time(left, DRAIN)


async def test_a_run_that_nobody_reads_ends_too() -> None:
    async with stage(DRAIN) as gate:
        gate.model.always(using("wait", gate.door))
        begun = await gate.ask(background=True)
        await gate.door.arrivals()
        gate.tell()
        left = await gate.left()

    assert begun.status_code == httpx.codes.ACCEPTED
    assert_in_time(left, DRAIN)
    assert left.seconds >= DRAIN


async def test_a_reader_who_came_back_is_told() -> None:
    async with stage(DRAIN) as gate:
        gate.model.always(using("wait", gate.door))
        begun = await gate.ask(background=True)
        await gate.door.arrivals()
        reading = gate.come_back(f"{begun.headers['Location']}/events?after=2")
        await reading.saw("tool_call.ready")
        gate.tell()
        left = await gate.left()

        assert_told(await reading.end())
    assert [event.id for event in reading.events] == list(range(3, len(reading.events) + 3))
    assert_in_time(left, DRAIN)


async def test_a_client_that_reads_nothing_is_not_waited_for_for_long() -> None:
    much = event(chunk({"content": "x" * 50_000})) * 200  # more than what two kernels and a server hold for it
    async with stage(DRAIN) as gate:
        gate.model.always(Answer(much, HANG))
        body = b'{"message": "Hello"}'
        head = b"POST /chat/stream HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        url = httpx.URL(gate.process.url)
        with socket.create_connection((url.host, url.port)) as line:
            line.sendall(head + body)
            await (await gate.model.request()).told.wait()
            gate.tell()
            left = await gate.left()

    assert_in_time(left, DRAIN)


async def test_a_hundred_readers_are_all_told() -> None:
    async with stage(DRAIN, beginning) as gate:
        readings = [gate.follow() for _ in range(100)]
        for reading in readings:
            await reading.saw("text.delta")
        gate.tell()
        left = await gate.left()

        for reading in readings:
            assert_told(await reading.end())
    assert_in_time(left, DRAIN)
