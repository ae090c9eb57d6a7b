"""Each peer's own client as a function: the address and the body in, the events out as the client understood them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import httpx
from httpx_sse import EventSource
from sseclient import SSEClient

HERE = Path(__file__).parent
PATIENCE = 30.0
JSON_BODY = {"Content-Type": "application/json"}

_WIRE_FORM = re.compile(rb"id: (?P<id>[1-9][0-9]*)\nevent: (?P<name>[a-z_.]+)\ndata: (?P<data>\{[^\r\n]*\})\n\n")
_COMMENT = re.compile(rb": ping\n")


class Event(NamedTuple):
    """One event as a client handed it out."""

    id: str | None
    name: str | None
    data: str


Reader: TypeAlias = Callable[[str, Mapping[str, Any]], list[Event]]


def curl_command(url: str, body: Mapping[str, Any]) -> list[str]:
    """The command that the README shows."""
    return ["curl", "-sSN", "--noproxy", "*", url, "-H", "Content-Type: application/json", "-d", json.dumps(body)]


def by_the_letter(raw: bytes) -> list[Event]:
    """Events of a stream that has exactly the form which is promised.

    Raises:
        AssertionError: it has another; shows where.
    """
    events: list[Event] = []
    position = 0
    while position < len(raw):
        if comment := _COMMENT.match(raw, position):
            position = comment.end()
            continue
        event = _WIRE_FORM.match(raw, position)
        assert event, f"neither an event nor a ping, at byte {position}: {raw[position : position + 300]!r}"
        events.append(Event(*(event[part].decode() for part in ("id", "name", "data"))))
        position = event.end()
    return events


def curl(url: str, body: Mapping[str, Any]) -> list[Event]:
    """`curl -N`, whose output is read by the letter."""
    return by_the_letter(_output(curl_command(url, body)))


def httpx_sse(url: str, body: Mapping[str, Any]) -> list[Event]:
    """httpx-sse."""
    with (
        httpx.Client(trust_env=False, timeout=PATIENCE) as client,
        client.stream("POST", url, json=body) as response,
    ):
        return [Event(sse.id, sse.event, sse.data) for sse in EventSource(response).iter_sse()]


def sseclient_py(url: str, body: Mapping[str, Any]) -> list[Event]:
    """sseclient-py."""
    with (
        httpx.Client(trust_env=False, timeout=PATIENCE) as client,
        client.stream("POST", url, json=body) as response,
    ):
        return [Event(sse.id, sse.event, sse.data) for sse in SSEClient(response.iter_bytes()).events()]


def eventsource_parser(url: str, body: Mapping[str, Any]) -> list[Event]:
    """The npm package eventsource-parser."""
    return _node("eventsource_parser.mjs", url, body)


def fetch_event_source(url: str, body: Mapping[str, Any]) -> list[Event]:
    """The npm package @microsoft/fetch-event-source."""
    return _node("fetch_event_source.mjs", url, body)


def _node(script: str, url: str, body: Mapping[str, Any]) -> list[Event]:
    output = _output(["node", str(HERE / script), url, json.dumps(body)])
    return [
        Event(read.get("id"), read.get("event"), read["data"]) for read in map(json.loads, output.split(b"\n")[:-1])
    ]


def _output(command: list[str]) -> bytes:
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)  # noqa: S603 - written above
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
