"""A long story, told slowly, with a tool in the middle: a run to be followed over a bad line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from app.tooling import ToolContext, tool
from tests.support.chunks import DONE, call, calls, chunk, completion, event, usage_chunk
from tests.support.model_server import Answer, Exchange

PACE = 0.085
"""Seconds between two pieces, usually."""
BEFORE, AFTER = (
    [f"{number}: é, 中文, 🌍🏽,\n\ndata: not a field\r\n" for number in numbers]
    for numbers in (range(1, 21), range(21, 61))
)
"""What is said before the tool and after it, piece by piece."""
CALL = call("look_up", '{"what": "the rest"}', call_id="call-1")
KEPT_BACK = 5
"""Pieces that are not told before the test says so."""


@tool
async def look_up(what: str, context: ToolContext) -> str:
    """Look something up, which takes a while."""
    for current in range(1, 4):
        context.progress(what, current=current, total=3)
        await asyncio.sleep(PACE)
    return f"{what}: found"


class Storyteller:
    """Makes the answers of a `ModelServer`: piece by piece, or in one where that is asked for.

    Args:
        pace: seconds between two pieces.

    Attributes:
        may_end: to be set for the end to be told.
    """

    def __init__(self, pace: float = PACE) -> None:
        self.may_end = asyncio.Event()
        self._pace = pace

    def __call__(self, exchange: Exchange) -> Answer:
        """The answer to a request."""
        begins = exchange.body["messages"][-1]["role"] == "user"
        if exchange.body.get("stream"):
            said = self._asking() if begins else self._ending()
            return Answer(event(chunk({"role": "assistant", "content": ""})), *said)
        if begins:
            message = {"role": "assistant", "content": "".join(BEFORE), "tool_calls": [CALL]}
            return Answer(completion(message, "tool_calls"), content_type="application/json")
        return Answer(self.may_end, completion("".join(AFTER)), content_type="application/json")

    def _asking(self) -> Iterator[bytes | asyncio.Event]:
        yield from self._paced(BEFORE)
        yield event(calls(CALL))
        yield _end("tool_calls")

    def _ending(self) -> Iterator[bytes | asyncio.Event]:
        yield from self._paced(AFTER[:-KEPT_BACK])
        yield self.may_end
        yield from map(_said, AFTER[-KEPT_BACK:])
        yield _end("stop")

    def _paced(self, pieces: Sequence[str]) -> Iterator[bytes | asyncio.Event]:
        loop = asyncio.get_running_loop()
        for number, piece in enumerate(pieces, 1):
            due = asyncio.Event()
            loop.call_later(number * self._pace, due.set)
            yield due
            yield _said(piece)


def _end(reason: str) -> bytes:
    return event(chunk(finish=reason)) + event(usage_chunk()) + DONE


def _said(piece: str) -> bytes:
    return event(chunk({"content": piece}))
