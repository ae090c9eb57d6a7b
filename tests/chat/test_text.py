"""Text that every wire can carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.text import well_formed_text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", ""),
        ("Straße 🚢", "Straße 🚢"),
        ("\ud83d\udea2", "🚢"),
        ("a\ud800b", "a\ufffdb"),
        ("\udea2\ud83d", "\ufffd\ufffd"),
        ("\ufeff\ud800", "\ufeff\ufffd"),
    ],
    ids=ascii,
)
def test_pairs_of_surrogates_become_their_character_and_lone_ones_the_replacement(text: str, written: str) -> None:
    assert well_formed_text(text) == written


@given(st.text(st.characters()))
def test_whatever_a_text_holds_it_can_be_encoded_and_is_then_left_alone(text: str) -> None:
    once = well_formed_text(text)

    assert once.encode().decode() == once == well_formed_text(once)
