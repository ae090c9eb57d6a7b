"""What a model server answers in a trial: right, or wrong in one of many ways, drawn anew for every request."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.support.chunks import DONE, USAGE, call, calls, chunk, completion, event, stream, usage_chunk
from tests.support.model_server import BREAK, HANG, Answer, Exchange

TOOL = "note"
TEXT = 0.5
"""Share of the right first answers that are text; the others call the tool."""
_BEGINNING = "Run "


def question(run: int) -> str:
    """What the caller of a run asks."""
    return f"{_BEGINNING}{run}"


def right_answer(run: int) -> str:
    """What the run must answer, if it answers: nobody else's words, and all of them."""
    return " ".join(f"{run}-{word}" for word in range(12))


class FailingServer:
    """Answers for `ModelServer.always`, drawn by run and attempt: the same seed gives each run the same luck.

    Args:
        seed: of the draw.
        share: how many of the answers are wrong, from 0 to 1.

    Attributes:
        drawn: how often each kind of answer was given.
        wrong: by run, the wrong answers it was given.
    """

    def __init__(self, seed: int, share: float) -> None:
        self.drawn: Counter[str] = Counter()
        self.wrong: defaultdict[int, list[str]] = defaultdict(list)
        self._seed = seed
        self._share = share
        self._attempts: Counter[int] = Counter()

    def __call__(self, exchange: Exchange) -> Answer:
        """The answer to a request."""
        body = exchange.body
        run = int(next(one["content"] for one in body["messages"] if one["role"] == "user").removeprefix(_BEGINNING))
        self._attempts[run] += 1
        chance = random.Random(f"{self._seed}/{run}/{self._attempts[run]}")
        is_second_round = body["messages"][-1]["role"] == "tool"
        if chance.random() < self._share:
            kind = chance.choice(list(FAILURES))
            self.wrong[run].append(kind)
            answer = _failure(kind, run)
        elif is_second_round or chance.random() < TEXT:
            kind = "text" if body["stream"] else "whole text"
            answer = _text(run) if body["stream"] else Answer.json(completion(right_answer(run)))
        else:
            kind = "call" if body["stream"] else "whole call"
            answer = _call(run, whole=not body["stream"])
        self.drawn[kind] += 1
        return answer


def _pieces(run: int) -> list[bytes]:
    words = right_answer(run).split(" ")
    return [event(chunk({"content": word if place == 0 else f" {word}"})) for place, word in enumerate(words)]


def _text(run: int) -> Answer:
    return Answer(*_pieces(run), event(chunk(finish="stop")), event(usage_chunk()), DONE)


def _call(run: int, *, whole: bool) -> Answer:
    arguments = json.dumps({"run": run})
    if whole:
        asked = [call(TOOL, arguments, call_id=f"c{run}")]
        return Answer.json(completion({"content": None, "tool_calls": asked}, "tool_calls"))
    head = calls(call(TOOL, "", call_id=f"c{run}"))
    pieces = [calls(call(None, arguments[at : at + 3])) for at in range(0, len(arguments), 3)]
    return Answer(*map(event, [head, *pieces, chunk(finish="tool_calls", usage=USAGE)]), DONE)


def _failed(status: int, **headers: str) -> Answer:
    return Answer.json({"error": {"message": f"a failure of {status}", "code": f"f{status}"}}, status, **headers)


def _failure(kind: str, run: int) -> Answer:
    half = _pieces(run)[:6]
    given = FAILURES[kind]
    if isinstance(given, int):
        return _failed(given, **({"Retry_After": "0.05"} if given == 429 else {}))  # noqa: PLR2004 - an HTTP status
    steps: list[Any] = []
    for step in given:
        steps.extend(half if step == "half" else [step])
    page = kind == "a web page"
    return Answer(*steps, content_type="text/html" if page else "text/event-stream")


_HALF_A_CALL = event(calls(call(TOOL, '{"run": 1', call_id="cut")))
FAILURES: Mapping[str, int | tuple[Any, ...]] = MappingProxyType(
    {
        **{f"status {status}": status for status in (400, 401, 404, 408, 422, 429, 500, 502, 503)},
        "no answer at all": (BREAK,),
        "silence before the head": (HANG,),
        "silence after the head": (b"", HANG),
        "silence within text": ("half", HANG),
        "keep-alives, then silence": (b": here\n\n", b"data: : here\n\n", HANG),
        "a break within text": ("half", BREAK),
        "a break within a call": (_HALF_A_CALL, BREAK),
        "an end within text": ("half",),
        "an end within a call": (_HALF_A_CALL,),
        "a broken chunk": ("half", b"data: {oops\n\n", DONE),
        "a delta that is none": ("half", event(chunk(7)), DONE),
        "an error at once": (event({"error": {"message": "engine lost", "code": 500}}), DONE),
        "an error within text": ("half", event({"error": {"message": "engine lost", "code": 500}}), DONE),
        "an error within a call": (_HALF_A_CALL, b'event: error\ndata: {"message": "engine lost"}\n\n'),
        "nothing": (b"",),
        "an end mark alone": (DONE,),
        "a web page": (b"<html><title>Sign in</title></html>",),
        "half a body": (completion("never read whole")[:-30],),
        "another document": (b'{"status": "ok"}',),
        "a call without a name": (stream(calls(call(None, "{}", call_id="x")), chunk(finish="tool_calls")),),
        "an endless event": (b"data: " + b"x" * 70_000, HANG),
    }
)
"""The ways to fail: a status, or the steps of an answer, `half` standing for half of the right text."""
