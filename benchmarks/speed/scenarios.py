"""What is measured of servers side by side."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from benchmarks.speed.servers import GATEWAY, MODEL_SERVER, NGINX, PASSTHROUGH, PEERS

TOKENS = 200
PACE = 10_000
"""Microseconds between two tokens of a stream that is paced."""

RESTING = "resting"
"""What is measured of a gateway that does little; see `resting`."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One way of asking.

    Attributes:
        name: what it is chosen by.
        title: what it is called in tables.
        servers: those that are asked.
        connections: on which is asked at a time.
        stream: whether the answer is streamed.
        seconds: for which is asked.
        least: questions on each connection, whatever the time.
        pace: microseconds between tokens; 0 = all at once.
        tokens: of an answer.
        rounds: of tools before it, where the server runs tools.
        pause: seconds between an answer and the next question.
        ramp: seconds over which the connections begin.
        remembered: whether requests name a conversation.
    """

    name: str
    title: str
    servers: Collection[str]
    connections: int
    stream: bool
    seconds: float = 1.5
    least: int = 1
    pace: int = 0
    tokens: int = TOKENS
    rounds: int = 1
    pause: float = 0.0
    ramp: float = 0.0
    remembered: bool = False


_ALL = (GATEWAY, PASSTHROUGH, NGINX, MODEL_SERVER, *PEERS)
_FLOORS = (GATEWAY, NGINX, MODEL_SERVER)
SCENARIOS = (
    Scenario("answer-1", "tool loop, 1 connection", (GATEWAY, PASSTHROUGH), 1, stream=False),
    Scenario("answer-32", "tool loop, 32 connections", _ALL, 32, stream=False),
    Scenario("answer-256", "tool loop, 256 connections", (GATEWAY, PASSTHROUGH), 256, stream=False, least=4),
    Scenario(
        "remembered", "tool loop in a conversation, 32 connections", (GATEWAY,), 32, stream=False, remembered=True
    ),
    Scenario("burst", "stream in a burst, 32 connections", _ALL, 32, stream=True),
    Scenario("paced-5", "5 streams, a token every 10 ms", _FLOORS, 5, stream=True, seconds=1.0, pace=PACE),
    Scenario(
        "paced-20", "20 streams, a token every 10 ms", (*_FLOORS, PASSTHROUGH), 20, stream=True, seconds=1.0, pace=PACE
    ),
    Scenario(
        "paced-500",
        "500 streams, a token every 10 ms",
        (*_FLOORS, PASSTHROUGH),
        500,
        stream=True,
        seconds=1.0,
        pace=PACE,
    ),
    Scenario("first-event", "idle, a stream now and then", (GATEWAY, NGINX), 1, stream=True, seconds=2.0, pause=0.03),
)
