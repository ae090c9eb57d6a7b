"""Clients that others wrote for streams of events read ours, and all read the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import httpx
import pytest

from tests.peers.gateway import HEARTBEAT, ODD_TEXT
from tests.peers.readers import (
    Event,
    Reader,
    curl,
    curl_command,
    eventsource_parser,
    fetch_event_source,
    httpx_sse,
    needed,
    sseclient_py,
)
from tests.support.gateway_process import LoggedProcess, free_port

pytestmark = [pytest.mark.peers, pytest.mark.server]

CONVERSATIONS = {
    "text": [
        *["run.started", "round.started", "reasoning.delta", "text.delta", "round.completed", "run.completed"],
    ],
    "tools": [
        *["run.started", "round.started", "text.delta", "tool_call.started", "tool_call.arguments", "tool_call.ready"],
        *["tool_call.progress", "tool_call.result", "round.completed"],
        *["round.started", "tool_call.started", "tool_call.arguments", "tool_call.ready"],
        *["tool_call.error", "round.completed"],
        *["round.started", "reasoning.delta", "text.delta", "round.completed", "run.completed"],
    ],
    "failure": ["run.started", "round.started", "text.delta", "run.failed"],
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where `/chat/stream` of a gateway is whose pings are frequent."""
    needed()
    port = free_port()
    factory = ["--factory", "tests.peers.gateway:create", "--port", str(port)]
    env = {"GATEWAY_STREAM__HEARTBEAT": str(HEARTBEAT)}
    process = LoggedProcess([sys.executable, "-m", "uvicorn", *factory], env=env, name="the gateway")
    try:
        process.wait_until_answering(f"http://127.0.0.1:{port}/readyz")
        yield f"http://127.0.0.1:{port}/chat/stream"
    finally:
        process.close()


@pytest.fixture(scope="module", params=CONVERSATIONS)
def conversation(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def by_curl(url: str, conversation: str) -> list[Event]:
    return curl(url, {"message": conversation})


def told(event: Event) -> tuple[str | None, str | None, dict[str, Any]]:
    """An event without what differs from run to run."""
    data = json.loads(event.data)
    for place in (data, *data.get("tool_runs", ())):
        place.pop("ms", None)
    assert data.pop("run_id").startswith("run_")
    if event.name in {"run.completed", "run.failed"}:
        data.pop("id", None)
        data.pop("request_id", None)
    return event.id, event.name, data


def test_the_stream_has_the_promised_form_and_order(by_curl: list[Event], conversation: str) -> None:
    names = [event.name for event in by_curl]

    assert [event.id for event in by_curl] == [str(number) for number in range(1, len(names) + 1)]
    assert [name for name, _ in groupby(names)] == CONVERSATIONS[conversation]


def test_odd_text_arrives_as_it_was(by_curl: list[Event], conversation: str) -> None:
    pieces: dict[tuple[str, int], list[str]] = {}
    for event in by_curl:
        data = json.loads(event.data)
        if event.name in {"text.delta", "reasoning.delta"}:
            pieces.setdefault((event.name, data["round"]), []).append(data["text"])
        if event.name == "tool_call.progress":
            assert (data["message"], data["data"]) == (ODD_TEXT, {"odd": ODD_TEXT})
        if event.name in {"tool_call.result", "tool_call.error"}:
            assert ODD_TEXT in (data.get("result"), data.get("error"))

    last_round = max(number for _, number in pieces)
    assert "".join(pieces["text.delta", last_round]) == ODD_TEXT
    if conversation != "failure":
        assert "".join(pieces["reasoning.delta", last_round]) == ODD_TEXT
        assert json.loads(by_curl[-1].data)["content"] == ODD_TEXT


@pytest.mark.fault("S03", "S05", "S06")
@pytest.mark.parametrize("read", [httpx_sse, sseclient_py, eventsource_parser, fetch_event_source])
def test_a_peer_reads_the_same_events(read: Reader, url: str, conversation: str, by_curl: list[Event]) -> None:
    events = read(url, {"message": conversation})

    assert [told(event) for event in events] == [told(event) for event in by_curl]


def test_curl_shows_events_and_pings_while_the_run_goes_on(url: str) -> None:
    command = curl_command(url, {"message": "hang"})
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603 - written above
        assert process.stdout is not None
        try:
            lines = iter(process.stdout)
            assert any(line == b"event: tool_call.ready\n" for line in lines)
            assert any(line == b": ping\n" for line in lines)
        finally:
            process.kill()


@pytest.mark.parametrize(("body", "status"), [({}, 422), ({"message": "failure", "tools": ["nothing"]}, 422)])
def test_what_cannot_begin_is_no_stream(url: str, body: Mapping[str, Any], status: int) -> None:
    with httpx.Client(trust_env=False) as client:
        response = client.post(url, json=body)

    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
