"""Whole turns stay or leave; system messages stay."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from app.memory import window
from app.memory.pairing import paired
from tests.memory.histories import answer, plain_turn, question, tool_turn, turns

BRIEF, KIND, FRENCH = SystemMessage("Be brief."), SystemMessage("Be kind."), SystemMessage("Answer in French.")


@pytest.mark.parity(187)
def test_below_the_limit_nothing_leaves() -> None:
    assert window(plain_turn(1), plain_turn(2), 4) == (*plain_turn(1), *plain_turn(2))


@pytest.mark.parity(187)
def test_a_greeting_before_the_first_question_stays_while_there_is_room() -> None:
    hello = AssistantMessage("Hello, how can I help?")
    assert window((), (hello, *plain_turn(1)), 3) == (hello, *plain_turn(1))
    assert window((hello, *plain_turn(1)), plain_turn(2), 4) == (*plain_turn(1), *plain_turn(2))


@pytest.mark.parity(187, 190)
def test_above_the_limit_the_oldest_turn_leaves_and_no_more_than_that() -> None:
    remembered = (*plain_turn(1), *plain_turn(2))
    assert window(remembered, plain_turn(3), 4) == (*plain_turn(2), *plain_turn(3))


@pytest.mark.parity(188, 189)
@pytest.mark.fault("M01")
@pytest.mark.parametrize("limit", [2, 3, 4, 5])
def test_a_turn_with_calls_leaves_whole_though_a_part_of_it_would_fit(limit: int) -> None:
    assert window(tool_turn(1), plain_turn(2), limit) == plain_turn(2)


@pytest.mark.fault("M01")
def test_the_question_that_follows_a_turn_with_calls_is_all_that_fits_a_window_of_three() -> None:
    assert window(tool_turn(1), (question(2),), 3) == (question(2),)


@pytest.mark.parity(189)
def test_a_turn_larger_than_the_window_takes_those_before_it_along() -> None:
    assert window(plain_turn(1), tool_turn(2), 3) == ()


@pytest.mark.parity(191)
def test_system_messages_stay_and_take_up_room() -> None:
    remembered = (BRIEF, *plain_turn(1))
    assert window(remembered, plain_turn(2), 4) == (BRIEF, *plain_turn(2))
    assert window(remembered, plain_turn(2), 5) == (BRIEF, *plain_turn(1), *plain_turn(2))


@pytest.mark.parity(182, 191)
def test_system_messages_stand_first_in_the_order_they_were_given() -> None:
    assert window((), (question(1), KIND, BRIEF, answer(1)), 9) == (KIND, BRIEF, question(1), answer(1))


@pytest.mark.parity(192)
def test_a_new_system_message_replaces_all_that_were_remembered() -> None:
    remembered = (BRIEF, KIND, *plain_turn(1))
    assert window(remembered, (FRENCH, *plain_turn(2)), 9) == (FRENCH, *plain_turn(1), *plain_turn(2))


@pytest.mark.parity(192)
def test_a_system_message_that_is_remembered_already_replaces_nothing_and_is_not_doubled() -> None:
    remembered = (BRIEF, KIND, *plain_turn(1))
    assert window(remembered, (KIND, *plain_turn(2)), 9) == (BRIEF, KIND, *plain_turn(1), *plain_turn(2))


@pytest.mark.parity(193)
def test_of_more_system_messages_than_the_limit_all_stay_and_nothing_else() -> None:
    assert window(plain_turn(1), (BRIEF, KIND, FRENCH, *plain_turn(2)), 2) == (BRIEF, KIND, FRENCH)


def _parts(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    system: list[Message] = [message for message in messages if isinstance(message, SystemMessage)]
    return system, [message for message in messages if not isinstance(message, SystemMessage)]


@pytest.mark.parity(187, 188, 191)
@pytest.mark.fault("M01")
@given(history=st.lists(turns(), max_size=12), limit=st.integers(1, 12))
def test_whatever_turns_are_added_the_window_holds_the_newest_ones_whole(
    history: list[tuple[Message, ...]], limit: int
) -> None:
    kept: tuple[Message, ...] = ()
    for number, turn in enumerate(history):
        kept = window(kept, turn, limit)
        system, rest = _parts(kept)
        said = [message for turn in history[: number + 1] for message in _parts(turn)[1]]

        assert kept == (*system, *rest), "system messages come first"
        assert len(kept) <= max(limit, len(system)), "the limit holds"
        assert len(set(system)) == len(system), "no system message is doubled"
        assert not _parts(turn)[0] or set(_parts(turn)[0]) <= set(system), "the newest system messages are there"
        assert rest == said[len(said) - len(rest) :], "what stays is the end of what was said"
        assert not rest or isinstance(rest[0], UserMessage), "it begins with a question"
        assert paired(kept) == kept, "every call has its results"


@pytest.mark.parity(190)
@given(history=st.lists(turns(), min_size=1, max_size=8), limit=st.integers(1, 30))
def test_turns_leave_only_while_the_rest_does_not_fit(history: list[tuple[Message, ...]], limit: int) -> None:
    said = [_parts(turn)[1] for turn in history]
    system, kept = _parts(window([message for turn in said[:-1] for message in turn], history[-1], limit))
    fitting = [said[start:] for start in range(len(said) + 1) if sum(map(len, said[start:])) <= limit - len(system)]
    longest = fitting[0] if fitting else []
    assert kept == [message for turn in longest for message in turn]


def test_the_histories_of_these_tests_have_calls_with_results() -> None:
    calls = tool_turn(1, calls=2)
    assert isinstance(calls[2], ToolMessage)
    assert paired(calls) == calls
