"""Secrets are masked in every text that leaves, also where the network cuts them in two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.providers.scrubbing import Scrubber, StreamMask

KEY = "key/with?odd=chars&1"


@pytest.mark.fault("X01")
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"bad {KEY}.", "bad ***."),
        ("bad key%2Fwith%3Fodd%3Dchars%261.", "bad ***."),
        ("Authorization: Bearer abc123def, sorry", "Authorization: Bearer ***, sorry"),
        ("use Bearer auth (see the manual)", "use Bearer auth (see the manual)"),
        ("authorization: basic dXNlcjpwYXNz", "authorization: basic ***"),
        ("basic authentication is off", "basic authentication is off"),
        ("at https://user:pw@host/v1?api-version=1&sig=xyz", "at https://***@host/v1?api-version=1&sig=***"),
        ("Incorrect API key provided: sk-pr*****wxyz.", "Incorrect API key provided: ***."),
        ("Incorrect API key: abcdef", "Incorrect API key: ***"),
        ('{"api_key": "abcdef"}', '{"api_key": "***"}'),
        ("key ab****yz is wrong", "key *** is wrong"),
        ("key sk-ab...wxyz is wrong", "key *** is wrong"),
        ("at postgres://user:p@ss:w@host/db", "at postgres://***@host/db"),
        ("a letter to a@host about https://host/v1", "a letter to a@host about https://host/v1"),
        ('{"access_token": "abc", "max_tokens": 5}', '{"access_token": "***", "max_tokens": 5}'),
        ("client secret=abc; password: 'x-y'", "client secret=***; password: '***'"),
        ("key gsk_abcdefgh12 or AIzaSyA-1234567 is wrong", "key *** or *** is wrong"),
        ("the hf_hub package", "the hf_hub package"),
        ("a risk-based, task-like thing", "a risk-based, task-like thing"),
    ],
)
def test_secrets_and_what_looks_like_one_are_masked(text: str, masked: str) -> None:
    assert Scrubber([KEY, ""])(text) == masked


def test_a_secret_with_quotes_is_found_in_json() -> None:
    assert Scrubber(['se"cret-\\-1'])(r'{"echo": "se\"cret-\\-1"}') == '{"echo": "***"}'


def test_a_short_secret_is_masked_as_a_word_only() -> None:
    assert Scrubber(["none"])("none of the nonessential") == "*** of the nonessential"


def test_a_longer_secret_is_masked_before_a_shorter_one_that_it_contains() -> None:
    assert Scrubber(["abcdefgh", "abcdefgh-ijkl"])("abcdefgh-ijkl") == "***"


def test_a_scrubber_does_not_show_its_secrets() -> None:
    assert "hidden" not in repr(Scrubber(["hidden-1234"]))


def masked(text: str, sizes: list[int], secret: str) -> str:
    mask, told, at = StreamMask(secret), [], 0
    for size in sizes:
        told.append(mask.feed(text[at : at + size]))
        at += size
    return "".join([*told, mask.feed(text[at:]), mask.close()])


SECRET = "abab-abac-0"
PARTS = st.lists(st.sampled_from([SECRET, SECRET[:1], SECRET[:4], SECRET[:9], "ab", "x", " "]), max_size=8).map("".join)


@pytest.mark.fault("X01")
@given(PARTS, st.lists(st.integers(1, 12), max_size=12))
def test_a_secret_in_a_stream_is_masked_wherever_it_is_cut(text: str, sizes: list[int]) -> None:
    told = masked(text, sizes, SECRET)

    assert SECRET not in told
    assert SECRET[3:] not in told.replace(SECRET[:3] + "***", "")
    if SECRET not in text:
        assert told == text


def test_text_is_held_back_only_while_it_may_be_the_secret() -> None:
    mask = StreamMask(SECRET)

    assert mask.feed("see abab") == "see "
    assert mask.feed("y") == "ababy"
    assert mask.feed("aba") == "aba", "three characters are not worth the wait"
    assert mask.feed("b-aba") == ""
    assert mask.feed("c-0!") == "***!"


@pytest.mark.fault("X01")
@pytest.mark.parametrize("secret", ["sk-123", "sk-test", "secretkeyofletters"])
def test_a_short_key_and_one_of_letters_are_masked_where_they_are_no_words(secret: str) -> None:
    assert masked(f"say {secret} twice: {secret}", [5, 5], secret).count("***") == 2


@pytest.mark.parametrize("secret", ["", "ollama", "placeholder", "k-100"])
def test_words_that_answers_may_use_are_let_by(secret: str) -> None:
    text = f"say {secret} twice: {secret}"

    assert masked(text, [5, 5], secret) == text
    assert StreamMask(secret).feed("x") == "x"
