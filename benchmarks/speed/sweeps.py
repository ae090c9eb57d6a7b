"""How the cost of an answer grows with one number: of advisors, of tools, of messages before, of rounds."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from benchmarks.speed.measuring import Bench, asked
from benchmarks.speed.scenarios import TOKENS, Scenario
from benchmarks.speed.servers import GATEWAY, QUESTION, Server, gateway
from benchmarks.speed.wrong import Wrong

_CONNECTIONS = 8
_SHORT = 20
"""Tokens of an answer that is not to be noticed beside what grows."""
_COUNTED = 5
"""Questions on each connection where each is asked in a conversation of its own."""
_TURNS = (0, 62, 125, 187, 249)
_EARLIER = "In Paris it was sunny the day before, with a little wind from the sea, and some clouds at night."
_ANSWER, _TOKEN = "cpu_ms_per_answer", "cpu_us_per_token"


@dataclass(frozen=True, slots=True)
class Point:
    """One place of a sweep: a number, and how it is measured.

    Attributes:
        number: of what is swept.
        start: starts the gateway; those of one key share theirs.
        key: of the gateway.
        scenario: how it is asked.
        bodies: makes what it is asked; None = the usual question.
    """

    number: int
    key: str
    start: Callable[[int], AbstractContextManager[Server]]
    scenario: Scenario
    bodies: Callable[[Server, Bench], Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A number that is swept.

    Attributes:
        name: what it is chosen by.
        title: what it is called in tables.
        each: one of what is counted.
        figure: whose growth is looked at.
        points: in the order of the numbers.
    """

    name: str
    title: str
    each: str
    figure: str
    points: Sequence[Point]


def _scenario(name: str, *, tokens: int = _SHORT, stream: bool = False, rounds: int = 1) -> Scenario:
    return Scenario(
        name, name, (GATEWAY,), _CONNECTIONS, stream=stream, seconds=0.3, least=2, tokens=tokens, rounds=rounds
    )


def _advisors() -> Iterator[Sweep]:
    for name, title, stream, figure in (
        ("advisors", "advisors, an answer", False, _ANSWER),
        ("advisors-stream", "advisors, a token of a stream", True, _TOKEN),
    ):
        points = [
            Point(
                number,
                f"{number} advisors",
                partial(gateway, advisors=number),
                _scenario(name, tokens=TOKENS if stream else _SHORT, stream=stream),
            )
            for number in (0, 5, 10, 15, 20)
        ]
        yield Sweep(name, title, "advisor", figure, points)


def _tools() -> Sweep:
    points = [
        Point(number, f"{number} tools", partial(gateway, tools=number), _scenario("tools"))
        for number in (1, 125, 250, 375, 500)
    ]
    return Sweep("tools", "tools that are offered", "tool", _ANSWER, points)


def _messages() -> Sweep:
    points = [
        Point(number, GATEWAY, gateway, _scenario("messages"), partial(_with_history, number))
        for number in (1, 125, 251, 375, 499)
    ]
    return Sweep("messages", "messages in the request", "message", _ANSWER, points)


def _rounds() -> Sweep:
    points = [Point(number, GATEWAY, gateway, _scenario("rounds", rounds=number)) for number in (1, 5, 10, 15, 20)]
    return Sweep("rounds", "rounds of tools", "round", _ANSWER, points)


def _remembered() -> Sweep:
    room = partial(gateway, settings={"GATEWAY_MEMORY__MAX_MESSAGES": "1000"})
    scenario = Scenario(
        "remembered-messages", "", (GATEWAY,), _CONNECTIONS, stream=False, seconds=0, least=_COUNTED, tokens=_SHORT
    )
    points = [
        Point(2 * turns + 1, "long memory", room, scenario, partial(_in_conversations, turns)) for turns in _TURNS
    ]
    return Sweep("remembered-messages", "messages of a remembered conversation", "message", _ANSWER, points)


def _with_history(number: int, _: Server, __: Bench) -> list[str]:
    """A question at the end of so many messages, itself included."""
    history = [
        {"role": "assistant" if place % 2 else "user", "content": _EARLIER if place % 2 else QUESTION["message"]}
        for place in range(number)
    ]
    return [json.dumps({"messages": history})]


def _in_conversations(turns: int, server: Server, bench: Bench) -> list[str]:
    """A question in each of many conversations, that have so many turns before it."""
    batch = secrets.token_hex(4)
    names = [f"{batch}-{number}" for number in range(_CONNECTIONS * _COUNTED)]
    long = _long_conversation(server, bench)
    for name in names if turns else ():
        asked(server.port, f"/conversations/{long}/fork", {"turn": turns, "id": name})
    return [json.dumps({**QUESTION, "conversation_id": name}) for name in names]


def _long_conversation(server: Server, bench: Bench) -> str:
    """A conversation with as many turns as any that is measured; others are copied from it."""
    name = "long"
    try:
        asked(server.port, f"/conversations/{name}")
    except Wrong:  # it is not there yet
        bench.set_model(_scenario(name))
        for _ in range(_TURNS[-1]):
            asked(server.port, "/chat", {**QUESTION, "conversation_id": name, "tools": []})
    return name


SWEEPS: Sequence[Sweep] = (*_advisors(), _tools(), _messages(), _remembered(), _rounds())
