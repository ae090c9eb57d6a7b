"""What is ordered of the callers, and what they have seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.speed.answers import CHECKS, Expected, delays_of
from benchmarks.speed.exchange import Exchange, Response
from benchmarks.speed.figures import percentile
from benchmarks.speed.wrong import Wrong

_BLANK = re.compile(rb"\r?\n\r?\n")
_TOLD = 3
"""Wrong answers that are told, each in so many characters."""
_LONGEST = 300
_MARKS = ("whole", "first_byte", "first_event", "first_token")


@dataclass(frozen=True, slots=True)
class Order:
    """What to ask, how often, and what must come.

    Attributes:
        port: on loopback.
        path: what is posted to.
        bodies: what is posted, again and again; dealt out to the connections where there are several.
        check: the name of the check, of `CHECKS`.
        tokens: see `Expected`, as with the two that follow.
        rounds: see `Expected`.
        paced: see `Expected`.
        connections: on which is asked at a time.
        seconds: for which new questions are asked.
        least: questions on each connection, whatever the time.
        before: questions on each connection before it begins, so that all there is to set up is there.
        pause: seconds between an answer and the next question on a connection.
        ramp: seconds over which the connections begin.
    """

    port: int
    path: str
    bodies: tuple[str, ...]
    check: str
    tokens: int
    rounds: int
    paced: bool
    connections: int
    seconds: float
    least: int = 1
    before: int = 0
    pause: float = 0.0
    ramp: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What was seen. Times are in milliseconds, by percentile.

    Attributes:
        answers: how many were right.
        wrong: what was wrong with the others, the first few, and how many there were.
        wrong_count: how many there were.
        tokens: in the right answers.
        seconds: from the first question to the last answer.
        whole: from the question to the end of its answer.
        first_byte: to the first byte.
        first_event: to the end of the first event.
        first_token: to the end of the first token.
        delay: of tokens that say when they were written.
    """

    answers: int
    wrong_count: int
    tokens: int
    seconds: float
    wrong: tuple[str, ...] = ()
    whole: dict[str, float] = field(default_factory=dict)
    first_byte: dict[str, float] = field(default_factory=dict)
    first_event: dict[str, float] = field(default_factory=dict)
    first_token: dict[str, float] = field(default_factory=dict)
    delay: dict[str, float] = field(default_factory=dict)


def figures_of(order: Order, exchanges: Sequence[Exchange], wrong: Sequence[str], began: int) -> Figures:
    """Look at answers.

    Args:
        order: what they must be.
        exchanges: what was asked and came.
        wrong: what was wrong beside.
        began: when the first one could be asked.
    """
    expected = Expected(order.tokens, order.rounds, order.paced)
    check = CHECKS[order.check]
    right: set[bytes] = set()
    delays: list[int] = []
    marks: list[tuple[int, ...]] = []
    failures = list(wrong)
    for exchange in exchanges:
        try:
            response = exchange.response()
            if response.body not in right:
                check(response.body, expected)
                right = {response.body}  # servers that pass bytes on give the same again and again
            marks.append(_marks(exchange, response))
            if order.paced:
                delays += delays_of(response)
        except (Wrong, KeyError, IndexError, ValueError) as error:
            failures.append(f"{type(error).__name__}: {error}")
    by_mark = list(zip(*marks, strict=True)) or [()] * len(_MARKS)
    return Figures(
        answers=len(marks),
        wrong_count=len(failures),
        tokens=len(marks) * order.tokens,
        seconds=(max((one.ended for one in exchanges), default=began) - began) / 1e9,
        wrong=tuple(one[:_LONGEST] for one in failures[:_TOLD]),
        **{name: _percentiles(times, 1e6) for name, times in zip(_MARKS, by_mark, strict=True)},
        delay=_percentiles(delays, 1e3),
    )


def _marks(exchange: Exchange, response: Response) -> tuple[int, ...]:
    """Nanoseconds from the question to each of the marks."""
    sent, read_at = exchange.sent, response.read_at
    event, token = _BLANK.search(response.body), response.body.find(b" t0")
    return (
        exchange.ended - sent,
        exchange.reads[0][0] - sent,
        (read_at(event.end() - 1) if event else exchange.ended) - sent,
        (read_at(token + len(b" t0000000000000000")) if token >= 0 else exchange.ended) - sent,
    )


def _percentiles(values: Iterable[float], unit: float) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {}
    return {f"p{share}": percentile(ordered, share / 100) / unit for share in (50, 90, 99)} | {
        "most": ordered[-1] / unit
    }
