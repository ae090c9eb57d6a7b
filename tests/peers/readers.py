"""Each peer's own client as a function: the address and the body in, the events out as the client understood them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import httpx
import pytest
from httpx_sse import EventSource
from sseclient import SSEClient

from tests.support.telling import STREAMED

HERE = Path(__file__).parent
PATIENCE = 30.0
MISSING = "needs curl, node and the packages that `make peers` installs"
JSON_BODY = {"Content-Type": "application/json"}

_WIRE_FORM = re.compile(rb"id: (?P<id>[1-9][0-9]*)\nevent: (?P<name>[a-z_.]+)\ndata: (?P<data>\{[^\r\n]*\})\n\n")
_COMMENT = re.compile(rb": ping\n")


class Event(NamedTuple):
    """One event as a client handed it out."""

    id: str | None
    name: str | None
    data: str


Reader: TypeAlias = Callable[[str, Mapping[str, Any]], list[Event]]
Follower: TypeAlias = Callable[[str], list[Event]]
"""One that comes back by itself when its line is cut."""


def needed() -> None:
    """Skip the test where something is missing, but not in CI."""
    if not (shutil.which("curl") and shutil.which("node") and (HERE / "node_modules").is_dir()):
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)


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
    return _node("eventsource_parser.mjs", url, json.dumps(body))


def fetch_event_source(url: str, body: Mapping[str, Any]) -> list[Event]:
    """The npm package @microsoft/fetch-event-source."""
    return _node("fetch_event_source.mjs", url, json.dumps(body))


def followed_by_fetch_event_source(url: str) -> list[Event]:
    """The npm package @microsoft/fetch-event-source, which may come back."""
    return _node("fetch_event_source.mjs", url)


def followed_by_eventsource(url: str) -> list[Event]:
    """The npm package eventsource, which is `EventSource` for node."""
    return _node("eventsource.mjs", url, *STREAMED)


def _node(script: str, *arguments: str) -> list[Event]:
    output = _output(["node", str(HERE / script), *arguments])
    return [
        Event(read.get("id"), read.get("event"), read["data"]) for read in map(json.loads, output.split(b"\n")[:-1])
    ]


def _output(command: list[str]) -> bytes:
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)  # noqa: S603 - written above
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
