"""Bodies that model servers answer with, one a quirk, each with the one answer or error that is in it.

Read by the reader alone and by a whole gateway. A folder of further ones may be named by `TEST_STREAMS`:
`NAME.sse` holds a body, `NAME.expected.json` what is to come of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.chat import Usage
from tests.support.chunks import USAGE, call, calls, chunk, completion, event, stream, text_stream, usage_chunk

UNKNOWN = Usage()
COUNTED = Usage(input_tokens=21, output_tokens=4, total_tokens=25)
FOLDER = os.environ.get("TEST_STREAMS")
_KINDS = {"not_sse": "not_a_completion"}
"""Kinds of error that have another name here."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that an answer holds, or is.

    Attributes:
        kind: the end of the problem's type; None where any error of the model server's own will do.
        code: the problem's code.
        said: stands in the detail.
    """

    kind: str | None = "model-protocol-error"
    code: str | None = None
    said: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    """A body and what is in it. With a failure, the rest says what could be read before it.

    Attributes:
        calls: name, arguments and id of each; an id of None is to be made.
        runnable: whether the calls may be run.
        places: where the network cut it.
    """

    name: str
    data: bytes
    faults: Sequence[str] = ()
    content: str = ""
    reasoning: str | None = None
    refusal: str | None = None
    calls: Sequence[tuple[str, str, str | None]] = ()
    runnable: bool = True
    finish: str = "stop"
    usage: Usage = UNKNOWN
    failure: Failure | None = None
    content_type: str = "text/event-stream"
    places: Sequence[int] = ()

    @property
    def executable(self) -> list[tuple[str, Any]]:
        """Name and arguments of the calls that a tool loop runs."""
        runs = self.runnable and self.failure is None and self.finish == "tool_calls"
        return [(name, value_of(arguments)) for name, arguments, _ in self.calls] if runs else []


def value_of(arguments: str) -> Any:
    """Arguments to be compared: as JSON where they are."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def parameters(bodies: Sequence[Body]) -> list[Any]:
    """The bodies as parameters of a test, with their names and the faults they stand for."""
    return [pytest.param(one, id=one.name, marks=[pytest.mark.fault(*one.faults)] * bool(one.faults)) for one in bodies]


def from_elsewhere() -> list[Body]:
    """The bodies of the folder that `TEST_STREAMS` names."""
    return [_read(path) for path in sorted(Path(FOLDER).glob("*.sse"))] if FOLDER else []


def _read(path: Path) -> Body:
    expected = json.loads(path.with_name(f"{path.stem}.expected.json").read_text(encoding="utf-8"))
    error, usage, meta = expected["error"], expected["usage"] or {}, expected["meta"]
    failure = None
    if error and error["kind"] == "upstream_error":
        failure = Failure(None, str(error["code"]) if "code" in error else None, error["message"])
    elif error:
        failure = Failure(code=_KINDS.get(error["kind"], error["kind"]))
    return Body(
        path.stem,
        path.read_bytes(),
        content=expected["content"] or "",
        reasoning=expected["reasoning"],
        refusal=expected["refusal"],
        calls=[(one["name"], one["arguments"], one["id"]) for one in expected["tool_calls"]],
        runnable=meta["tools_executable"],
        finish=expected["finish_reason"] or "",
        usage=Usage(*(usage.get(f"{kind}_tokens") for kind in ("prompt", "completion", "total"))),
        failure=failure,
        content_type=meta["http"]["content_type"],
        places=meta["splits"] or (),
    )


def _says(text: str, *more: Any, finish: str | None = "stop") -> list[Any]:
    return [chunk({"role": "assistant", "content": text}), *more, chunk(finish=finish)]


def _asks(name: str, *fragments: dict[str, Any], made: Sequence[tuple[str, str, str | None]], fault: str) -> Body:
    data = stream(*(calls(fragment) for fragment in fragments), chunk(finish="tool_calls"))
    return Body(name, data, (fault,), calls=made, finish="tool_calls")


def _cut(name: str, data: bytes, fault: str, content: str = "", **told: Any) -> Body:
    return Body(name, data, (fault,), content, failure=Failure(code="truncated"), **told)


_LIFT = "The lift is out of order."
_EIGHT = ("clock", '{"zone":"CET"}', "c8")
_PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Which exit?"}]},
    {"type": "text", "text": "North."},
]
_SPREAD = json.dumps(chunk({"content": _LIFT}), indent=1).replace("\n", "\ndata: ").encode()

STREAMS: Sequence[Body] = (
    Body("as it should be", text_stream("The lift ", "is out ", "of order."), (), _LIFT, usage=COUNTED),
    Body("an empty answer with a reason", stream(chunk({"content": ""}), chunk(finish="stop"))),
    Body("two choices", stream(*_says(_LIFT, chunk({"content": "other"}, index=1))), (), _LIFT),
    Body("cut by the token limit", stream(*_says(_LIFT, finish="length")), (), _LIFT, finish="length"),
    Body("a refusal", stream(chunk({"refusal": "Not that."}), chunk(finish="stop")), refusal="Not that."),
    _asks(
        "other ids at one index",
        call("clock", '{"zone":"CET"}', call_id="c8"),
        call("tram", '{"line":3}', call_id="c9"),
        made=[_EIGHT, ("tram", '{"line":3}', "c9")],
        fault="U02",
    ),
    _asks(
        "indexes that are no positions",
        call("clock", '{"zone":"CET"}', call_id="c8", index=-1),
        call("tram", "{}", call_id="c9", index=7),
        made=[_EIGHT, ("tram", "{}", "c9")],
        fault="U03",
    ),
    Body(
        "two fragments of one call in one chunk",
        stream(calls(call("clock", '{"zo', call_id="c8"), call(None, 'ne":"CET"}')), chunk(finish="tool_calls")),
        ("U04",),
        calls=[_EIGHT],
        finish="tool_calls",
    ),
    _asks(
        "empty ids on continuations",
        call("clock", '{"zone":', call_id="c8"),
        call("", '"CET"}', call_id=""),
        made=[_EIGHT],
        fault="U05",
    ),
    _asks(
        "id and name on every fragment",
        call("clock", '{"zone":', call_id="c8"),
        call("clock", '"CET"}', call_id="c8"),
        made=[_EIGHT],
        fault="U06",
    ),
    _asks(
        "neither id nor type",
        call("clock", '{"zone":"CET"}', index=None),
        call("tram", "{}", index=None),
        made=[("clock", '{"zone":"CET"}', None), ("tram", "{}", None)],
        fault="U07",
    ),
    _asks(
        "arguments, then name, then id",
        call(None, '{"zone":'),
        call("clock"),
        call(None, '"CET"}'),
        call(call_id="c8"),
        made=[_EIGHT],
        fault="U09",
    ),
    _asks(
        "arguments as an object", call("clock", {"zone": "CET"}, call_id="c8"), made=[_EIGHT], fault="U11"
    ),
    Body(
        "text around a call",
        stream(
            chunk({"content": "Let me "}),
            calls(call("clock", '{"zone":', call_id="c8")),
            chunk({"content": "look."}),
            calls(call(None, '"CET"}')),
            chunk(finish="tool_calls"),
        ),
        ("U14",),
        "Let me look.",
        calls=[_EIGHT],
        finish="tool_calls",
    ),
    Body(
        "an empty reason on every chunk",
        stream(chunk({"content": "The lift "}, ""), chunk({"content": "is out of order."}, ""), chunk({}, "stop")),
        ("U17",),
        _LIFT,
    ),
    Body("no end mark", stream(*_says(_LIFT), done=False), ("U18",), _LIFT),
    Body("no reason, an end mark", stream(*_says(_LIFT, finish=None)), ("U18",), _LIFT),
    Body("more after the end mark", stream(*_says(_LIFT)) + event(chunk({"content": "ghost"})), ("U18",), _LIFT),
    _cut("half a text", stream(chunk({"content": "The li"}), done=False), "U19", "The li"),
    _cut(
        "half a call",
        stream(calls(call("note", '{"text":"no', call_id="c8")), done=False),
        "U19",
        calls=[("note", '{"text":"no', "c8")],
    ),
    Body(
        "a call cut by the token limit",
        stream(calls(call("note", '{"text":"no', call_id="c8")), chunk(finish="length")),
        ("U20",),
        calls=[("note", '{"text":"no', "c8")],
        finish="length",
    ),
    Body(
        "a cut call that is called whole",
        stream(calls(call("note", '{"text":"no', call_id="c8")), chunk(finish="tool_calls")),
        ("U20",),
        calls=[("note", '{"text":"no', "c8")],
        runnable=False,
        finish="tool_calls",
    ),
    Body(
        "chunks without choices",
        stream({"choices": [], "note": 1}, {"id": "x"}, *_says(_LIFT, {"choices": None})),
        ("U22",),
        _LIFT,
    ),
    Body(
        "null for a delta and for an event",
        stream(chunk({"content": _LIFT}), None, {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}),
        ("U23",),
        _LIFT,
    ),
    Body(
        "running totals of usage, and null at last",
        stream(
            chunk({"content": _LIFT}, usage={"prompt_tokens": 21, "completion_tokens": 1, "total_tokens": 22}),
            chunk(finish="stop", usage=USAGE),
            {"choices": [], "usage": None},
        ),
        ("U24",),
        _LIFT,
        usage=COUNTED,
    ),
    Body("usage and no reason", stream(chunk({"content": _LIFT}), usage_chunk(), done=False), ("U18", "U24"), _LIFT,
         usage=COUNTED),
    Body("no roles", stream(chunk({"content": _LIFT}), chunk(finish="stop")), ("U25",), _LIFT),
    Body("equal neighbours", stream(*[chunk({"content": "ho"})] * 3, chunk(finish="stop")), ("U26",), "hohoho"),
    Body(
        "reasoning apart",
        stream(chunk({"reasoning_content": "Ask the board."}), *_says(_LIFT)),
        ("U27",),
        _LIFT,
        "Ask the board.",
    ),
    Body("reasoning by its other name", stream(chunk({"reasoning": "Hm."}), *_says(_LIFT)), ("U27",), _LIFT, "Hm."),
    Body("content in parts", stream(chunk({"content": _PARTS}), chunk(finish="stop")), ("U28",), "North.",
         "Which exit?"),
    Body(
        "a call written as text",
        stream(*_says('<tool_call>{"name": "clock"}</tool_call>')),
        ("U29",),
        '<tool_call>{"name": "clock"}</tool_call>',
    ),
    Body("CRLF", stream(*_says(_LIFT)).replace(b"\n", b"\r\n"), ("U31",), _LIFT),
    Body("CR", stream(*_says(_LIFT)).replace(b"\n", b"\r"), ("U31",), _LIFT),
    Body("no blank line at the end", stream(*_says(_LIFT), done=False).rstrip(), ("U31",), _LIFT),
    Body(
        "keep-alives of every kind",
        stream(b": hi\n\n", b"data: : hi\n\n", b"event: ping\ndata: now\n\n", b"data:\n\n", *_says(_LIFT, b"\n\n")),
        ("U32",),
        _LIFT,
    ),
    Body("a byte order mark, and many lines", b"\xef\xbb\xbfdata: " + _SPREAD + b"\n\n" + stream(chunk(finish="stop")),
         ("U33",), _LIFT),
    Body(
        "line ends that are none, and characters of many bytes",
        stream(
            b"data: " + json.dumps(chunk({"content": "a\u2028b\u0085東京🚋"}), ensure_ascii=False).encode() + b"\n\n",
            chunk(finish="stop"),
        ),
        ("U34", "U35"),
        "a\u2028b\u0085東京🚋",
    ),
    Body(
        "a character in two halves, and half a one",
        stream(
            *(b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % half for half in (rb"\ud83d", rb"\ude8b \ud83d")),
            chunk(finish="stop"),
        ),
        ("U36",),
        "🚋 \ufffd",
    ),
    Body("one large event", text_stream("x" * 300_000), ("U37",), "x" * 300_000, usage=COUNTED),
    Body(
        "an error at once",
        stream({"error": {"message": "used up", "type": "rate_limit_exceeded", "code": 429}}),
        ("U38",),
        failure=Failure("model-rate-limited", "429", "used up"),
    ),
    Body(
        "an error after text",
        stream(chunk({"content": "The li"}), {"error": "engine lost"}),
        ("U38",),
        "The li",
        failure=Failure("model-unavailable", None, "engine lost"),
    ),
    Body(
        "an error within a call",
        stream(calls(call("note", '{"te', call_id="c8")), {"error": {"message": "restarted", "code": 500}}),
        ("U38",),
        calls=[("note", '{"te', "c8")],
        failure=Failure("model-unavailable", "500", "restarted"),
    ),
    Body(
        "an event named error",
        stream(b'event: error\ndata: {"message":"hot","code":"overheated"}\n\n', done=False),
        ("U38",),
        failure=Failure("model-unavailable", "overheated", "hot"),
    ),
    Body("an end mark alone", stream(), ("U40",), failure=Failure(code="empty")),
    Body("not a byte", b"", ("U40",), failure=Failure(code="empty")),
    Body("a plain sentence", b"Back at noon.\n", ("U41",), content_type="text/plain",
         failure=Failure(code="not_a_completion", said="Back at noon.")),
    Body("a chunk that is no JSON", stream(chunk({"content": "The li"}), b"data: {oops\n\n"), (), "The li",
         failure=Failure(code="malformed")),
)  # fmt: skip
"""Streams, and what comes in the place of one."""


def _whole(name: str, message: Any, *faults: str, finish: str | None = "stop", fields: Any = None, **told: Any) -> Body:
    data = completion(message, finish, **fields or {})
    return Body(name, data, faults, finish=finish or "stop", content_type="application/json", **told)


def _json(name: str, data: Any, *faults: str, content_type: str = "application/json", **told: Any) -> Body:
    return Body(name, data if isinstance(data, bytes) else json.dumps(data).encode(), faults,
                content_type=content_type, **told)  # fmt: skip


COMPLETIONS: Sequence[Body] = (
    _whole("a completion as it should be", _LIFT, content=_LIFT, usage=COUNTED),
    _whole("a completion under a stream's label", _LIFT, "U42", content=_LIFT, usage=COUNTED),
    _whole("null content and usage", {"content": None}, fields={"usage": None}),
    _whole("a completion without a reason", _LIFT, "U18", finish=None, content=_LIFT, usage=COUNTED),
    _whole("a completion cut by the limit", _LIFT, finish="length", content=_LIFT, usage=COUNTED),
    _whole(
        "object arguments in a completion",
        {"content": None, "tool_calls": [call("clock", {"zone": "CET"}, call_id="c8")]},
        "U11",
        finish="tool_calls",
        calls=[_EIGHT],
        usage=COUNTED,
    ),
    _whole(
        "no ids and one index in a completion",
        {"tool_calls": [call("clock", '{"zone":"CET"}'), call("clock", '{"zone":"CET"}')]},
        "U02",
        "U07",
        finish="tool_calls",
        calls=[("clock", '{"zone":"CET"}', None)] * 2,
        usage=COUNTED,
    ),
    _json(
        "calls under another reason",
        completion({"content": "", "tool_calls": [call("clock", '{"zone":"CET"}', call_id="c8")]}),
        calls=[_EIGHT],
        finish="tool_calls",
        usage=COUNTED,
    ),
    _whole(
        "a cut call in a completion",
        {"tool_calls": [call("note", '{"text":"no', call_id="c8")]},
        "U20",
        finish="length",
        calls=[("note", '{"text":"no', "c8")],
        usage=COUNTED,
    ),
    _whole("content in parts of a completion", {"content": _PARTS}, "U28", content="North.", reasoning="Which exit?",
           usage=COUNTED),
    _whole("reasoning of a completion", {"content": _LIFT, "reasoning": "Hm."}, "U27", content=_LIFT, reasoning="Hm.",
           usage=COUNTED),
    _whole("a refusal of a completion", {"content": None, "refusal": "Not that."}, refusal="Not that.", usage=COUNTED),
    _json("half a surrogate", rb'{"choices":[{"message":{"content":"lone \ud83d"},"finish_reason":"stop"}]}', "U36",
          content="lone \ufffd"),
    _json("an error in a 200", {"error": {"message": "out of memory", "code": 500}}, "U38", "U42",
          failure=Failure("model-unavailable", "500", "out of memory")),
    _json("an error in a list", [{"error": {"message": "bad key", "code": "invalid_api_key"}}], "U38",
          failure=Failure(None, "invalid_api_key", "bad key")),
    _json("half a completion", completion(_LIFT)[:-20], "U19", failure=Failure(code="truncated")),
    _json("a broken completion", b'{"choices": [}', failure=Failure(code="malformed")),
    _json("no choices", {"choices": []}, "U40", failure=Failure(code="empty")),
    _json("an empty body", b"", "U40", failure=Failure(code="empty")),
    _json("another document", {"status": "ok"}, "U41", failure=Failure(code="not_a_completion")),
    _json("a web page", b"<html><title>Sign in</title></html>", "U41", content_type="text/html",
          failure=Failure(code="not_a_completion", said="Sign in")),
)  # fmt: skip
"""Answers in one piece, and what comes in the place of one."""


def all_bodies() -> Iterator[Body]:
    """Every body there is: of the tests, and of the folder."""
    yield from STREAMS
    yield from COMPLETIONS
    yield from from_elsewhere()
