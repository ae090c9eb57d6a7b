"""One log line a round, without a word of what was said."""

from __future__ import annotations

import logging
import re
from contextlib import aclosing

import pytest

from app.advisors import ToolCallingAdvisor, TraceAdvisor
from app.chat import ChatOptions, ModelError, ModelRateLimited, Usage, chain
from app.providers.scripted import Cut, Reply, ScriptedModel, tool_calls
from app.tooling import ToolCallingManager
from tests.support.chains import request_of, run
from tests.support.modes import both_modes
from tests.support.tools import giving

USED = Usage(12, 3, 15)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "app.advisors.trace")
    return caplog


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Level and text of each line, the milliseconds masked."""
    return [(record.levelname, re.sub(r"ms=\d+$", "ms=#", record.getMessage())) for record in caplog.records]


@both_modes
async def test_each_round_is_one_line(lines: pytest.LogCaptureFixture, *, stream: bool) -> None:
    calls = tool_calls(("sound", {"at": "secret pier"}), ("sound", {"at": "quay"}))
    model = ScriptedModel(calls, "The secret pier is 9 m deep.", usage=USED)
    loop = ToolCallingAdvisor(ToolCallingManager())
    await run([loop, TraceAdvisor()], model, "My secret?", stream=stream, tools=(giving("sound", "secret 9 m"),))
    used = "input_tokens=12 output_tokens=3 total_tokens=15 ms=#"
    assert told(lines) == [
        ("INFO", f"round=1 model='scripted' finish_reason='tool_calls' tool_calls=['sound', 'sound'] {used}"),
        ("INFO", f"round=2 model='scripted' finish_reason='stop' tool_calls=[] {used}"),
    ]
    assert "secret" not in lines.text


@both_modes
@pytest.mark.parametrize(
    ("reply", "line"),
    [
        (
            ModelRateLimited("secret", status=429, code="insufficient_quota"),
            "round=1 model='m' failed='ModelRateLimited' status=429 code='insufficient_quota' ms=#",
        ),
        (Cut("secret", ModelError("secret")), "round=1 model='m' failed='ModelError' ms=#"),
        (
            ModelError("secret", usage=Usage(7, None, 9)),
            "round=1 model='m' failed='ModelError' input_tokens=7 total_tokens=9 ms=#",
        ),
        (ValueError("secret"), "round=1 model='m' failed='ValueError' ms=#"),
    ],
    ids=["refused", "cut", "billed", "bug"],
)
async def test_a_failed_round_is_a_warning_without_the_errors_words(
    lines: pytest.LogCaptureFixture, reply: Reply, line: str, *, stream: bool
) -> None:
    with pytest.raises((ModelError, ValueError)):
        await run([TraceAdvisor()], ScriptedModel(reply), stream=stream, model="m")
    assert told(lines) == [("WARNING", line)]
    assert "secret" not in lines.text


async def test_a_round_that_its_reader_left_is_told_of(lines: pytest.LogCaptureFixture) -> None:
    request = request_of(stream=True)
    async with aclosing(chain([TraceAdvisor()], ScriptedModel("One word more"))(request)) as events:
        await anext(events)
    assert told(lines) == [("INFO", "round=1 ended='abandoned' ms=#")]


async def test_a_reader_who_leaves_at_the_answer_has_seen_a_whole_round(lines: pytest.LogCaptureFixture) -> None:
    request = request_of(stream=False)
    async with aclosing(chain([TraceAdvisor()], ScriptedModel("Hi"))(request)) as events:
        await anext(events)
        await anext(events)
    assert told(lines) == [("INFO", "round=1 model='scripted' finish_reason='stop' tool_calls=[] ms=#")]


@pytest.mark.fault("S03")
@both_modes
async def test_a_tool_name_with_a_line_end_does_not_make_a_line_of_its_own(
    lines: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    model = ScriptedModel(tool_calls(("sound\nround=2 forged", {})), default_options=ChatOptions())
    await run([TraceAdvisor()], model, stream=stream)
    assert [text.count("\n") for _, text in told(lines)] == [0]


async def test_lines_go_where_they_are_wanted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "harbour")
    await run([TraceAdvisor(logger=logging.getLogger("harbour"))], ScriptedModel("Hi"), stream=False)
    assert [record.name for record in caplog.records] == ["harbour"]
