"""The benchmark of speed takes whole answers for right, however they come, and all others for wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.speed.answers import CHECKS, Expected, delays_of
from benchmarks.speed.exchange import Exchange
from benchmarks.speed.replies import RESULT, Replies, arguments, text, token
from benchmarks.speed.seen import Order, figures_of
from benchmarks.speed.wrong import Wrong

EXPECTED = Expected(tokens=3, rounds=1, paced=False)
RUN = {"run_id": "run_1"}
CALL = {"call_id": "call_1", "name": "get_weather"}


def document(**changed: Any) -> dict[str, Any]:
    """The gateway's answer, with some fields changed."""
    runs = [{"round": 1, "arguments": arguments(0), "result": RESULT}]
    return {"content": text(3), "finish_reason": "stop", "tool_runs": runs, **changed}


def events(**changed: Any) -> list[tuple[str, dict[str, Any]]]:
    """The events of the gateway's stream; changed are fields of the answer at its end."""
    first, second = {**RUN, "round": 1}, {**RUN, "round": 2}
    return [
        ("run.started", RUN),
        ("round.started", first),
        ("tool_call.started", {**first, **CALL}),
        ("tool_call.arguments", {**first, **CALL, "text": arguments(0)[:5]}),
        ("tool_call.arguments", {**first, **CALL, "text": arguments(0)[5:]}),
        ("tool_call.ready", {**first, **CALL, "arguments": arguments(0)}),
        ("tool_call.result", {**first, **CALL, "result": RESULT}),
        ("round.completed", first),
        ("round.started", second),
        *(("text.delta", {**second, "text": token(place).decode()}) for place in range(3)),
        ("round.completed", second),
        ("run.completed", {**second, **document(**changed)}),
    ]


def stream(told: list[tuple[str, dict[str, Any]]], first: int = 1) -> bytes:
    """Events as they go over the wire."""
    return b"".join(
        b"id: %d\nevent: %b\ndata: %b\n\n" % (number, name.encode(), json.dumps(data).encode())
        for number, (name, data) in enumerate(told, first)
    )


def peer_stream(*deltas: str, end: str = "[DONE]") -> bytes:
    """Events of a peer, whose lines end as sse-starlette has them."""
    told = [f"event: token\r\ndata: {json.dumps({'delta': delta})}\r\n\r\n" for delta in deltas]
    return "".join([*told, f"data: {end}\r\n\r\n"]).encode()


def body_of(reply: bytes) -> bytes:
    """The body of a reply of the model server."""
    return Exchange(0, [(0, reply)]).response().body


TOKENS = [token(place).decode() for place in range(3)]
REPLIES = Replies.of(tokens=3, rounds=1)
RIGHT = {
    "gateway_answer": json.dumps(document()).encode(),
    "gateway_stream": stream(events()),
    "plain_answer": json.dumps({"answer": text(3)}).encode(),
    "plain_stream": peer_stream(*TOKENS),
    "completion": body_of(REPLIES.whole[-1]),
    "completion_stream": body_of(REPLIES.streams[True][-1]),
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_whole_answer_is_right(check: str) -> None:
    CHECKS[check](RIGHT[check], EXPECTED)


@pytest.mark.parametrize("check", CHECKS)
def test_an_answer_of_another_length_is_wrong(check: str) -> None:
    with pytest.raises(Wrong):
        CHECKS[check](RIGHT[check], Expected(tokens=4, rounds=1, paced=False))


def test_a_comment_between_events_is_none_of_them() -> None:
    CHECKS["gateway_stream"](b": ping\n\n" + RIGHT["gateway_stream"], EXPECTED)


@pytest.mark.parametrize(
    "body",
    [
        stream(events(), first=2),
        stream(events()[:-1]),
        stream([*events(), ("run.completed", {**RUN, **document()})]),
        stream([one for one in events() if one[0] != "tool_call.result"]),
        stream([*events()[:9], events()[10], events()[9], *events()[11:]]),
        stream([*events()[:1], *events()[2:3], *events()[1:2], *events()[3:]]),
        stream([(name, {**data, "run_id": name}) for name, data in events()]),
        stream([one for place, one in enumerate(events()) if place != 4]),
        stream(events(content="sunny")),
        stream(events(finish_reason="deadline")),
        stream(events(tool_runs=[])),
        b"event: run.started\n\n",
    ],
    ids=[
        "numbers",
        "no end",
        "two ends",
        "no result",
        "tokens in another order",
        "events in another order",
        "several runs",
        "half the arguments",
        "another answer",
        "another reason",
        "a tool not run",
        "no event",
    ],
)
def test_a_stream_that_is_not_whole_is_wrong(body: bytes) -> None:
    with pytest.raises(Wrong):
        CHECKS["gateway_stream"](body, EXPECTED)


@pytest.mark.parametrize(
    "body",
    [peer_stream(*TOKENS[:2]), peer_stream(text(3)), peer_stream(*TOKENS, end="{}"), b"", peer_stream(*TOKENS[::-1])],
    ids=["a token is missing", "all tokens in one", "no end", "nothing", "another order"],
)
def test_a_stream_of_a_peer_that_is_not_whole_is_wrong(body: bytes) -> None:
    with pytest.raises(Wrong):
        CHECKS["plain_stream"](body, EXPECTED)


def test_paced_tokens_may_have_any_numbers_that_do_not_fall() -> None:
    paced = Expected(tokens=3, rounds=0, paced=True)

    paced.check_text(" t0000000000000007. t0000000000000007. t0000000000000009.")
    with pytest.raises(Wrong, match="order"):
        paced.check_text(" t0000000000000007. t0000000000000009. t0000000000000008.")
    with pytest.raises(Wrong, match="3 tokens"):
        paced.check_text(" t0000000000000007. t0000000000000008. and t0000000000000009.")


def exchange(*pieces: bytes, chunked: bool = True) -> Exchange:
    """A response that was read in pieces, the first at microsecond 1, the next at 2, and so on."""
    framing = b"transfer-encoding: chunked" if chunked else b"Content-Length: 5"
    first = b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n" + pieces[0]
    return Exchange(0, [(1000 * number, piece) for number, piece in enumerate((first, *pieces[1:]), 1)])


def test_a_response_is_put_together_however_it_was_read() -> None:
    assert exchange(b"he", b"llo", chunked=False).response().body == b"hello"
    assert exchange(b"3\r\nhel\r", b"\n2\r\nlo\r\n0\r", b"\n\r\n").response().body == b"hello"


def test_the_last_chunk_is_seen_however_it_was_read() -> None:
    assert exchange(b"5\r\nhello\r\n0\r\n\r\n").has_last_chunk
    assert exchange(b"5\r\nhello\r\n0\r", b"\n", b"\r\n").has_last_chunk
    assert not exchange(b"5\r\nhello\r\n0\r", b"\n").has_last_chunk


@pytest.mark.parametrize(
    "cut",
    [
        exchange(b"hell", chunked=False),
        exchange(b"hello!", chunked=False),
        exchange(b"5\r\nhello\r\n"),
        exchange(b"5\r\nhello\r\n0\r\n\r\n0\r\n\r\n"),
        Exchange(0, [(1, b"HTTP/1.1 200 OK\r\n")]),
        Exchange(0, [(1, b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")]),
    ],
    ids=["too short", "too long", "no last chunk", "two last chunks", "no head", "a failure"],
)
def test_a_response_that_is_not_whole_is_wrong(cut: Exchange) -> None:
    with pytest.raises(Wrong):
        cut.response()


def test_each_token_counts_when_all_of_it_was_read_for_the_first_time() -> None:
    first, second = b" t0000000000000001.", b" t0000000000000002."
    response = exchange(
        b"13\r\n" + first + b"\r\n13\r\n" + second[:7],
        second[7:] + b"\r\n",
        b"26\r\n" + first + second + b"\r\n0\r\n\r\n",
    ).response()

    assert response.read_at(0) == 1000
    assert delays_of(response) == [0, 0]


def test_right_answers_are_counted_and_wrong_ones_are_told() -> None:
    order = Order(
        port=0, path="", bodies=(), check="plain_answer", tokens=1, rounds=0, paced=False, connections=1, seconds=0
    )
    body = json.dumps({"answer": text(1)}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
    right = Exchange(1_000_000, [(3_000_000, head + body[:-2]), (5_000_000, body[-2:])])
    wrong = [Exchange(1_000_000, [(9_000_000, reply)]) for reply in (head, head + body.replace(b"answer", b"reply!"))]

    seen = figures_of(order, [right, *wrong], ["the connection was closed"], began=0)

    assert (seen.answers, seen.tokens, seen.wrong_count) == (1, 1, 3)
    assert (seen.whole["p50"], seen.first_byte["p50"], seen.first_token["p50"]) == (4.0, 2.0, 2.0)
    assert seen.seconds == 0.009
    assert seen.wrong[0] == "the connection was closed"
    assert figures_of(order, [], [], began=0).whole == {}


def test_the_arguments_of_each_round_are_others() -> None:
    assert len({arguments(round_) for round_ in range(20)}) == 20
