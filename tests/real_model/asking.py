"""What is asked of the real model, through which door, and what its server says of itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from httpx_sse import EventSource

from tests.support.gateway_process import GatewayProcess, LoggedProcess

PATIENCE = 90.0
"""Seconds for one answer: a loaded machine needs ten a model call."""


def _turn(question: str, tool: str, city: str, result: str, answer: str) -> list[dict[str, Any]]:
    call = {"id": f"example_{tool}_{city}", "name": tool, "arguments": json.dumps({"city": city})}
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": result},
        {"role": "assistant", "content": answer},
    ]


# Without them a model of this size does not know what to do with a tool.
EXAMPLES: Sequence[Mapping[str, Any]] = (
    *_turn("What is the weather in Oslo?", "get_weather", "Oslo", "4 C, rain", "It is 4 C with rain in Oslo."),
    *_turn("What time is it in Rome?", "get_time", "Rome", "10:15", "It is 10:15 in Rome."),
    *_turn("What is the weather in Madrid?", "get_weather", "Madrid", "30 C, sun", "It is 30 C with sun in Madrid."),
    *_turn("What time is it in London?", "get_time", "London", "23:40", "It is 23:40 in London."),
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question that a tool answers.

    Attributes:
        text: what the user asks.
        tool: the tool that must be asked for.
        city: the argument it must get.
        kind: the part of the tool context that the tool reads.
        reading: what the tool gives.
    """

    text: str
    tool: str
    city: str
    kind: str
    reading: str

    def body(self, **options: Any) -> dict[str, Any]:
        """The request: examples, the question, and what the tool will read."""
        return {
            "messages": [*EXAMPLES, {"role": "user", "content": self.text}],
            "options": {"temperature": 0, "max_tokens": 80, **options},
            "tool_context": {self.kind: {self.city: self.reading}},
        }


@dataclass(frozen=True, slots=True)
class Event:
    """One event of `/chat/stream`."""

    id: str
    name: str
    data: Mapping[str, Any]


@contextmanager
def events(client: httpx.Client, body: Mapping[str, Any]) -> Iterator[Iterator[Event]]:
    """The events of a streamed run. Leaving early closes the connection: the client goes away."""
    with client.stream("POST", "/chat/stream", json=body) as response:
        if response.status_code != httpx.codes.OK:
            raise AssertionError(f"{response.status_code} {response.read().decode()}")
        yield _read(response)


def _read(response: httpx.Response) -> Iterator[Event]:
    deadline = time.monotonic() + PATIENCE
    for sse in EventSource(response).iter_sse():
        if time.monotonic() > deadline:
            raise AssertionError(f"the stream has not ended within {PATIENCE:.0f} s")
        yield Event(sse.id, sse.event, sse.json())


def final_answer(client: httpx.Client, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer of a run through either door."""
    if path == "/chat":
        response = client.post(path, json=body)
        assert response.status_code == httpx.codes.OK, response.text
        answer: dict[str, Any] = response.json()
        return answer
    with events(client, body) as stream:
        return list(stream)[-1].data


def patient_client(gateway: GatewayProcess) -> httpx.Client:
    """A client that waits as long as the model may take."""
    return gateway.client(timeout=PATIENCE)


class LlamaServer:
    """A llama.cpp server with a single slot.

    Args:
        url: its address, without a path.
        process: where it runs.
    """

    def __init__(self, url: str, process: LoggedProcess) -> None:
        self.url = url
        self.process = process

    def slot(self) -> Mapping[str, Any]:
        """What the slot does, in the server's own words."""
        with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
            (slot,) = client.get(f"{self.url}/slots").raise_for_status().json()
        assert isinstance(slot, dict)
        return slot

    @property
    def is_busy(self) -> bool:
        """Whether it works on an answer."""
        return bool(self.slot()["is_processing"])

    def wait_until_busy(self, timeout: float = PATIENCE) -> None:
        """Wait until it works on an answer."""
        self._wait(timeout, busy=True)

    def wait_until_free(self, timeout: float = PATIENCE) -> None:
        """Wait until it works on nothing."""
        self._wait(timeout, busy=False)

    @property
    def stopped_midway(self) -> bool:
        """Whether the last answer was given up before its end."""
        (progress,) = self.slot()["next_token"]
        return bool(progress["has_next_token"])

    def _wait(self, timeout: float, *, busy: bool) -> None:
        deadline = time.monotonic() + timeout
        while self.is_busy is not busy:
            if time.monotonic() > deadline:
                raise self.process.failed(f"is {'not ' if busy else ''}busy after {timeout:.0f} s")
            # For a blocking request llama.cpp looks after its client once in a second without other requests.
            time.sleep(1.5)
