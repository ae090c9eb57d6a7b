"""What a request is named by: the same for the same request however it is written, and for no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from starlette.requests import Request

from app.runs import IdempotencyKey
from app.web.body import validated
from app.web.parameters import ParameterInvalid, idempotency_key
from app.web.schemas import ChatBody

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def named(*keys: bytes, principal: str = "me", **body: Any) -> IdempotencyKey | None:
    """What a request with these keys and this body is named by."""
    request = Request({"type": "http", "headers": [(b"idempotency-key", key) for key in keys]})
    return idempotency_key(request, validated(ChatBody, {"message": "Hello", **body}), principal)


def with_context(value: Any) -> IdempotencyKey | None:
    """What a request is named by that tells its tools this value."""
    return named(b"key", tool_context={"value": [value]})


def turned_round(value: Any) -> Any:
    """The same value with the members of its objects in another order."""
    match value:
        case dict():
            return {name: turned_round(item) for name, item in reversed(value.items())}
        case list():
            return [turned_round(item) for item in value]
        case _:
            return value


def test_a_request_without_a_key_has_no_name() -> None:
    assert named() is None


def test_a_name_is_the_callers_own_and_says_key_and_body() -> None:
    names = [
        named(b"key"),
        named(b"KEY"),
        named(b"key", principal="you"),
        named(b"key", message="Hello!"),
        named(b"key", conversation_id="c"),
    ]

    assert len(set(names)) == len(names)
    assert named(b"key") == names[0]


@given(VALUES)
def test_the_order_of_members_makes_no_other_request(value: Any) -> None:
    assert with_context(turned_round(value)) == with_context(value)


@given(VALUES, VALUES)
def test_another_body_is_another_request(one: Any, other: Any) -> None:
    assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))

    assert with_context(one) != with_context(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), (1, "1"), (None, "null"), ([], {}), ("é", "e\u0301"), ("a", "a "), ("a", "A")],
)
def test_values_that_only_look_the_same_are_others(one: Any, other: Any) -> None:
    assert with_context(one) != with_context(other)


@pytest.mark.parametrize("keys", [[b""], [b" "], [b"a b"], [b"k" * 256], [b"\xe9"], [b"one", b"one"]], ids=repr)
def test_what_is_no_key_is_refused(keys: list[bytes]) -> None:
    with pytest.raises(ParameterInvalid, match="Idempotency-Key must be one text"):
        named(*keys)
