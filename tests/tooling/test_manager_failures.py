"""What the model, the log and the caller are told when a tool fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import aclosing

import pytest

from app.chat import ToolArgumentsInvalid, ToolContext, ToolError, ToolFailed
from app.providers.scripted import tool_calls
from app.tooling.manager import ToolCallingManager
from tests.support.executing import QUESTION, execute
from tests.support.gates import PATIENCE
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, Held, echo, failing

SECRET = "postgres://ada:lovelace@db"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise TypeError("no text for this")


def refuse() -> None:
    raise ConnectionError(SECRET)


class Abrupt(BaseException):
    """An end that is no `Exception`."""


def only(record: list[logging.LogRecord]) -> logging.LogRecord:
    [one] = record
    return one


@both_modes
@pytest.mark.parity(72)
@pytest.mark.fault("L07", "L13")
async def test_a_tool_that_fails_does_not_cancel_its_neighbours(stream: bool) -> None:
    failed = asyncio.Event()

    async def fail(_: str, __: ToolContext) -> str:
        failed.set()
        raise ValueError

    async def go_on(_: str, __: ToolContext) -> str:
        await failed.wait()
        return "went on"

    tools = [HandWrittenTool("before", go_on), HandWrittenTool("bad", fail), HandWrittenTool("after", go_on)]
    done = await execute(tool_calls(("before", {}), ("bad", {}), ("after", {})), tools, stream=stream)

    assert done.texts == ["went on", "The tool bad failed. The details are in the gateway's log.", "went on"]
    assert done.failed == [False, True, False]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@both_modes
@pytest.mark.parity(72, 121)
@pytest.mark.parametrize("kind", [ToolFailed, ToolArgumentsInvalid, ToolError])
async def test_what_a_tool_says_on_purpose_goes_to_the_model_and_not_to_the_log(
    stream: bool, kind: type[ToolError], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    done = await execute(
        tool_calls(("depth", {})), [failing("depth", kind("No such harbour; try Kiel."))], stream=stream
    )

    assert done.texts == ["No such harbour; try Kiel."]
    assert done.failed == [True]
    assert [record for record in caplog.records if record.name.startswith("app")] == []


@both_modes
@pytest.mark.parity(131)
async def test_a_failure_without_words_gets_some(stream: bool) -> None:
    done = await execute(tool_calls(("depth", {})), [failing("depth", ToolFailed("  "))], stream=stream)

    assert done.texts == ["The tool depth failed without saying why (ToolFailed)."]


@both_modes
async def test_the_words_of_an_exception_reach_neither_model_nor_log(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def connect(_: str, __: ToolContext) -> str:
        try:
            refuse()
        except ConnectionError as error:
            raise ValueError(SECRET) from error
        return "connected"

    done = await execute(tool_calls(("depth", {"key": SECRET})), [HandWrittenTool("depth", connect)], stream=stream)

    assert done.texts == ["The tool depth failed. The details are in the gateway's log."]
    logged = only(caplog.records)
    assert logged.levelno == logging.ERROR
    assert SECRET not in caplog.text


@both_modes
async def test_the_log_says_which_call_failed_with_what_and_where(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def connect(_: str, __: ToolContext) -> str:
        try:
            refuse()
        except ConnectionError as error:
            raise asyncio.InvalidStateError from error
        return "connected"

    await execute(tool_calls(("depth", {})), [HandWrittenTool("depth", connect)], stream=stream)

    logged = only(caplog.records).getMessage()
    assert "tool depth failed in call 'call_1'" in logged
    assert "asyncio.exceptions.InvalidStateError caused by ConnectionError" in logged
    line = connect.__code__.co_firstlineno + 4
    assert logged.endswith(f"{__file__}:{line} in connect")


@both_modes
async def test_a_very_deep_failure_is_logged_with_its_innermost_frames_only(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def dive(depth: int) -> int:
        return 1 // depth if depth == 0 else dive(depth - 1)

    async def fail(_: str, __: ToolContext) -> str:
        return str(dive(100))

    await execute(tool_calls(("depth", {})), [HandWrittenTool("depth", fail)], stream=stream)

    assert caplog.messages[0].count(" in dive") == 12


@both_modes
async def test_causes_that_go_round_in_a_circle_are_logged_once(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    error, cause = ValueError(), KeyError()
    error.__cause__, cause.__cause__ = cause, error

    await execute(tool_calls(("depth", {})), [failing("depth", error)], stream=stream)

    assert "ValueError caused by KeyError at" in caplog.messages[0]


@both_modes
@pytest.mark.parity(120, 130)
async def test_a_setting_shows_the_model_type_and_message(stream: bool) -> None:
    done = await execute(
        tool_calls(("depth", {})),
        [failing("depth", ValueError("11 is not a harbour\ud800"))],
        stream=stream,
        manager=ToolCallingManager(error_details=True),
    )

    assert done.texts == ["The tool depth failed: ValueError: 11 is not a harbour\ufffd"]


@both_modes
@pytest.mark.parity(131)
@pytest.mark.parametrize("error", [ValueError(), ValueError(" \n"), Unprintable()])
async def test_an_exception_without_a_message_is_shown_by_its_type(stream: bool, error: Exception) -> None:
    done = await execute(
        tool_calls(("depth", {})),
        [failing("depth", error)],
        stream=stream,
        manager=ToolCallingManager(error_details=True),
    )

    assert done.texts == [f"The tool depth failed: {type(error).__name__}"]


@both_modes
async def test_a_setting_logs_the_message_and_the_whole_traceback(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    done = await execute(
        tool_calls(("depth", {})),
        [failing("depth", ValueError("11 is not a harbour"))],
        stream=stream,
        manager=ToolCallingManager(log_details=True),
    )

    assert "11 is not a harbour" not in done.texts[0]
    assert "ValueError: 11 is not a harbour" in caplog.text
    assert "Traceback (most recent call last)" in caplog.text


@both_modes
@pytest.mark.parity(132)
async def test_exceptions_can_go_to_the_caller_with_the_tool_named(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    error = ValueError("11 is not a harbour")

    with pytest.raises(ValueError, match="11 is not a harbour") as caught:
        await execute(
            tool_calls(("depth", {})),
            [failing("depth", error)],
            stream=stream,
            manager=ToolCallingManager(raise_errors=True),
        )

    assert caught.value is error
    assert error.__notes__ == ["raised by the tool depth in call 'call_1'"]
    assert caplog.records == []


@both_modes
@pytest.mark.parity(132)
async def test_what_a_tool_says_on_purpose_goes_to_the_model_even_where_exceptions_go_to_the_caller(
    stream: bool,
) -> None:
    done = await execute(
        tool_calls(("depth", {})),
        [failing("depth", ToolFailed("Try Kiel."))],
        stream=stream,
        manager=ToolCallingManager(raise_errors=True),
    )

    assert done.texts == ["Try Kiel."]


@both_modes
@pytest.mark.parity(133)
@pytest.mark.parametrize("error", [LookupError("gone"), KeyError("gone"), ToolFailed("gone")])
async def test_exceptions_of_chosen_types_and_their_subclasses_go_to_the_caller(stream: bool, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        await execute(
            tool_calls(("depth", {})),
            [failing("depth", error)],
            stream=stream,
            manager=ToolCallingManager(raise_errors=(LookupError, ToolFailed)),
        )

    assert caught.value is error


@both_modes
@pytest.mark.parity(133)
async def test_exceptions_of_other_types_still_become_text(stream: bool) -> None:
    done = await execute(
        tool_calls(("depth", {})),
        [failing("depth", ValueError("gone"))],
        stream=stream,
        manager=ToolCallingManager(raise_errors=(LookupError,)),
    )

    assert done.failed == [True]


@both_modes
@pytest.mark.parity(134)
@pytest.mark.fault("D13")
@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit, Abrupt])
async def test_what_is_no_exception_always_goes_to_the_caller(stream: bool, kind: type[BaseException]) -> None:
    with pytest.raises(kind):
        await execute(tool_calls(("depth", {})), [failing("depth", kind())], stream=stream)

    assert asyncio.all_tasks() == {asyncio.current_task()}


@both_modes
@pytest.mark.parity(132, 134)
@pytest.mark.fault("L07")
@pytest.mark.parametrize("error", [ValueError(), Abrupt()])
async def test_before_an_exception_goes_to_the_caller_the_neighbours_are_cancelled_and_cleaned_up(
    stream: bool, error: BaseException
) -> None:
    held, never = Held(), echo("never", sequential=True)
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))

    async def fail(_: str, __: ToolContext) -> str:
        await held.begun()
        raise error

    with pytest.raises(type(error)):
        await execute(
            tool_calls(("held", {}), ("bad", {}), ("bad", {}), ("never", {})),
            [held.tool, HandWrittenTool("bad", fail), never],
            stream=stream,
            manager=ToolCallingManager(raise_errors=True),
        )

    assert (held.running, held.cancelled) == (0, 1)
    assert never.asked == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert unhandled == []


@pytest.mark.parity(132)
async def test_once_an_exception_is_on_its_way_to_the_caller_nothing_more_is_started() -> None:
    held, never, fail_now = Held(), echo("never", sequential=True), asyncio.Event()

    async def fail(_: str, __: ToolContext) -> str:
        await fail_now.wait()
        raise ValueError("lost the rope")

    running = ToolCallingManager(raise_errors=True).stream(
        tool_calls(("echo", {}), ("bad", {}), ("held", {}), ("never", {})),
        tools=[echo(), HandWrittenTool("bad", fail), held.tool, never],
        history=[QUESTION],
    )
    async with asyncio.timeout(PATIENCE), aclosing(running):
        await anext(running)
        fail_now.set()
        await held.ended.wait()
        with pytest.raises(ValueError, match="lost the rope"):
            await anext(running)

    assert held.cancelled == 1
    assert never.asked == []


@both_modes
async def test_a_request_that_breaks_the_manager_itself_ends_with_its_error_and_does_not_hang(stream: bool) -> None:
    with pytest.raises(TypeError):
        await execute(
            tool_calls(("echo", {})),
            [echo()],
            stream=stream,
            tool_context=7,
        )


class ReadOnce(Mapping[str, object]):
    """A tool context that cannot be read a second time."""

    def __init__(self) -> None:
        self._left = 1

    def __getitem__(self, name: str) -> object:
        return name

    def __iter__(self) -> Iterator[str]:
        if not self._left:
            raise ValueError("it was read before")
        self._left -= 1
        return iter(["harbour"])

    def __len__(self) -> int:
        return 1


@both_modes
async def test_a_later_call_that_breaks_the_manager_ends_the_batch_as_well(stream: bool) -> None:
    with pytest.raises(ValueError, match="it was read before"):
        await execute(
            tool_calls(("echo", {}), ("echo", {})),
            [echo()],
            stream=stream,
            manager=ToolCallingManager(max_concurrency=1),
            tool_context=ReadOnce(),
        )

    assert asyncio.all_tasks() == {asyncio.current_task()}
