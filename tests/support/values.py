"""Values as property tests want them: every kind of message and event, with texts that break what can be broken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from hypothesis import strategies as st

from app.chat import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    Message,
    Round,
    RoundCompleted,
    RoundStarted,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolCallArguments,
    ToolCallErrored,
    ToolCallProgress,
    ToolCallReady,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolMessage,
    ToolResult,
    ToolRun,
    Usage,
    UserMessage,
)
from app.chat.events import ReasoningDelta
from app.runs import RunCancelled, RunCompleted, RunEvent, RunStarted

_NASTY = [
    "\0",
    "\ud800",
    "\udfff",
    "😀",
    "\ud83d",
    "\ude00",
    "\u2028",
    "\u0085",
    "\\u0000",
    '"',
    "\\",
    "\r\n",
    "\ufeff",
]

texts = st.text() | st.lists(st.sampled_from(["a", "é", " ", *_NASTY])).map("".join)
numbers = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
jsons: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.just("kind"), inner, max_size=3),
    max_leaves=6,
)
extras = st.dictionaries(texts | st.just("kind"), jsons, max_size=2)
counts = st.none() | st.integers(0, 2**53)
milliseconds = st.floats(0, 1e9)
reasons = st.sampled_from(FinishReason)

usages = st.builds(Usage, counts, counts, counts, counts, counts)
rounds = st.builds(Round, reasons, usages, st.none() | texts)
calls = st.builds(ToolCall, texts, texts, texts, extras)
results = st.builds(ToolResult, texts, texts, texts, st.booleans())
assistant_messages = st.builds(
    AssistantMessage, texts, st.lists(calls, max_size=2).map(tuple), st.none() | texts, st.none() | texts, extras
)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(SystemMessage, texts),
    st.builds(UserMessage, texts),
    assistant_messages,
    st.builds(ToolMessage, st.lists(results, max_size=2).map(tuple)),
)
tool_runs = st.builds(
    ToolRun, st.integers(1, 99), texts, texts, texts, st.none() | texts, st.none() | texts, milliseconds
)
responses = st.builds(
    ChatResponse,
    assistant_messages,
    reasons,
    usages,
    st.none() | texts,
    st.none() | texts,
    st.lists(rounds, max_size=2).map(tuple),
    st.lists(tool_runs, max_size=2).map(tuple),
    st.lists(messages, max_size=2).map(tuple),
    extras,
)
events: Mapping[type[RunEvent], st.SearchStrategy[RunEvent]] = {
    RunStarted: st.builds(RunStarted),
    RoundStarted: st.builds(RoundStarted, st.integers(1, 99)),
    TextDelta: st.builds(TextDelta, texts),
    ReasoningDelta: st.builds(ReasoningDelta, texts),
    ToolCallStarted: st.builds(ToolCallStarted, texts, texts),
    ToolCallArguments: st.builds(ToolCallArguments, texts, texts, texts),
    ToolCallReady: st.builds(ToolCallReady, calls),
    ToolCallProgress: st.builds(
        ToolCallProgress, texts, texts, st.none() | texts, st.none() | numbers, st.none() | numbers, jsons
    ),
    ToolCallSucceeded: st.builds(ToolCallSucceeded, texts, texts, texts, milliseconds),
    ToolCallErrored: st.builds(ToolCallErrored, texts, texts, texts, milliseconds),
    RoundCompleted: st.builds(RoundCompleted, st.integers(1, 99), reasons, usages, st.none() | texts),
    RunCompleted: st.builds(RunCompleted, responses),
    RunCancelled: st.builds(RunCancelled, responses),
}
"""Events of each kind that can be compared; failures are errors, which are only equal to themselves."""

MESSAGES: tuple[type[Message], ...] = get_args(Message)
"""Every kind of message."""

EVENTS: tuple[type[RunEvent], ...] = get_args(RunEvent)
"""Every kind of event."""
