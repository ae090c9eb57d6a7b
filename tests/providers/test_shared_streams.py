"""Reads a folder of streams from elsewhere, each with what a right reader makes of it.

The folder is named by `GATEWAY_TEST_STREAMS`: `NAME.sse` holds a body, `NAME.expected.json` what is to come of it.
Without it there is nothing to show: the project's own streams are in the other tests.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from app.chat import ModelProtocolError, Usage
from tests.support.reading import WAYS, Reading, cut, read_pieces

FOLDER = os.environ.get("GATEWAY_TEST_STREAMS")
NAMES = sorted(path.stem for path in Path(FOLDER).glob("*.sse")) if FOLDER else []
KINDS = {"not_sse": "not_a_completion"}
"""Kinds of error that have another name here."""

pytestmark = pytest.mark.skipif(not NAMES, reason="GATEWAY_TEST_STREAMS names no folder with streams")


@pytest.mark.parametrize("way", [*WAYS, "as recorded"])
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_from_elsewhere_is_read_rightly(name: str, way: str) -> None:
    folder = Path(FOLDER or "")
    body = (folder / f"{name}.sse").read_bytes()
    expected = json.loads((folder / f"{name}.expected.json").read_text(encoding="utf-8"))
    places = expected["meta"]["splits"] or []
    pieces = cut(body, way)
    if way == "as recorded":
        pieces = [body[start:stop] for start, stop in zip([0, *places], [*places, len(body)], strict=True)]

    reading = read_pieces(pieces)

    assert reading.text == (expected["content"] or "")
    if expected["error"]:
        _assert_error(reading, expected)
    else:
        _assert_answer(reading, expected)


def _assert_error(reading: Reading, expected: Any) -> None:
    error, wanted = reading.error, expected["error"]
    assert error is not None
    assert reading.ready_calls == []
    told = [(name, arguments) for name, arguments in reading.told_calls.values()]
    assert told == [(call["name"], call["arguments"]) for call in expected["tool_calls"]]
    if wanted["kind"] == "upstream_error":
        assert not isinstance(error, ModelProtocolError)
        assert wanted["message"] in str(error)
        assert error.code == (str(wanted["code"]) if "code" in wanted else None)
    else:
        assert isinstance(error, ModelProtocolError)
        assert error.code == KINDS.get(wanted["kind"], wanted["kind"])


def _assert_answer(reading: Reading, expected: Any) -> None:
    response = reading.response
    message = response.message
    assert message.content == reading.text
    assert (message.reasoning, message.refusal) == (expected["reasoning"], expected["refusal"])
    assert reading.reasoning == (expected["reasoning"] or "")
    assert response.finish_reason == expected["finish_reason"]
    usage = expected["usage"] or {}
    assert (response.usage == Usage()) == (not usage)
    assert response.usage.input_tokens == usage.get("prompt_tokens")
    assert response.usage.output_tokens == usage.get("completion_tokens")
    assert response.usage.total_tokens == usage.get("total_tokens")
    assert [(call.name, _value(call.arguments)) for call in message.tool_calls] == [
        (call["name"], _value(call["arguments"])) for call in expected["tool_calls"]
    ]
    for call, wanted in zip(message.tool_calls, expected["tool_calls"], strict=True):
        assert call.id == (wanted["id"] or call.id) != ""
    if expected["meta"]["tools_executable"]:
        assert reading.ready_calls == [call.id for call in message.tool_calls]


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
