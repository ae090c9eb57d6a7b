"""From an assistant message with calls to one tool message with their results."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from dataclasses import FrozenInstanceError

import pytest

from app.chat import (
    AssistantMessage,
    ConfigurationError,
    Message,
    Prompt,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolNotFound,
    ToolResult,
    ToolRun,
    UserMessage,
)
from app.providers.scripted import ScriptedModel, tool_calls
from app.tooling.manager import ToolCallingManager
from app.tooling.threads import ToolThreads
from tests.support.executing import QUESTION, execute
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, echo, failing, giving, in_thread

trace: ContextVar[str] = ContextVar("trace", default="none")


@both_modes
@pytest.mark.parity(66)
async def test_the_history_grows_by_the_message_and_one_tool_message(stream: bool) -> None:
    message = tool_calls(("depth", {"harbour": "Kiel"}))

    done = await execute(message, [giving("depth", "11 m")], stream=stream)

    results = ToolMessage((ToolResult("call_1", "depth", "11 m"),))
    assert done.execution.message == results
    assert done.execution.history == (QUESTION, message, results)


@both_modes
@pytest.mark.parity(96)
async def test_the_history_handed_over_is_a_copy_of_its_own(stream: bool) -> None:
    history: list[Message] = [QUESTION]

    async def meddle(_: str, __: ToolContext) -> str:
        history.clear()
        return "done"

    message = tool_calls(("meddle", {}))
    done = await execute(message, [HandWrittenTool("meddle", meddle)], stream=stream, history=history)

    assert done.execution.history == (QUESTION, message, done.execution.message)
    with pytest.raises(FrozenInstanceError):
        done.execution.history = ()  # type: ignore[misc]  # that it cannot be set is the point


@both_modes
@pytest.mark.parity(67)
async def test_several_results_come_in_one_message_in_the_order_asked(stream: bool) -> None:
    message = tool_calls(("echo", {"n": 1}), ("depth", {}), ("echo", {"n": 2}))

    done = await execute(message, [giving("depth", "11 m"), echo()], stream=stream)

    assert done.results == (
        ToolResult("call_1", "echo", '{"n": 1}'),
        ToolResult("call_2", "depth", "11 m"),
        ToolResult("call_3", "echo", '{"n": 2}'),
    )


@both_modes
async def test_two_calls_with_the_same_id_are_both_answered(stream: bool) -> None:
    message = AssistantMessage("", (ToolCall("same", "echo", '{"n": 1}'), ToolCall("same", "echo", '{"n": 2}')))

    done = await execute(message, [echo()], stream=stream)

    assert [(result.id, result.content) for result in done.results] == [("same", '{"n": 1}'), ("same", '{"n": 2}')]


@both_modes
@pytest.mark.parity(92)
async def test_each_call_is_recorded_with_its_arguments_result_and_time(stream: bool) -> None:
    message = AssistantMessage("", (ToolCall("a", "depth", ' {"harbour":"Kiel"}'), ToolCall("b", "gone", "{}")))

    done = await execute(message, [giving("depth", "11 m")], stream=stream, round=3)

    answered, refused = done.execution.tool_runs
    assert answered == ToolRun(3, "a", "depth", ' {"harbour":"Kiel"}', result="11 m", ms=answered.ms)
    assert answered.ms > 0
    assert refused == ToolRun(3, "b", "gone", "{}", error=done.texts[1], ms=0.0)


@both_modes
@pytest.mark.parity(63)
async def test_running_a_message_without_calls_is_a_mistake_of_the_program(stream: bool) -> None:
    with pytest.raises(ValueError, match="asks for no tool calls"):
        await execute(AssistantMessage("Eleven metres."), [echo()], stream=stream)


@both_modes
@pytest.mark.parity(64, 65, 90)
@pytest.mark.fault("L06")
async def test_a_name_that_was_not_offered_is_answered_with_those_that_were(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    message = tool_calls(("list_harbours", {}), ("tide", {}))

    done = await execute(message, [giving("tide", "high"), echo("depth")], stream=stream)

    assert done.results[0].is_error
    assert done.texts == ["There is no tool 'list_harbours'. The tools you can call are: depth, tide.", "high"]
    [warning] = caplog.records
    assert warning.levelno == logging.WARNING
    assert "'list_harbours'" in warning.getMessage()
    assert "may have changed the name, or cut it short (names are often cut at 64 characters)" in warning.getMessage()


@both_modes
@pytest.mark.parity(64)
@pytest.mark.fault("L06")
async def test_where_no_tools_were_offered_the_model_is_told_to_answer_without(stream: bool) -> None:
    done = await execute(tool_calls(("depth", {})), [], stream=stream)

    assert done.texts == ["There is no tool 'depth'. No tools can be called: answer without them."]


@both_modes
async def test_a_name_of_any_length_and_content_is_repeated_in_part_and_in_one_line(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    message = tool_calls(("depth\nERROR: forged\ud800" + "x" * 5000, {}))

    done = await execute(message, [echo()], stream=stream)

    told, logged = done.texts[0], caplog.messages[0]
    assert len(told) < 300
    assert len(logged) < 400
    assert "\n" not in told + logged
    assert (told + logged).encode()


@both_modes
@pytest.mark.parity(133)
async def test_an_unknown_name_can_be_made_to_end_the_run_before_anything_is_run(stream: bool) -> None:
    tool = echo()

    with pytest.raises(ToolNotFound, match="There is no tool 'gone'"):
        await execute(
            tool_calls(("echo", {}), ("gone", {})),
            [tool],
            stream=stream,
            manager=ToolCallingManager(raise_errors=(ToolNotFound,)),
        )

    assert tool.asked == []


@both_modes
@pytest.mark.parity(68)
async def test_a_tool_given_twice_is_run_once(stream: bool) -> None:
    tool = echo()

    done = await execute(tool_calls(("echo", {})), [tool, tool], stream=stream)

    assert done.texts == ["{}"]
    assert tool.asked == ["{}"]


@both_modes
async def test_a_list_of_tools_that_has_changed_is_looked_through_again(stream: bool) -> None:
    manager, tools = ToolCallingManager(), [echo("depth")]
    await execute(tool_calls(("depth", {})), tools, stream=stream, manager=manager)
    tools[0] = echo("tide")
    done = await execute(tool_calls(("depth", {}), ("tide", {})), tools, stream=stream, manager=manager)

    assert done.failed == [True, False]


@both_modes
@pytest.mark.fault("T16")
async def test_two_tools_of_one_name_are_refused_instead_of_one_shadowing_the_other(stream: bool) -> None:
    with pytest.raises(ConfigurationError, match="'echo'"):
        await execute(tool_calls(("echo", {})), [echo(), echo()], stream=stream)


@both_modes
@pytest.mark.parity(86, 87)
@pytest.mark.parametrize(
    "arguments",
    ["{not json", "", json.dumps({"route": [{"leg": {"from": {"name": "Kiel"}, "depths": [[1], [2, [3]]]}}]})],
)
async def test_arguments_reach_the_tool_as_the_model_wrote_them(stream: bool, arguments: str) -> None:
    tool = echo()

    await execute(AssistantMessage("", (ToolCall("a", "echo", arguments),)), [tool], stream=stream)

    assert tool.asked == [arguments]


@both_modes
@pytest.mark.parity(69, 70, 71)
@pytest.mark.parametrize(
    ("flags", "direct"),
    [([True], True), ([True, True], True), ([True, False], False), ([False], False)],
    ids=["one", "all", "mixed", "none"],
)
async def test_return_direct_counts_when_every_call_has_it(stream: bool, flags: list[bool], direct: bool) -> None:
    tools = [echo(f"tool_{number}", return_direct=flag) for number, flag in enumerate(flags)]

    done = await execute(tool_calls(*((tool.definition.name, {}) for tool in tools)), tools, stream=stream)

    assert done.execution.return_direct is direct


@both_modes
async def test_an_error_of_a_return_direct_tool_goes_back_to_the_model(stream: bool) -> None:
    tools = [echo("good", return_direct=True), failing("bad", ValueError(), return_direct=True)]

    done = await execute(tool_calls(("good", {}), ("bad", {})), tools, stream=stream)

    assert not done.execution.return_direct


@both_modes
@pytest.mark.parity(91)
@pytest.mark.fault("K08")
async def test_each_call_gets_a_read_only_copy_of_the_context(stream: bool) -> None:
    given = {"tenant": "north"}
    seen: list[ToolContext] = []

    async def look(_: str, context: ToolContext) -> str:
        seen.append(context)
        with pytest.raises(TypeError):
            context["tenant"] = "south"  # type: ignore[index]  # that it cannot be set is the point
        given["tenant"] = "west"
        return str(context["tenant"])

    done = await execute(
        tool_calls(("look", {})),
        [HandWrittenTool("look", look)],
        stream=stream,
        tool_context=given,
        conversation_id="harbours",
        principal="ada",
    )

    assert done.texts == ["north"]
    [context] = seen
    assert (context.call_id, context.conversation_id, context.principal) == ("call_1", "harbours", "ada")


@both_modes
async def test_without_a_tool_context_a_tool_gets_an_empty_one(stream: bool) -> None:
    async def look(_: str, context: ToolContext) -> str:
        return f"{dict(context)} {context.conversation_id}"

    done = await execute(tool_calls(("look", {})), [HandWrittenTool("look", look)], stream=stream)

    assert done.texts == ["{} None"]


@both_modes
@pytest.mark.parity(74)
@pytest.mark.fault("K03")
async def test_tools_see_the_context_variables_of_whoever_runs_the_batch(stream: bool) -> None:
    async def look(_: str, __: ToolContext) -> str:
        return trace.get()

    tools = [HandWrittenTool("async", look), in_thread("sync", lambda _: trace.get(), ToolThreads(1))]
    trace.set("request 7")

    done = await execute(tool_calls(("async", {}), ("sync", {})), tools, stream=stream)

    assert done.texts == ["request 7", "request 7"]


@both_modes
@pytest.mark.parametrize("result", [None, 7, b"11 m", ["11 m"]])
async def test_a_tool_that_gives_no_text_gives_a_clear_error(
    stream: bool, result: object, caplog: pytest.LogCaptureFixture
) -> None:
    done = await execute(tool_calls(("depth", {})), [giving("depth", result)], stream=stream)

    kind = type(result).__name__
    assert done.failed == [True]
    assert done.texts == [f"The tool depth gave a result of type {kind} where text is expected."]
    assert caplog.messages == [f"tool depth gave a result of type {kind}, not text"]


@both_modes
async def test_lone_surrogates_in_a_result_are_replaced(stream: bool) -> None:
    done = await execute(tool_calls(("depth", {})), [giving("depth", "11\ud800 m \U0001f6a2")], stream=stream)

    assert done.texts == ["11\ufffd m \U0001f6a2"]


@both_modes
@pytest.mark.parity(97)
async def test_a_caller_who_drives_the_loop_gets_to_the_answer(stream: bool) -> None:
    model = ScriptedModel(
        tool_calls(("depth", {"harbour": "Kiel"})),
        tool_calls(("depth", {"harbour": "Lübeck"}), ("depth", {"harbour": "Rostock"})),
        "All three are deep enough.",
    )
    tools = [echo("depth")]
    messages: tuple[Message, ...] = (UserMessage("Where can she moor?"),)

    response = await model.call(Prompt(messages))
    while response.tool_calls:
        done = await execute(response.message, tools, stream=stream, history=messages)
        messages = done.execution.history
        response = await model.call(Prompt(messages))

    assert response.content == "All three are deep enough."
    assert [len(message.results) for message in messages if isinstance(message, ToolMessage)] == [1, 2]


@pytest.mark.parametrize(
    ("wrong", "named"), [({"max_concurrency": 0}, "max_concurrency"), ({"timeout": 0.0}, "time-out")]
)
def test_a_manager_that_could_run_nothing_is_refused(wrong: dict[str, float], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        ToolCallingManager(**wrong)  # type: ignore[arg-type]  # one value of each kind of argument
