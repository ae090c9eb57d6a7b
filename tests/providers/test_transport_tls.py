"""The default transport over TLS: who is trusted, and what is said where somebody is not."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.chat import ModelProtocolError, ModelUnavailable
from app.providers import http_pool
from app.providers.transport import WireRequest
from app.providers.transport_http import HttpTransport

pytestmark = pytest.mark.server

TLS = Path(__file__).parents[1] / "support" / "tls"


@pytest.fixture(autouse=True)
def _trust_of_its_own() -> Iterator[None]:
    http_pool._trust.cache_clear()
    yield
    http_pool._trust.cache_clear()


@pytest.fixture
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "certificate.pem"))


async def _accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    await writer.drain()
    writer.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Where a server answers over TLS, as `localhost`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    server = await asyncio.start_server(_accept, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def asked(url: str) -> bytes:
    """What is answered at an address."""
    transport = HttpTransport()
    try:
        answer = await transport.send(WireRequest(url, b"{}", {}, connect_timeout=10, shown_url=url))
        return await answer.read()
    finally:
        await transport.aclose()


@pytest.mark.usefixtures("_trusted")
async def test_a_server_whose_certificate_is_trusted_is_asked_over_tls(port: int) -> None:
    assert await asked(f"https://localhost:{port}/v1") == b"ok"


async def test_a_server_whose_certificate_nobody_vouches_for_is_not_asked(port: int) -> None:
    with pytest.raises(ModelUnavailable, match=r"cannot be reached: .*certificate verify failed"):
        await asked(f"https://localhost:{port}/v1")


@pytest.mark.usefixtures("_trusted")
async def test_a_certificate_for_another_name_is_none(port: int) -> None:
    with pytest.raises(ModelUnavailable, match=r"cannot be reached: .*certificate verify failed.*127\.0\.0\.1"):
        await asked(f"https://127.0.0.1:{port}/v1")


async def test_a_server_that_speaks_tls_does_not_answer_who_does_not(port: int) -> None:
    with pytest.raises((ModelUnavailable, ModelProtocolError)):
        await asked(f"http://localhost:{port}/v1")
