"""Every behaviour and every grave fault has a test that can be found by its number, or a reason why not."""

from __future__ import annotations

from tests.tables import BEHAVIOURS, FAULTS_NOT_APPLICABLE, GRAVE_FAULTS, NOT_APPLICABLE, TABLE, marked, page


def test_every_behaviour_is_shown_by_a_test_or_has_a_reason_why_it_does_not_apply() -> None:
    assert set(BEHAVIOURS) - {*marked("parity"), *NOT_APPLICABLE} == set()


def test_no_behaviour_is_both_shown_and_said_not_to_apply() -> None:
    assert set(NOT_APPLICABLE) & set(marked("parity")) == set()


def test_every_grave_fault_has_a_test_or_a_reason_why_it_cannot_happen() -> None:
    assert GRAVE_FAULTS - {*marked("fault"), *FAULTS_NOT_APPLICABLE} == set()


def test_the_table_says_what_the_markers_say() -> None:
    assert TABLE.read_text(encoding="utf-8") == page(), "write it anew with: python -m tests.tables"
