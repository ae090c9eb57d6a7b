"""Where a model server is, what opens it, and which dialect it speaks: checked at the start."""

from __future__ import annotations

import base64

import pytest

from app.chat import ConfigurationError
from app.providers.address import Address, bearer, checked_headers


@pytest.mark.parametrize(
    ("base_url", "url", "shown"),
    [
        ("http://host:8080/v1", "http://host:8080/v1/chat/completions", "http://host:8080/v1"),
        (" https://host/v1/ \n", "https://host/v1/chat/completions", "https://host/v1"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions", "https://host/v1"),
        ("https://host/v1/chat/completions/", "https://host/v1/chat/completions", "https://host/v1"),
        ("http://host", "http://host/chat/completions", "http://host"),
        ("http://[::1]:9/a//", "http://[::1]:9/a/chat/completions", "http://[::1]:9/a"),
        ("https://host/v1?key=abc&v=2#part", "https://host/v1/chat/completions?key=abc&v=2", "https://host/v1"),
    ],
)
def test_a_base_url_is_understood_in_the_forms_that_people_write(base_url: str, url: str, shown: str) -> None:
    address = Address.of(base_url)

    assert (address.url, address.shown, address.headers) == (url, shown, {})


@pytest.mark.fault("X01")
def test_secrets_of_a_base_url_are_used_and_never_shown() -> None:
    address = Address.of("https://ann:p%40ss@host/v1?api-key=abc&api-version=2")

    encoded = base64.b64encode(b"ann:p@ss").decode()
    assert address.headers == {"Authorization": f"Basic {encoded}"}
    assert address.url == "https://host/v1/chat/completions?api-key=abc&api-version=2"
    assert set(address.secrets) == {"p@ss", encoded, "abc"}
    assert repr(address) == "Address(shown='https://host/v1')"


@pytest.mark.fault("C05", "X01")
@pytest.mark.parametrize(
    "base_url",
    ["", "host/v1", "localhost:8080", "ftp://host", "http://", "http://sec@ret:x:y", "http://[secret", "//host"],
)
def test_what_is_no_address_stops_the_start_and_is_not_repeated(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="GATEWAY_MODEL__BASE_URL") as caught:
        Address.of(base_url)
    assert "secret" not in str(caught.value)


def test_a_key_becomes_a_bearer_token() -> None:
    assert bearer("abc") == {"Authorization": "Bearer abc"}
    assert bearer("") == {}


@pytest.mark.fault("X01", "X08")
@pytest.mark.parametrize("key", ["sk-abc\rdef", "sk-abc\ndef", "sk-ab\x00c", "sk-café", "sk-\u2028abc", "sk-abc\x7f"])
def test_a_key_that_cannot_be_sent_stops_the_start_and_is_not_repeated(key: str) -> None:
    with pytest.raises(ConfigurationError, match="GATEWAY_MODEL__API_KEY") as caught:
        bearer(key)
    assert "sk-" not in str(caught.value)


@pytest.mark.fault("X01")
def test_a_header_that_cannot_be_sent_stops_the_start_and_is_not_repeated() -> None:
    assert checked_headers({"X-Title": "Harbour"}) == {"X-Title": "Harbour"}
    with pytest.raises(ConfigurationError, match="X-Title") as caught:
        checked_headers({"X-Title": "secret\r\nX-More: 1"})
    assert "secret" not in str(caught.value)
