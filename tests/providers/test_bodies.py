"""Each body of the table is read as the table says, in all the ways a network may cut it."""

from __future__ import annotations

import pytest

from app.chat import ModelProtocolError
from tests.support.bodies import Body, all_bodies, parameters, value_of
from tests.support.reading import WAYS, Reading, cut, read_pieces


@pytest.mark.parametrize("way", [*WAYS, "as recorded"])
@pytest.mark.parametrize("body", parameters(list(all_bodies())))
def test_a_body_is_read_as_what_it_is(body: Body, way: str) -> None:
    pieces = cut(body.data, way) if way != "as recorded" else _as_recorded(body)

    reading = read_pieces(pieces)

    assert reading.text == body.content
    assert reading.reasoning == (body.reasoning or "")
    if body.failure:
        _assert_failure(reading, body)
    else:
        _assert_answer(reading, body)


def _as_recorded(body: Body) -> list[bytes]:
    ends = [*body.places, len(body.data)]
    return [body.data[start:stop] for start, stop in zip([0, *body.places], ends, strict=True)]


def _assert_failure(reading: Reading, body: Body) -> None:
    assert body.failure is not None
    assert reading.error is not None
    assert isinstance(reading.error, ModelProtocolError) == (body.failure.kind == "model-protocol-error")
    assert reading.error.code == body.failure.code
    assert body.failure.said in str(reading.error)
    assert reading.ready_calls == []
    assert list(reading.told_calls.values()) == [(name, arguments) for name, arguments, _ in body.calls]


def _assert_answer(reading: Reading, body: Body) -> None:
    response, message = reading.response, reading.response.message
    assert message.content == body.content
    assert (message.reasoning, message.refusal) == (body.reasoning, body.refusal)
    assert (response.finish_reason, response.usage) == (body.finish, body.usage)
    assert [(call.name, value_of(call.arguments)) for call in message.tool_calls] == [
        (name, value_of(arguments)) for name, arguments, _ in body.calls
    ]
    for call, (_, _, call_id) in zip(message.tool_calls, body.calls, strict=True):
        assert call.id == (call_id or call.id) != ""
    if body.executable:
        assert reading.ready_calls == [call.id for call in message.tool_calls]
