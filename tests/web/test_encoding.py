"""Our JSON is strict, on one line, and never fails."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.web.encoding import encode, encode_text
from tests.support.ids import shown


def refuse(constant: str) -> None:
    """NaN and infinities are no JSON."""
    raise AssertionError(constant)


def around(value: Any) -> Any:
    """The value as a reader gets it."""
    return json.loads(encode(value).decode(), parse_constant=refuse)


def holding_itself() -> list[Any]:
    """A list that is in itself."""
    loop: list[Any] = ["\ud800"]
    loop.append(loop)
    return loop


def deep(levels: int) -> list[Any]:
    """Lists in lists."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.fault("T11")
@pytest.mark.parametrize(
    ("value", "read"),
    [
        (float("nan"), None),
        ({"a": float("-inf")}, {"a": None}),
        (MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (object(), "<object>"),
        ({object(): 1}, {"<object>": 1}),
        (b"\xff", "\ufffd"),
        (holding_itself(), ["\ufffd", "<list>"]),
    ],
    ids=shown,
)
def test_what_json_cannot_say_is_said_in_the_nearest_way(value: Any, read: Any) -> None:
    assert around(value) == read


def test_what_is_too_deep_ends_somewhere() -> None:
    assert "<list>" in json.dumps(around(deep(5000)))


@pytest.mark.fault("U36")
def test_half_characters_are_replaced_and_two_halves_put_together() -> None:
    odd = {"\ud83d": ["\ud83d\ude00", "a\udc00", b"ok", {1.5}, True, None, object()]}

    assert around(odd) == {"\ufffd": ["😀", "a\ufffd", "ok", [1.5], True, None, "<object>"]}


@pytest.mark.fault("S05")
@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3))
def test_text_comes_back_as_it_was_and_on_one_line(value: dict[str, Any]) -> None:
    assert around(value) == value
    assert len(encode(value).decode().splitlines()) == 1


@given(st.text(st.characters(exclude_categories=())))
def test_a_text_by_itself_is_written_as_any_value_is(text: str) -> None:
    assert encode_text(text) == encode(text)


def test_a_text_of_a_kind_of_its_own_is_written_as_a_text() -> None:
    class Shouted(str):
        __slots__ = ()

    assert encode_text(Shouted("AHOY")) == b'"AHOY"'
