"""The default transport before servers that write exact bytes: what HTTP allows, what it does not, what comes late."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import weakref
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest

from app.chat import ModelProtocolError, ModelTimeout, ModelUnavailable
from app.providers.http_line import Answer, Line
from app.providers.transport import WireRequest, WireResponse
from app.providers.transport_http import HttpTransport
from tests.support.gates import PATIENCE
from tests.support.loop_time import LoopTime

pytestmark = pytest.mark.server

Speak: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Hands each connection to what speaks for it, and counts them."""

    def __init__(self, speak: Speak) -> None:
        self.speak = speak
        self.url = ""
        self.connections = 0
        self.heads: list[bytes] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self.speak(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left
        finally:
            writer.close()

    async def request(self, reader: asyncio.StreamReader) -> bytes:
        """The body of the next request."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return await reader.readexactly(length)


@asynccontextmanager
async def serving(*answers: bytes) -> AsyncIterator[Server]:
    """A server whose connections give each request the next answer, and the last one for ever."""
    left = list(answers)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await server.request(reader)
            writer.write(left.pop(0) if len(left) > 1 else left[0])

    server = Server(speak)
    async with listening(server):
        yield server


@asynccontextmanager
async def listening(server: Server, patience: float = PATIENCE) -> AsyncIterator[None]:
    listener = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1/chat/completions"
    async with asyncio.timeout(patience), listener:
        yield


@pytest.fixture
async def transport() -> AsyncIterator[HttpTransport]:
    made = HttpTransport()
    yield made
    await made.aclose()


@pytest.fixture
async def time(monkeypatch: pytest.MonkeyPatch) -> LoopTime:
    """The time of the test's event loop."""
    return LoopTime(monkeypatch)


def request_to(url: str, body: bytes = b"{}", connect_timeout: float | None = 5.0) -> WireRequest:
    return WireRequest(url, body, {"Accept": "application/json"}, connect_timeout, "there")


async def whole(response: WireResponse) -> bytes:
    pieces = []
    while piece := await response.read():
        pieces.append(piece)
    await response.aclose()
    return b"".join(pieces)


async def asked(transport: HttpTransport, server: Server) -> bytes:
    return await whole(await transport.send(request_to(server.url)))


async def test_a_request_has_the_head_that_servers_want(transport: HttpTransport) -> None:
    async with serving(OK) as server:
        server.url += "?key=a b&x=ä"

        assert await asked(transport, server) == b"ok"

    host = server.url.split("/")[2]
    assert server.heads == [
        b"POST /v1/chat/completions?key=a%20b&x=%C3%A4 HTTP/1.1\r\n"
        + f"Host: {host}\r\n".encode()
        + b"Content-Type: application/json\r\nUser-Agent: advisor-gateway\r\nAccept: application/json\r\n"
        + b"Content-Length: 2\r\n\r\n"
    ]


@pytest.mark.parametrize(
    "interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"]
)
async def test_an_interim_answer_is_none(transport: HttpTransport, interim: bytes) -> None:
    async with serving(interim + OK) as server:
        response = await transport.send(request_to(server.url))

        assert (response.status, dict(response.headers)) == (200, {"content-length": "2"})
        assert await whole(response) == b"ok"


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_answers_without_a_body_are_whole_with_their_head(transport: HttpTransport, status: bytes) -> None:
    async with serving(b"HTTP/1.1 %b\r\n\r\n" % status) as server:
        assert [await asked(transport, server) for _ in range(2)] == [b"", b""]
        assert server.connections == 1


async def test_what_is_there_is_taken_without_waiting(transport: HttpTransport) -> None:
    async with serving(OK) as server:
        response = await transport.send(request_to(server.url))

        assert [response.take(), response.take()] == [b"ok", b""]


async def test_the_trailers_of_chunks_are_no_headers(transport: HttpTransport) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Late: 1\r\n\r\n"
    async with serving(chunked) as server:
        response = await transport.send(request_to(server.url))

        assert await whole(response) == b"ok"
        assert "x-late" not in response.headers


@pytest.mark.parametrize("more", [OK, OK[:20], b"nonsense"], ids=["an answer", "half a one", "nonsense"])
async def test_a_line_that_brings_more_than_was_asked_for_is_not_used_again(
    transport: HttpTransport, more: bytes
) -> None:
    async with serving(OK + more) as server:
        assert [await asked(transport, server) for _ in range(2)] == [b"ok", b"ok"]
        assert server.connections == 2


async def test_a_line_that_speaks_unasked_is_closed(transport: HttpTransport) -> None:
    told, closed = asyncio.Event(), asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(OK)
        await told.wait()
        writer.write(OK)
        await reader.read()
        closed.set()

    server = Server(speak)
    async with listening(server):
        assert await asked(transport, server) == b"ok"
        told.set()
        await closed.wait()
        assert await asked(transport, server) == b"ok"

    assert server.connections == 2


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n...",
    ],
    ids=["endless", "no head", "another protocol"],
)
async def test_what_has_no_head_of_http_is_an_error(transport: HttpTransport, head: bytes) -> None:
    async with serving(head) as server:
        with pytest.raises(ModelProtocolError, match="does not speak HTTP") as caught:
            await transport.send(request_to(server.url))

    assert caught.value.code == "not_http"


async def test_chunks_that_are_none_are_a_broken_answer(transport: HttpTransport) -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nnonsense\r\n") as server:
        response = await transport.send(request_to(server.url))

        with pytest.raises(ModelProtocolError, match="broke in the middle"):
            await whole(response)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_body_is_unpacked_in_pieces_of_bounded_size(transport: HttpTransport, encoding: str) -> None:
    text = os.urandom(1000) + b"x" * 3_000_000
    packed = gzip.compress(text) if encoding == "gzip" else zlib.compress(text)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    async with serving(head + packed) as server:
        response = await transport.send(request_to(server.url))
        pieces = []
        while piece := await response.read():
            pieces.append(piece)

    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= 2**18


async def test_a_body_that_is_compressed_by_its_label_only_is_an_error(transport: HttpTransport) -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok") as server:
        response = await transport.send(request_to(server.url))

        with pytest.raises(ModelProtocolError, match="cannot be unpacked"):
            await response.read()


async def test_a_server_that_is_faster_than_the_reader_has_to_wait(transport: HttpTransport) -> None:
    size, written = 64 * 2**20, 0

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await server.request(reader)
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        while written < size:
            writer.write(bytes(2**16))
            written += 2**16
            await writer.drain()
        await server.request(reader)
        writer.write(OK)
        await reader.read()

    server = Server(speak)
    async with listening(server):
        response = await transport.send(request_to(server.url))
        while True:
            before = written
            for _ in range(100):
                await asyncio.sleep(0)
            if written == before:
                break

        assert written < size
        assert len(await whole(response)) == size
        assert await asked(transport, server) == b"ok"
        assert server.connections == 1


async def test_a_line_that_is_idle_for_too_long_is_closed() -> None:
    closed = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(OK)
        await reader.read()
        closed.set()

    server, transport = Server(speak), HttpTransport(keep_alive=0.01)
    async with listening(server):
        assert await asked(transport, server) == b"ok"
        await closed.wait()
        assert await asked(transport, server) == b"ok"

    assert server.connections == 2
    await transport.aclose()


async def test_who_waits_for_a_line_gets_the_next_that_is_free_and_who_gives_up_leaves_it_to_others() -> None:
    gate = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await server.request(reader)
            writer.write(OK[:-1])
            await gate.wait()
            writer.write(OK[-1:])

    server, transport = Server(speak), HttpTransport(max_connections=1)
    async with listening(server):
        held = await transport.send(request_to(server.url))
        waiting = [asyncio.create_task(asked(transport, server)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        with pytest.raises(ModelTimeout, match="No connection"):
            await transport.send(request_to(server.url, connect_timeout=0.01))
        gate.set()

        assert await whole(held) == b"ok"
        assert await asyncio.gather(*waiting[1:]) == [b"ok", b"ok"]
        assert server.connections == 1
        await transport.aclose()


async def test_who_gives_up_in_the_moment_in_which_a_line_is_free_leaves_it_to_the_next() -> None:
    async with serving(OK[:-1]) as server:
        transport = HttpTransport(max_connections=1)
        held = await transport.send(request_to(server.url))
        waiting = [asyncio.create_task(transport.send(request_to(server.url))) for _ in range(2)]
        await asyncio.sleep(0)

        await held.aclose()
        waiting[0].cancel()
        response = await waiting[1]

        assert (waiting[0].cancelled(), response.status, server.connections) == (True, 200, 2)
        await transport.aclose()


async def test_lines_that_were_used_later_are_closed_later(time: LoopTime) -> None:
    names = iter("ab")
    going_on, closed = ({name: asyncio.Event() for name in "ab"} for _ in range(2))

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = next(names)
        await server.request(reader)
        writer.write(OK[:-1])
        await going_on[name].wait()
        writer.write(OK[-1:])
        await reader.read()
        closed[name].set()

    async def is_closed(name: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await closed[name].wait()

    server, transport = Server(speak), HttpTransport(keep_alive=100)
    async with listening(server, patience=1000):
        responses = [await transport.send(request_to(server.url)) for _ in "ab"]
        for name, response in zip("ab", responses, strict=True):
            going_on[name].set()
            assert await whole(response) == b"ok"
            await time.passes(60)
        await is_closed("a")
        assert not closed["b"].is_set()
        await time.passes(100)
        await is_closed("b")
    await transport.aclose()


async def test_a_line_that_broke_before_it_was_asked_has_no_answer() -> None:
    freed: list[bool] = []
    line = Line(lambda _, is_reusable: freed.append(is_reusable))
    line.connection_made(asyncio.Transport())
    line.connection_lost(ConnectionResetError())

    with pytest.raises(ConnectionResetError):
        line.ask(b"head", b"body")
    line.close()
    line.close()

    assert (line.is_open, freed) == (False, [False])


async def test_an_answer_that_ends_with_its_line_is_whole_though_its_server_had_to_wait() -> None:
    freed: list[bool] = []
    calls: list[str] = []

    class Wire(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            calls.append(f"write {len(data)}")

        def is_closing(self) -> bool:
            return False

        def pause_reading(self) -> None:
            calls.append("pause")

        def abort(self) -> None:
            calls.append("abort")

    line = Line(lambda _, is_reusable: freed.append(is_reusable))
    line.connection_made(Wire())
    answer = line.ask(b"head", b"")
    line.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
    await answer.begin()
    line.data_received(bytes(2**19))

    line.connection_lost(None)

    assert len(await whole(answer)) == 2**19
    assert (calls, freed) == (["write 4", "pause"], [False])


@pytest.mark.parametrize("headers", [{"X": "a\r\nY: secret"}, {"X\nY": "secret"}, {"X": "secret\0"}])
async def test_a_header_that_would_be_several_is_not_sent_nor_told(
    transport: HttpTransport, headers: dict[str, str]
) -> None:
    async with serving(OK) as server:
        with pytest.raises(ModelUnavailable) as caught:
            await transport.send(WireRequest(server.url, b"{}", headers, 5.0, "there"))
        assert server.connections == 0

    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_all_that_goes_over_a_proxy_goes_over_the_same_line(
    transport: HttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(OK) as server:
        monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1/chat/completions"))
        monkeypatch.setenv("no_proxy", "")
        urls = [f"http://far.example/{path}" for path in ("one", "two")]

        assert [await whole(await transport.send(request_to(url))) for url in urls] == [b"ok", b"ok"]

        assert [head.split(b" ")[1].decode() for head in server.heads] == urls
        assert server.connections == 1


async def test_closing_the_transport_breaks_what_is_under_way(transport: HttpTransport) -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok") as server:
        response = await transport.send(request_to(server.url))
        assert await response.read() == b"ok"
        await transport.aclose()

        with pytest.raises(ModelProtocolError, match="broke in the middle"):
            await response.read()


async def test_an_answer_is_gone_without_a_collection_of_garbage(transport: HttpTransport) -> None:
    async with serving(OK) as server:
        gc.disable()
        try:
            response = await transport.send(request_to(server.url))
            assert isinstance(response, Answer)
            gone = weakref.ref(response)
            await whole(response)
            del response
            assert gone() is None
        finally:
            gc.enable()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://bücher.invalid/v1", "gaierror|Name or service|nodename|Temporary failure|No address"),
        ("http://[::1]:1/v1", "Connect call failed|Cannot assign|unreachable|not supported"),
    ],
    ids=["no such host", "nobody listens"],
)
async def test_a_server_that_is_not_there_is_an_error(transport: HttpTransport, url: str, told: str) -> None:
    with pytest.raises(ModelUnavailable, match=f"(?i){told}") as caught:
        await transport.send(request_to(url))

    assert caught.value.code == "unreachable"
