"""llmock breaks its answers in every way it knows and grades the gateway: its verdict has to be clean, warnings too.

Before anything was delivered the gateway asks again by itself. Behind a delivered piece it cannot: then the caller is
told, and it is the caller's second request that llmock sees as the retry.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.llmock.hostile import PROGRAM, Hostile, hostile
from tests.support.gateway_process import running_gateway
from tests.support.modes import both_modes
from tests.support.web import ENDPOINTS, Reply, reply_of

pytestmark = [pytest.mark.llmock, pytest.mark.server]

QUESTION = "Is the lift running"
SILENCE = 1.0
"""Seconds that the gateway lets a stream be silent."""


@pytest.fixture(scope="module")
def server() -> Iterator[Hostile]:
    if not PROGRAM.is_file():
        missing = "needs llmock, which `make llmock` installs"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with hostile() as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Hostile) -> Iterator[httpx.Client]:
    settings = {
        "GATEWAY_MODEL__BASE_URL": f"{server.url}/v1",
        "GATEWAY_MODEL__IDLE_TIMEOUT": str(SILENCE),
        "GATEWAY_MODEL__FIRST_BYTE_TIMEOUT": "5",
        "GATEWAY_MODEL__TOTAL_TIMEOUT": "60",
        "GATEWAY_RETRY__BASE_DELAY": "0.2",
        "GATEWAY_RETRY__BUDGET_FLOOR": "1000",  # one scenario must not use up the retries of the next
    }
    with running_gateway(settings) as gateway, gateway.client(timeout=90) as client:
        yield client


def ask(client: httpx.Client, *, stream: bool, **body: Any) -> Reply:
    """Ask without tools unless told otherwise: llmock would call whatever is offered."""
    return reply_of(client.post(ENDPOINTS[stream], json={"message": QUESTION, "tools": [], **body}))


def fail(status: int, **more: Any) -> dict[str, Any]:
    return {"type": "fail", "status": status, **more}


def break_stream(kind: str, after: int) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, "stall_seconds": 30}


def assert_clean(server: Hostile, *, requests: int) -> None:
    """The verdict holds neither an error nor a warning, and there were so many requests.

    Of a single call with two waits llmock says now and then that they do not grow: full jitter draws each wait from
    zero on. That these grow is shown where the clock can be read.
    """
    verdict = server.verdict
    findings = [one for one in verdict["findings"] if requests <= 2 or one["code"] != "no_backoff"]
    assert findings == []
    assert verdict["passed"]
    assert verdict["attempts"] == requests, [one["fault"] for one in server.requests]


@both_modes
def test_an_answer_without_failures_is_asked_for_once(server: Hostile, client: httpx.Client, stream: bool) -> None:
    server.will()

    reply = ask(client, stream=stream)

    assert reply.status == 200
    assert QUESTION in reply.document["content"]
    assert_clean(server, requests=1)


@both_modes
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_waited_out(
    server: Hostile, client: httpx.Client, status: int, times: int, stream: bool
) -> None:
    server.will(fail(status, times=times))

    reply = ask(client, stream=stream)

    assert reply.status == 200, reply.document
    assert QUESTION in reply.document["content"]
    assert_clean(server, requests=1 + times)


@both_modes
def test_the_server_says_how_long_to_wait(server: Hostile, client: httpx.Client, stream: bool) -> None:
    server.will(fail(429, retry_after=0.7), fail(503, retry_after=1))

    assert ask(client, stream=stream).status == 200
    assert_clean(server, requests=3)


@both_modes
def test_an_outage_is_told_after_a_few_tries(server: Hostile, client: httpx.Client, stream: bool) -> None:
    server.will(fail(503, times=None))

    reply = ask(client, stream=stream)

    problem = reply.document
    assert (problem["type"], problem["upstream_status"]) == ("urn:advisor-gateway:model-unavailable", 503)
    assert_clean(server, requests=3)


@both_modes
@pytest.mark.fault("E02")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_will_not_change_is_told_at_once(server: Hostile, client: httpx.Client, status: int, stream: bool) -> None:
    server.will(fail(status))

    problem = ask(client, stream=stream).document

    assert problem["type"].startswith("urn:advisor-gateway:model-")
    assert problem["upstream_status"] == status
    assert_clean(server, requests=1)


@both_modes
def test_a_prompt_that_is_too_long_is_told_at_once(server: Hostile, client: httpx.Client, stream: bool) -> None:
    server.will(fail(400, code="context_length_exceeded", message="maximum context length is 12 tokens"))

    problem = ask(client, stream=stream).document

    assert problem["code"] == "context_length_exceeded"
    assert_clean(server, requests=1)


@pytest.mark.fault("U19")
@pytest.mark.parametrize("kind", ["disconnect", "truncate", "malformed", "stall"])
@pytest.mark.parametrize("after", [0, 1, 3], ids=["at once", "before text", "within text"])
def test_a_broken_stream_is_never_an_answer(server: Hostile, client: httpx.Client, kind: str, after: int) -> None:
    server.will(break_stream(kind, after))
    conversation = f"{kind} after {after}"

    reply = ask(client, stream=True, conversation_id=conversation)
    if after <= 1 and kind in {"disconnect", "truncate"}:
        assert "content" in reply.document, "nothing was delivered: the gateway asks again"
    if after > 1:
        assert reply.names[-1] == "run.failed"
        assert reply.of("text.delta"), "what came before is told"
    if "content" not in reply.document:
        assert reply.document["type"].startswith("urn:advisor-gateway:model-")
        reply = ask(client, stream=True, conversation_id=conversation)

    assert QUESTION in reply.document["content"]
    assert len(server.requests[-1]["body"]["messages"]) == 1, "of a failed turn nothing is remembered"
    assert_clean(server, requests=2)


@both_modes
def test_a_slow_answer_is_waited_for(server: Hostile, client: httpx.Client, stream: bool) -> None:
    server.will({"type": "delay", "seconds": SILENCE * 1.5})

    assert QUESTION in ask(client, stream=stream).document["content"]
    assert_clean(server, requests=1)


@both_modes
@pytest.mark.parametrize("failures", [(), (429,), (503, 500)], ids=["no failure", "one failure", "two failures"])
def test_tools_are_run_between_failures(
    server: Hostile, client: httpx.Client, failures: tuple[int, ...], stream: bool
) -> None:
    called = {"type": "reply", "tool_calls": [{"name": "calculate", "arguments": {"expression": "6*7"}}]}
    server.will(*(fail(status) for status in failures), called)

    reply = ask(client, stream=stream, tools=["calculate"])

    assert [(run["name"], run["result"]) for run in reply.document["tool_runs"]] == [("calculate", "42")]
    assert reply.document["finish_reason"] == "stop"
    assert_clean(server, requests=2 + len(failures))


@both_modes
@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
def test_a_call_that_cannot_be_run_is_answered_to_the_model(
    server: Hostile, client: httpx.Client, kind: str, stream: bool
) -> None:
    server.will({"type": "tool_fault", "kind": kind})

    reply = ask(client, stream=stream, tools=["calculate"])

    assert reply.document["finish_reason"] == "stop"
    assert [sorted(run.keys() & {"result", "error"}) for run in reply.document["tool_runs"]] == [["error"]]
    assert_clean(server, requests=2)
