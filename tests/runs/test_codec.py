"""Entries as bytes: what another replica reads is what its own shows, and what an older version wrote can be read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chat import (
    AssistantMessage,
    ChatEvents,
    ChatResponse,
    FinishReason,
    GatewayError,
    ModelError,
    ModelRateLimited,
    ModelUnavailable,
    ReasoningDelta,
    Round,
    RoundCompleted,
    RoundStarted,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolCallArguments,
    ToolCallErrored,
    ToolCallLimitExceeded,
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
from app.chat.storing import StoredValueInvalid
from app.runs import Entry, EventsGone, LocalRun, RunCancelled, RunCompleted, RunEvent, RunFailed, RunLost, RunStarted
from app.runs.codec import FaultElsewhere, decode, encode
from app.web.answers import answer_document
from app.web.errors import problem_of
from app.web.events import Projection
from app.web.sse import FRAME
from tests.support import values
from tests.support.ids import shown

GOLDEN = Path(__file__).with_name("stored_entries.jsonl")
"""Entries as they are stored, a line each. A line that has to change takes a migration of what is stored."""

CALL = ToolCall("call_1", "look", '{"where":"here"}', {"kind": "signature"})
USED = Usage(1, 2, 3, 4, 5)
ANSWER = ChatResponse(
    AssistantMessage("Yes.", (CALL,), "Hm.", "Or no.", {"id": 7}),
    FinishReason.LENGTH,
    USED,
    "model",
    "answer_1",
    (Round(FinishReason.TOOL_CALLS, USED, "one"),),
    (ToolRun(1, "call_1", "look", "{}", "found", None, 1.5), ToolRun(1, "call_2", "look", "{}", None, "lost", 2.5)),
    (
        SystemMessage("Be brief."),
        UserMessage("Is it?"),
        ToolMessage((ToolResult("call_1", "look", "found", is_error=True),)),
    ),
    {"limit": [1, None]},
)
FAILURE = ModelRateLimited("too often\n", status=429, code="slow_down", retry_after=1.5)
SAMPLES: list[tuple[int | None, RunEvent]] = [
    (None, RunStarted()),
    (1, RoundStarted(1)),
    (1, TextDelta("é\n\u2028😀")),
    (1, ReasoningDelta("Hm.")),
    (1, ToolCallStarted("call_1", "look")),
    (1, ToolCallArguments("call_1", "look", '{"where":')),
    (1, ToolCallReady(CALL)),
    (1, ToolCallProgress("call_1", "look", "half", 1, 2.5, {"deep": [True, None]})),
    (1, ToolCallSucceeded("call_1", "look", "found", 1.5)),
    (1, ToolCallErrored("call_1", "look", "lost", 2.5)),
    (1, RoundCompleted(1, FinishReason.TOOL_CALLS, USED, "one")),
    (2, RunCompleted(ANSWER)),
    (2, RunCancelled(ANSWER)),
    (2, RunFailed(FAILURE)),
    (2, RunFailed(RunLost("gone"))),
    (2, RunFailed(KeyError("a secret"))),
]
"""One of each kind, with no field at its default."""


def subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    """A class and all below it that are ours."""
    if cls.__module__.startswith("app."):
        yield cls
    for below in cls.__subclasses__():
        yield from subclasses(below)


def raised(cls: type[GatewayError]) -> GatewayError:
    """An error of a class."""
    if issubclass(cls, ModelError):
        return cls("no\nluck", status=418, code="teapot", retry_after=7.5)
    if issubclass(cls, ToolCallLimitExceeded):
        return cls("enough", kind="rounds", limit=3)
    return cls("no\nluck")


async def nothing() -> ChatEvents:
    """The events of a run that is never begun."""
    yield TextDelta("never")


RUN = LocalRun(nothing(), run_id="run_1", request_id="req_1")


def on_the_wire(entry: Entry) -> bytes:
    """What readers are sent."""
    project = Projection(RUN, partial(answer_document, run_id="run_1", conversation_id=None, model="model"))
    return FRAME % (entry.seq, *project(entry))


def failure(entry: Entry) -> Exception:
    """What an entry tells of."""
    assert isinstance(entry.event, RunFailed)
    return entry.event.error


# --- what comes back


@pytest.mark.parametrize("kind", values.events, ids=lambda kind: str(kind.__name__))
@settings(max_examples=30)
@given(data=st.data(), round_=st.none() | st.integers(1, 99), seq=st.integers(1, 2**40))
def test_every_event_comes_back_as_it_was(
    kind: type[RunEvent], data: st.DataObject, round_: int | None, seq: int
) -> None:
    event = data.draw(values.events[kind])

    stored = encode(round_, event)

    assert decode(seq, stored) == Entry(seq, round_, event)
    assert b"\n" not in stored, "entries are separated by line ends"
    assert on_the_wire(decode(seq, stored)) == on_the_wire(Entry(seq, round_, event))


def test_every_kind_of_event_is_among_them() -> None:
    assert {*values.events, RunFailed} == set(values.EVENTS)


@pytest.mark.parametrize(
    "data", [math.nan, [math.inf], b"bytes \xff", {"a": {1}}, (1, (2,)), range(3), {1: None}, object()], ids=shown
)
def test_what_has_no_json_form_is_told_as_it_is_where_it_was_handed_over(data: Any) -> None:
    entry = Entry(1, 1, ToolCallProgress("call_1", "look", data=data))

    assert on_the_wire(decode(1, encode(1, entry.event))) == on_the_wire(entry)


def test_what_cannot_be_written_at_all_is_a_failure_in_its_place(caplog: pytest.LogCaptureFixture) -> None:
    endless: list[Any] = []
    endless.append(endless)

    entry = decode(3, encode(1, ToolCallProgress("call_1", "look", data=endless)))

    assert (entry.seq, entry.round, type(failure(entry))) == (3, 1, FaultElsewhere)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


# --- failures


ENDING = sorted({*subclasses(GatewayError)} - {EventsGone}, key=attrgetter("__name__"))
"""Errors that runs can end with: that events are gone is told to readers."""


@pytest.mark.parametrize("cls", ENDING)
def test_every_error_of_ours_gives_the_same_problem_afterwards(cls: type[GatewayError]) -> None:
    error = raised(cls)

    again = failure(decode(1, encode(None, RunFailed(error))))

    assert (type(again), str(again)) == (cls, str(error))
    assert problem_of(again, "req_1").document() == problem_of(error, "req_1").document()
    assert problem_of(again, "req_1").headers == problem_of(error, "req_1").headers


@pytest.mark.parametrize(
    "told", [{}, {"status": 503}, {"code": "tired"}, {"retry_after": math.inf}, {"retry_after": 0}]
)
def test_what_a_model_server_told_gives_the_same_problem_afterwards(told: dict[str, Any]) -> None:
    error = ModelUnavailable("down", usage=USED, **told)

    again = failure(decode(1, encode(1, RunFailed(error))))

    assert problem_of(again, "req_1").document() == problem_of(error, "req_1").document()


def test_an_error_that_only_its_writer_knows_is_told_as_the_one_that_it_is_one_of() -> None:
    stored = encode(1, RunFailed(FAILURE)).replace(b'"ModelRateLimited"', b'"TooManyCooks"', 1)
    own = stored.replace(b'"bases":[', b'"bases":["ModelRateLimited",')

    assert isinstance(failure(decode(1, own)), ModelRateLimited)
    assert type(failure(decode(1, stored))) is ModelError
    assert isinstance(failure(decode(1, stored.replace(b'"bases"', b'"no_bases"'))), FaultElsewhere)


def test_an_error_of_an_operators_own_keeps_its_name_where_it_is_known() -> None:
    class OutOfOffice(ModelUnavailable):
        def __init__(self) -> None:
            super().__init__("back on Monday", code="away")

    again = failure(decode(1, encode(1, RunFailed(OutOfOffice()))))

    assert isinstance(again, OutOfOffice)
    assert problem_of(again, "req_1").document() == problem_of(OutOfOffice(), "req_1").document()


def test_a_fault_of_ours_is_told_without_what_it_was() -> None:
    stored = encode(1, RunFailed(KeyError("a secret")))

    assert b"secret" not in stored
    assert problem_of(failure(decode(1, stored)), "req_1").document()["type"] == "urn:advisor-gateway:internal"


# --- what is stored


def test_what_is_stored_is_what_earlier_versions_have_stored() -> None:
    stored = [encode(*sample).decode() for sample in SAMPLES]

    assert stored == GOLDEN.read_text(encoding="utf-8").split("\n")[:-1]


def test_what_earlier_versions_have_stored_can_be_read() -> None:
    lines = GOLDEN.read_bytes().split(b"\n")[:-1]
    entries = [decode(seq, line) for seq, line in enumerate(lines, 1)]

    for seq, (entry, (round_, event)) in enumerate(zip(entries, SAMPLES, strict=True), 1):
        if isinstance(event, RunFailed):
            expected = problem_of(event.error, "req_1").document()
            assert (entry.seq, entry.round) == (seq, round_)
            assert problem_of(failure(entry), "req_1").document() == expected
        else:
            assert entry == Entry(seq, round_, event)


def test_every_kind_and_every_field_is_in_what_is_held_to_that() -> None:
    seen: dict[type[Any], set[str]] = {}

    def look(value: Any) -> None:
        if isinstance(value, list | tuple):
            for item in value:
                look(item)
        if is_dataclass(value) and not isinstance(value, type):
            filled = seen.setdefault(type(value), set())
            for field in fields(value):
                item = getattr(value, field.name)
                if item not in (None, (), {}, False, 0.0) or isinstance(item, Enum):
                    filled.add(field.name)
                look(item)

    look([event for _, event in SAMPLES])

    assert set(values.EVENTS) | set(values.MESSAGES) <= set(seen)
    assert {kind: {field.name for field in fields(kind)} for kind in seen} == seen


def test_fields_of_a_later_version_are_passed_over() -> None:
    [round_, data] = json.loads(encode(1, ToolCallReady(CALL)))
    data["since"] = "tomorrow"
    data["call"]["priority"] = 3

    assert decode(1, json.dumps([round_, data]).encode()) == Entry(1, 1, ToolCallReady(CALL))


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"null",
        b"{}",
        b"[1]",
        b"[1,2,3]",
        b"[1,null]",
        b"[1,[]]",
        b'[1,{"kind":"Letter"}]',
        b'[1,{"text":"Hi"}]',
        b'[1,{"kind":"TextDelta"}]',
        b'[1,{"kind":"UserMessage","content":"Hi"}]',
        b'[1,{"kind":"RunFailed"}]',
        b'[1,{"kind":"RunFailed","error":"no"}]',
        b'[1,{"kind":"RunFailed","error":{"kind":"ModelError"}}]',
        b"\xff\xfe",
        b'[1,{"kind":"TextDelta","text":"Hi"}',
    ],
)
def test_what_is_no_entry_is_refused(stored: bytes) -> None:
    with pytest.raises(StoredValueInvalid):
        decode(1, stored)
