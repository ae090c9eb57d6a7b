"""Reads answers, and sees to it that they are whole: every kind of server has its own form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from benchmarks.speed.exchange import Response
from benchmarks.speed.replies import RESULT, TOKEN, arguments, text, token
from benchmarks.speed.wrong import Wrong

_STAMPED = re.compile(TOKEN.pattern.encode())
_BLANK = re.compile(rb"\r?\n\r?\n")
_EVENT = re.compile(rb"id: (\d+)\nevent: ([a-z_.]+)\ndata: (.*)")
_DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Expected:
    """What the model server was told to say.

    Attributes:
        tokens: of the text.
        rounds: of tools before it.
        paced: tokens come one at a time, and say when they were written; or all at once, numbered.
    """

    tokens: int
    rounds: int
    paced: bool

    def check_text(self, said: str) -> None:
        """See to it that a text is the right one.

        Raises:
            Wrong: it is not.
        """
        if not self.paced:
            if said != text(self.tokens):
                raise Wrong(f"not the text that the model server wrote: {said[:200]!r}")
            return
        numbers = [int(number) for number in TOKEN.findall(said)]
        if len(numbers) != self.tokens or said != "".join(token(number).decode() for number in numbers):
            raise Wrong(f"{len(numbers)} tokens in place of {self.tokens}: {said[:200]!r}")
        if any(before > after for before, after in pairwise(numbers)):
            raise Wrong("tokens came in another order than they were written in")


def delays_of(response: Response) -> list[int]:
    """Microseconds from the moment a token was written to the one at which all of it was read; by token.

    Only the first time that a token is seen counts: the end of a stream may tell the whole text again.
    """
    seen: dict[int, int] = {}
    for one in _STAMPED.finditer(response.body):
        seen.setdefault(int(one[1]), one.end() - 1)
    return [response.read_at(place) // 1000 - number for number, place in seen.items()]


def gateway_answer(body: bytes, expected: Expected) -> None:
    """Check the gateway's answer to `/chat`."""
    _check_document(json.loads(body), expected)


def gateway_stream(body: bytes, expected: Expected) -> None:
    """Check the gateway's events: their numbers, their names in order, and what they say together."""
    events = [_gateway_event(block) for block in body.split(b"\n\n")[:-1] if not block.startswith(b":")]
    if [number for number, _, _ in events] != list(range(1, len(events) + 1)):
        raise Wrong("the numbers of the events have gaps")
    names = [name for _, name, _ in events if name != "tool_call.arguments"]
    if names != _names(expected):
        raise Wrong(f"events came in another order: {[*dict.fromkeys(names)]}, {len(names)} in all")
    if len({data["run_id"] for _, _, data in events}) != 1:
        raise Wrong("events of several runs")
    for round_ in range(expected.rounds):
        mine = [(name, data) for _, name, data in events if data.get("round") == round_ + 1]
        written = "".join(data["text"] for name, data in mine if name == "tool_call.arguments")
        ready = next(data["arguments"] for name, data in mine if name == "tool_call.ready")
        if not written == ready == arguments(round_):
            raise Wrong(f"the arguments of round {round_ + 1} are {written!r} and {ready!r}")
    answer = events[-1][2]
    if "".join(data["text"] for _, name, data in events if name == "text.delta") != answer["content"]:
        raise Wrong("the pieces of the text are not the answer's")
    _check_document(answer, expected)


def _gateway_event(block: bytes) -> tuple[int, str, dict[str, Any]]:
    parts = _EVENT.fullmatch(block)
    if parts is None:
        raise Wrong(f"no event: {block[:200]!r}")
    return int(parts[1]), parts[2].decode(), json.loads(parts[3])


def _names(expected: Expected) -> list[str]:
    call = ["round.started", "tool_call.started", "tool_call.ready", "tool_call.result", "round.completed"]
    said = ["round.started", *["text.delta"] * expected.tokens, "round.completed"]
    return ["run.started", *call * expected.rounds, *said, "run.completed"]


def _check_document(answer: Mapping[str, Any], expected: Expected) -> None:
    if answer["finish_reason"] != "stop":
        raise Wrong(f"ended by {answer['finish_reason']}")
    runs = [(run["arguments"], run.get("result")) for run in answer["tool_runs"]]
    if runs != [(arguments(round_), RESULT) for round_ in range(expected.rounds)]:
        raise Wrong(f"ran {answer['tool_runs']}")
    expected.check_text(answer["content"])


def plain_answer(body: bytes, expected: Expected) -> None:
    """Check the answer of a peer's `/chat`."""
    expected.check_text(json.loads(body)["answer"])


def plain_stream(body: bytes, expected: Expected) -> None:
    """Check the events of a peer's `/chat/stream`: a delta for each token, and the end."""
    _check_pieces([json.loads(data)["delta"] for data in _data_before_the_end(body)], expected)


def completion(body: bytes, expected: Expected) -> None:
    """Check a completion as the model server writes it."""
    expected.check_text(json.loads(body)["choices"][0]["message"]["content"])


def completion_stream(body: bytes, expected: Expected) -> None:
    """Check chunks as the model server writes them."""
    chunks = [json.loads(data) for data in _data_before_the_end(body)]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    _check_pieces([delta["content"] for delta in deltas if delta.get("content")], expected)


def _check_pieces(pieces: Sequence[str], expected: Expected) -> None:
    if len(pieces) != expected.tokens:
        raise Wrong(f"{len(pieces)} events with text in place of {expected.tokens}")
    expected.check_text("".join(pieces))


def _data_before_the_end(body: bytes) -> list[str]:
    """The data of the events, without the last one, which must say that it is."""
    lines = [line for block in _BLANK.split(body) for line in block.decode().splitlines()]
    found = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    if not found or found[-1] != _DONE:
        raise Wrong(f"the stream does not say its end: {found[-1:]}")
    return found[:-1]


CHECKS: Mapping[str, Callable[[bytes, Expected], None]] = MappingProxyType(
    {
        check.__name__: check
        for check in (gateway_answer, gateway_stream, plain_answer, plain_stream, completion, completion_stream)
    }
)
"""The checks by their names: load is made by another process."""
