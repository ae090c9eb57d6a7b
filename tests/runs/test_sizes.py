"""The size of an entry: 200 bytes, its texts in UTF-8, and 64 for each item of lists and mappings."""

from __future__ import annotations

import pytest

from app.chat import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    RoundCompleted,
    RoundStarted,
    TextDelta,
    ToolCall,
    ToolCallProgress,
    ToolCallReady,
    ToolCallSucceeded,
    ToolRun,
    Usage,
    UserMessage,
)
from app.runs.journal import RunCancelled, RunCompleted, RunEvent, RunFailed, RunStarted
from app.runs.sizes import size_of

CALL = ToolCall("c_1", "depth", "{}", {"signature": ["s"]})
ANSWER = ChatResponse(
    AssistantMessage("11 m", (CALL,), "thought", "no", {"k": "v"}),
    FinishReason.STOP,
    tool_runs=(ToolRun(1, "c_1", "depth", "{}", "11 m"), ToolRun(1, "c_2", "depth", "{}", error="gone")),
    generated=(UserMessage("what is said once more does not count"),),
)
OF_CALL = len("c_1depth{}") + 64 + len("signature") + 64 + len("s")
OF_ANSWER = (
    len("11 m") + 64 + OF_CALL + len("thoughtno") + 64 + len("kv") + 2 * 64 + len("c_1depth{}11 mc_2depth{}gone")
)


@pytest.mark.parametrize(
    ("event", "texts"),
    [
        (RunStarted(), 0),
        (RoundStarted(1), 0),
        (TextDelta("Köln"), 5),
        (ToolCallReady(CALL), OF_CALL),
        (ToolCallProgress("c_1", "depth", "half", 1, 2, {"at": ["5 m", 6]}), len("c_1depthhalf") + 66 + 64 + 3 + 64),
        (ToolCallProgress("c_1", "depth", data=b"neither a text nor made of any"), len("c_1depth")),
        (ToolCallSucceeded("c_1", "depth", "11 m", 1.5), len("c_1depth11 m")),
        (RoundCompleted(1, FinishReason.STOP, Usage(1), "far"), len("far")),
        (RunCompleted(ANSWER), OF_ANSWER),
        (RunCancelled(ANSWER), OF_ANSWER),
        (RunFailed(ValueError("boom", 3)), 64 + len("boom")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_texts_and_items_count(event: RunEvent, texts: int) -> None:
    assert size_of(event) == 200 + texts
