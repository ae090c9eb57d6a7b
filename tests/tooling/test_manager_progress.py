"""What running tools report of themselves on its way to whoever reads the stream."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest

from app.chat import Progress, ToolCall, ToolCallProgress, ToolCallSucceeded, ToolContext
from app.providers.scripted import tool_calls
from app.tooling.channel import Channel, Reporter
from app.tooling.manager import ToolCallingManager, ToolExecution
from app.tooling.threads import ToolThreads
from tests.support.executing import QUESTION, execute
from tests.support.gates import PATIENCE, Gate
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, Held, in_thread


def reporting(name: str, *reports: dict[str, Any]) -> HandWrittenTool:
    """A tool that makes its reports and is done."""

    async def behaviour(_: str, context: ToolContext) -> str:
        for report in reports:
            context.progress(**report)
        return "done"

    return HandWrittenTool(name, behaviour)


async def reported(**report: Any) -> ToolCallProgress:
    """How a report arrives."""
    done = await execute(tool_calls(("dredge", {})), [reporting("dredge", report)], stream=True)
    [event] = done.of(ToolCallProgress)
    return event


async def test_a_report_is_read_while_the_tool_is_running() -> None:
    read = asyncio.Event()

    async def dredge(_: str, context: ToolContext) -> str:
        context.progress("half way", current=1, total=2, data={"depth": [11, 12]})
        await read.wait()
        return "done"

    running = ToolCallingManager().stream(
        tool_calls(("dredge", {})), tools=[HandWrittenTool("dredge", dredge)], history=[QUESTION]
    )
    async with asyncio.timeout(PATIENCE), aclosing(running):
        first = await anext(running)
        read.set()
        rest = [type(event) async for event in running]

    assert first == ToolCallProgress("call_1", "dredge", "half way", 1, 2, {"depth": [11, 12]})
    assert rest == [ToolCallSucceeded, ToolExecution]


async def test_a_report_from_a_thread_is_read_while_the_tool_is_running() -> None:
    threads, gate = ToolThreads(1), Gate()

    def dredge(context: ToolContext) -> str:
        context.progress("half way")
        gate()
        return "done"

    running = ToolCallingManager().stream(
        tool_calls(("dredge", {})), tools=[in_thread("dredge", dredge, threads)], history=[QUESTION]
    )
    async with asyncio.timeout(PATIENCE), aclosing(running):
        first = await anext(running)
        gate.open()
        rest = [type(event) async for event in running]

    assert first == ToolCallProgress("call_1", "dredge", "half way")
    assert rest == [ToolCallSucceeded, ToolExecution]


async def test_reports_come_in_order_before_their_calls_end_and_with_its_name() -> None:
    tools = [
        reporting("dredge", {"current": 1}, {"current": 2}, {"current": 3}),
        reporting("pump", {"message": "on"}, {"message": "off"}),
    ]

    done = await execute(tool_calls(("dredge", {}), ("pump", {})), tools, stream=True)

    dredge = [event for event in done.events if event.call_id == "call_1"]
    pump = [event for event in done.events if event.call_id == "call_2"]
    assert dredge[:-1] == [ToolCallProgress("call_1", "dredge", current=n) for n in (1, 2, 3)]
    assert pump[:-1] == [ToolCallProgress("call_2", "pump", text) for text in ("on", "off")]
    assert isinstance(dredge[-1], ToolCallSucceeded)
    assert isinstance(pump[-1], ToolCallSucceeded)


@both_modes
async def test_reports_never_reach_the_model(stream: bool) -> None:
    done = await execute(tool_calls(("dredge", {})), [reporting("dredge", {"message": "for eyes only"})], stream=stream)

    assert "for eyes only" not in str(done.execution)


@pytest.mark.parametrize("threaded", [False, True], ids=["coroutine", "thread"])
async def test_of_reports_that_come_faster_than_they_are_read_the_latest_are_kept(threaded: bool) -> None:
    def dredge(context: ToolContext) -> str:
        for number in range(10_000):
            context.progress(current=number)
        return "done"

    async def dredge_in_the_loop(_: str, context: ToolContext) -> str:
        return dredge(context)

    reported_all = asyncio.Event()

    async def dredge_in_a_thread(_: str, context: ToolContext) -> str:
        try:
            return await ToolThreads(1).run(lambda: dredge(context))
        finally:
            reported_all.set()

    running = ToolCallingManager().stream(
        tool_calls(("slow", {}), ("dredge", {})),
        tools=[
            reporting("slow", {"message": "first"}),
            HandWrittenTool("dredge", dredge_in_a_thread if threaded else dredge_in_the_loop),
        ],
        history=[QUESTION],
    )
    async with asyncio.timeout(PATIENCE), aclosing(running):
        first = await anext(running)
        if threaded:
            await reported_all.wait()
        events = [event async for event in running]

    assert first == ToolCallProgress("call_1", "slow", "first")
    of_dredge = [event for event in events if not isinstance(event, ToolExecution) and event.call_id == "call_2"]
    assert of_dredge[:-1] == [ToolCallProgress("call_2", "dredge", current=n) for n in range(10_000)[-16:]]
    assert isinstance(of_dredge[-1], ToolCallSucceeded)


@pytest.mark.fault("D12")
async def test_a_report_after_the_end_of_its_call_is_dropped() -> None:
    kept: list[ToolContext] = []
    held = Held()

    async def keep(_: str, context: ToolContext) -> str:
        kept.append(context)
        return "done"

    running = ToolCallingManager().stream(
        tool_calls(("keep", {}), ("held", {})),
        tools=[HandWrittenTool("keep", keep), held.tool],
        history=[QUESTION],
    )
    async with asyncio.timeout(PATIENCE), aclosing(running):
        await anext(running)
        kept[0].progress("after the end")
        held.let_go.set()
        rest = [type(event) async for event in running]

    assert rest == [ToolCallSucceeded, ToolExecution]


def test_a_report_after_the_end_of_the_event_loop_is_dropped() -> None:
    async def listen() -> Reporter:
        return Reporter(Channel(), ToolCall("call_1", "dredge"))

    reporter = asyncio.run(listen())

    reporter(Progress("after the end"))


async def test_what_a_tool_reports_can_be_changed_afterwards_without_changing_the_report() -> None:
    async def dredge(_: str, context: ToolContext) -> str:
        data = {"depths": [11]}
        context.progress(data=data)
        data["depths"].append(12)
        return "done"

    done = await execute(tool_calls(("dredge", {})), [HandWrittenTool("dredge", dredge)], stream=True)

    assert done.events[0] == ToolCallProgress("call_1", "dredge", data={"depths": [11]})


class Side(StrEnum):
    PORT = "port"


@pytest.mark.fault("T11")
async def test_reports_are_strict_json_by_the_time_they_are_read() -> None:
    event = await reported(
        message=Side.PORT, current=Decimal("1.5"), total=10**400, data={1: (math.nan, Side.PORT, {"x": math.inf})}
    )

    assert event == ToolCallProgress("call_1", "dredge", "port", 1.5, 10**400, {"1": [None, "port", {"x": None}]})


@pytest.mark.fault("T11")
@pytest.mark.parametrize(
    ("report", "kind"),
    [
        ({"current": math.nan}, "float"),
        ({"total": math.inf}, "float"),
        ({"total": "ten"}, "str"),
        ({"data": object()}, "object"),
        ({"data": "\ud800"}, "str"),
    ],
)
async def test_a_report_that_has_no_json_form_is_left_out_and_the_author_told(
    report: dict[str, Any], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    event = await reported(message="half\ud800way", **report)

    assert event == ToolCallProgress("call_1", "dredge", "half\ufffdway")
    [told] = caplog.messages
    assert told.startswith("tool dredge reported ")
    assert kind in told


async def test_the_author_is_told_once_a_call(caplog: pytest.LogCaptureFixture) -> None:
    done = await execute(tool_calls(("dredge", {})), [reporting("dredge", *[{"current": math.nan}] * 5)], stream=True)

    assert len(done.of(ToolCallProgress)) == 5
    assert len(caplog.messages) == 1
