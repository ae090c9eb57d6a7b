"""The model against a real server on loopback, over either transport."""

from __future__ import annotations

import asyncio
import gzip
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager
from typing import Any, TypeAlias

import httpx2
import pytest
from openai import AsyncAzureOpenAI, AsyncOpenAI, OpenAIError

from app.chat import (
    ChatEvent,
    ModelProtocolError,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
    Prompt,
    TextDelta,
)
from app.providers.clock import Timeouts
from app.providers.openai import OpenAIModel
from app.providers.transport import WireRequest
from app.providers.transport_aiohttp import AiohttpTransport
from app.providers.transport_http import HttpTransport
from app.providers.transport_openai import OpenAITransport
from tests.support.chunks import chunk, completion, event, text_stream
from tests.support.model_server import BREAK, HANG, Answer, Exchange, ModelServer
from tests.support.modes import both_modes

pytestmark = pytest.mark.server

HI = Prompt.of("Hi")
TRUST = ssl.create_default_context()
"""Made once: loading the certificates takes longer than a test."""
KEY = "sk-loopback-0123456789"
PATIENCE = 10.0

Models: TypeAlias = Callable[..., OpenAIModel]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as started:
        yield started


@pytest.fixture(params=["http", "aiohttp", "openai"])
async def make_model(request: pytest.FixtureRequest) -> AsyncIterator[Models]:
    """Makes a model over one of the transports; `connections` bounds its pool."""
    async with AsyncExitStack() as closing:

        def make(base_url: str, *, connections: int = 100, **options: Any) -> OpenAIModel:
            if request.param != "openai":
                kind = HttpTransport if request.param == "http" else AiohttpTransport
                transport = kind(max_connections=connections)
                model = OpenAIModel(base_url, api_key=KEY, transport=transport, **options)
            else:
                limits = httpx2.Limits(max_connections=connections)
                http_client = httpx2.AsyncClient(limits=limits, trust_env=False, verify=TRUST)
                client = AsyncOpenAI(base_url=base_url, api_key=KEY, http_client=http_client)
                model = OpenAIModel(base_url, transport=OpenAITransport(client), **options)
            closing.push_async_callback(model.aclose)
            return model

        yield make


async def ask(model: OpenAIModel, prompt: Prompt = HI, *, stream: bool) -> str:
    async with asyncio.timeout(PATIENCE):
        if not stream:
            return (await model.call(prompt)).content
        return "".join([one.text async for one in model.stream(prompt) if isinstance(one, TextDelta)])


@asynccontextmanager
async def listening(model: OpenAIModel) -> AsyncIterator[AsyncIterator[ChatEvent]]:
    async with asyncio.timeout(PATIENCE), aclosing(model.stream(HI)) as events:
        yield events


@both_modes
async def test_the_server_gets_one_chat_completion_and_nothing_else(
    server: ModelServer, make_model: Models, stream: bool
) -> None:
    server.will(Answer(text_stream("Pier 4.")) if stream else Answer.json(completion("Pier 4.")))
    model = make_model(server.base_url, model="probe")

    assert await ask(model, stream=stream) == "Pier 4."

    [exchange] = server.exchanges
    assert (exchange.method, exchange.path) == ("POST", "/v1/chat/completions")
    assert exchange.headers["authorization"] == f"Bearer {KEY}"
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.body["messages"] == [{"role": "user", "content": "Hi"}]


async def test_a_piece_is_told_before_the_next_is_written(server: ModelServer, make_model: Models) -> None:
    gate = asyncio.Event()
    rest = event(chunk({"content": "later"})) + event(chunk(finish="stop"))
    server.will(Answer(event(chunk({"content": "now"})), gate, rest))

    async with listening(make_model(server.base_url)) as events:
        assert await anext(events) == TextDelta("now")
        gate.set()
        assert await anext(events) == TextDelta("later")


@both_modes
@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_answers_framed_in_any_way_are_read_to_their_end(
    server: ModelServer, make_model: Models, stream: bool, framing: Any
) -> None:
    server.always(Answer(text_stream("a", "b"), framing=framing))
    model = make_model(server.base_url)

    assert [await ask(model, stream=stream) for _ in range(3)] == ["ab"] * 3
    assert server.connections == (3 if framing == "close" else 1), "a line that is read to its end is used again"


@both_modes
async def test_a_compressed_answer_is_read(server: ModelServer, make_model: Models, stream: bool) -> None:
    server.will(Answer(gzip.compress(text_stream("a")), headers={"Content-Encoding": "gzip"}))

    assert await ask(make_model(server.base_url), stream=stream) == "a"


@both_modes
async def test_a_large_request_is_sent(server: ModelServer, make_model: Models, stream: bool) -> None:
    server.will(Answer(text_stream("a")))

    await ask(make_model(server.base_url), Prompt.of("x" * 2_000_000), stream=stream)

    assert len(server.exchanges[0].body["messages"][0]["content"]) == 2_000_000


@pytest.mark.parity(172)
@pytest.mark.fault("D07")
async def test_leaving_a_stream_is_seen_by_the_server_at_once(server: ModelServer, make_model: Models) -> None:
    server.will(Answer(event(chunk({"content": "a"})), HANG))

    async with listening(make_model(server.base_url)) as events:
        await anext(events)
        assert not server.exchanges[0].gone.is_set()

    async with asyncio.timeout(PATIENCE):
        await server.exchanges[0].gone.wait()


@both_modes
@pytest.mark.parity(172)
@pytest.mark.fault("D07")
@pytest.mark.parametrize("begun", [True, False], ids=["in the answer", "before it"])
async def test_cancelling_a_call_is_seen_by_the_server_at_once(
    server: ModelServer, make_model: Models, stream: bool, begun: bool
) -> None:
    server.will(Answer(event(chunk({"content": "a"})), HANG) if begun else Answer(HANG))
    asking = asyncio.create_task(ask(make_model(server.base_url), stream=stream))
    exchange = await server.request()

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    async with asyncio.timeout(PATIENCE):
        await exchange.gone.wait()


AT_ONCE = 1.0
"""Seconds within which a server has to see that its client has left."""
PHASES = {
    "before the head": (HANG,),
    "behind the head": (b"", HANG),
    "in the body": (event(chunk({"content": "a"})), HANG),
    "in silence": (event(chunk({"content": "a"})), b": still here\n\n", HANG),
    "in an error's body": (b'{"error": {"mess', HANG),
}


@both_modes
@pytest.mark.parity(172)
@pytest.mark.fault("D07", "D10")
@pytest.mark.parametrize("phase", PHASES)
async def test_a_cancelled_call_closes_its_line_at_once_in_every_phase(
    server: ModelServer, make_model: Models, stream: bool, phase: str
) -> None:
    server.will(Answer(*PHASES[phase], status=400 if "error" in phase else 200))
    asking = asyncio.create_task(ask(make_model(server.base_url), stream=stream))
    exchange = await server.request()
    if phase != "before the head":
        await exchange.told.wait()

    asking.cancel()

    async with asyncio.timeout(AT_ONCE):
        await exchange.gone.wait()
    await server.until(lambda: server.open_connections == 0)
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.fault("D07", "D09")
async def test_hundreds_of_cancelled_streams_leave_no_line_and_no_task(server: ModelServer, make_model: Models) -> None:
    model = make_model(server.base_url, connections=50)
    server.always(Answer(event(chunk({"content": "a"})), HANG))
    before = asyncio.all_tasks()

    for turn in range(1, 9):
        asking = [asyncio.create_task(ask(model, stream=True)) for _ in range(50)]
        async with asyncio.timeout(PATIENCE):
            await server.request(50 * turn)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        async with asyncio.timeout(PATIENCE):
            await server.until(lambda: server.open_connections == 0)

    assert len(server.exchanges) == 400
    assert asyncio.all_tasks() == before


@pytest.mark.fault("D07")
async def test_streams_that_are_left_do_not_use_up_the_pool(server: ModelServer, make_model: Models) -> None:
    model = make_model(server.base_url, connections=2)
    server.will(*[Answer(event(chunk({"content": "a"})), HANG)] * 6, Answer(text_stream("free")))

    for _ in range(3):
        async with listening(model) as one, listening(model) as other:
            await asyncio.gather(anext(one), anext(other))

    assert await ask(model, stream=True) == "free"
    await server.until(lambda: server.open_connections == 1)


@both_modes
@pytest.mark.fault("D08")
async def test_a_storm_of_refusals_does_not_use_up_the_pool(
    server: ModelServer, make_model: Models, stream: bool
) -> None:
    model = make_model(server.base_url, connections=2)
    server.will(*[Answer.json({"error": {"message": "slow down"}}, status=429, retry_after="2")] * 20)
    server.always(Answer(text_stream("free")))

    refused = await asyncio.gather(*(ask(model, stream=stream) for _ in range(20)), return_exceptions=True)

    assert [type(one) for one in refused] == [ModelRateLimited] * 20
    assert all(isinstance(one, ModelRateLimited) and one.retry_after == 2.0 for one in refused)
    assert await ask(model, stream=stream) == "free"
    assert len(server.exchanges) == 21, "nothing was tried twice"


@pytest.mark.fault("D09")
async def test_after_a_storm_of_cancellations_the_pool_is_whole(server: ModelServer, make_model: Models) -> None:
    model = make_model(server.base_url, connections=4)
    chance = random.Random(7)  # noqa: S311 - no secret
    server.always(Answer(event(chunk({"content": "a"})), text_stream("b")))

    for _ in range(6):
        asking = [asyncio.create_task(ask(model, stream=chance.random() < 0.5)) for _ in range(12)]
        for task in asking:
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    assert await asyncio.gather(*(ask(model, stream=True) for _ in range(8))) == ["ab"] * 8
    await server.until(lambda: server.open_connections <= 4)


@both_modes
@pytest.mark.fault("E09")
async def test_a_server_that_is_not_there_is_told_apart_from_one_that_fails(
    server: ModelServer, make_model: Models, stream: bool
) -> None:
    server.will(Answer.json({"error": {"message": "boom"}}, status=500))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        with pytest.raises(ModelUnavailable, match="cannot be reached") as absent:
            await ask(make_model(nowhere), stream=stream)
    with pytest.raises(ModelUnavailable, match="boom") as failing:
        await ask(make_model(server.base_url), stream=stream)

    assert (absent.value.status, absent.value.code) == (None, "unreachable")
    assert (failing.value.status, failing.value.code) == (500, None)


@both_modes
@pytest.mark.fault("E09")
async def test_a_server_that_does_not_take_the_connection_is_a_timeout(make_model: Models, stream: bool) -> None:
    with socket.socket() as busy, ExitStack() as waiting:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        for _ in range(3):  # until its queue is full
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(busy.getsockname())
        model = make_model(f"http://127.0.0.1:{busy.getsockname()[1]}/v1", timeouts=Timeouts(connect=0.1))

        with pytest.raises(ModelTimeout, match="No connection") as caught:
            await ask(model, stream=stream)

    assert caught.value.code == "connect_timeout"


@pytest.mark.fault("D10", "E09")
async def test_silence_before_and_within_an_answer_is_a_timeout(server: ModelServer, make_model: Models) -> None:
    server.will(Answer(HANG), Answer(event(chunk({"content": "a"})), HANG))
    model = make_model(server.base_url, timeouts=Timeouts(first_byte=0.1, idle=0.1))

    for code, exchange in (("first_byte_timeout", 1), ("idle_timeout", 2)):
        with pytest.raises(ModelTimeout) as caught:
            await ask(model, stream=True)
        assert caught.value.code == code
        await (await server.request(exchange)).gone.wait()


@both_modes
@pytest.mark.fault("D10", "E09")
async def test_an_answer_whose_body_stops_is_a_timeout_in_both_modes(
    server: ModelServer, make_model: Models, stream: bool
) -> None:
    half = event(chunk({"content": "a"})) if stream else completion("Pier 4.")[:20]
    server.will(Answer(half, HANG))

    with pytest.raises(ModelTimeout, match="silent for") as caught:
        await ask(make_model(server.base_url, timeouts=Timeouts(idle=0.1)), stream=stream)

    assert caught.value.code == "idle_timeout"
    await (await server.request()).gone.wait()


@both_modes
@pytest.mark.parity(177)
async def test_the_timeout_option_reaches_the_call(server: ModelServer, make_model: Models, stream: bool) -> None:
    server.will(Answer(b"", HANG))

    with pytest.raises(ModelTimeout, match="longer than"):
        await ask(make_model(server.base_url), Prompt.of("Hi", timeout=0.1), stream=stream)

    await (await server.request()).gone.wait()


@both_modes
@pytest.mark.fault("U19")
@pytest.mark.parametrize("begun", [True, False], ids=["in the answer", "before it"])
async def test_a_line_that_breaks_is_an_error(
    server: ModelServer, make_model: Models, stream: bool, begun: bool
) -> None:
    server.will(Answer(event(chunk({"content": "a"})), BREAK) if begun else Answer(BREAK))

    with pytest.raises(ModelProtocolError if begun else ModelUnavailable) as caught:
        await ask(make_model(server.base_url), stream=stream)

    assert caught.value.code == ("truncated" if begun else "unreachable")
    assert len(server.exchanges) == 1


class Gibberish(Answer):
    """An answer without a head, of a server that speaks something else than HTTP."""

    def __init__(self) -> None:
        super().__init__(b"\x15\x03\x01 this is no HTTP\r\n\r\n", framing="close")

    def head(self) -> bytes:
        return b""


@both_modes
@pytest.mark.fault("E09")
async def test_a_server_that_does_not_speak_http_is_told_apart_from_one_that_is_not_there(
    server: ModelServer, make_model: Models, stream: bool
) -> None:
    server.will(Gibberish())

    with pytest.raises(ModelProtocolError, match=r"does not speak HTTP.*GATEWAY_MODEL__BASE_URL") as caught:
        await ask(make_model(server.base_url), stream=stream)

    assert caught.value.code == "not_http"


@both_modes
@pytest.mark.fault("E06")
async def test_an_error_whose_body_breaks_is_an_error(server: ModelServer, make_model: Models, stream: bool) -> None:
    server.will(Answer(b'{"error": {"message": "No', BREAK, status=400))

    with pytest.raises((ModelRejected, ModelProtocolError)) as caught:
        await ask(make_model(server.base_url), stream=stream)

    assert (caught.value.status, caught.value.code) in {(400, None), (None, "truncated")}  # aiohttp; the SDK hides it


@both_modes
@pytest.mark.fault("C05")
async def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else(
    server: ModelServer, make_model: Models, stream: bool
) -> None:
    async with ModelServer() as elsewhere:
        for status in (301, 302, 307, 308):
            server.will(Answer.json({}, status=status, Location=f"{elsewhere.base_url}/chat/completions"))
            with pytest.raises(ModelRejected, match="redirects") as caught:
                await ask(make_model(server.base_url), stream=stream)
            assert elsewhere.base_url in str(caught.value)

        assert elsewhere.exchanges == []


@both_modes
async def test_the_key_that_the_server_echoes_is_masked(
    server: ModelServer, make_model: Models, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def echo(exchange: Exchange) -> Answer:
        return Answer.json({"error": {"message": f"bad header {exchange.headers['authorization']}"}}, status=401)

    server.always(echo)
    caplog.set_level("DEBUG")

    with pytest.raises(ModelRejected, match="bad header Bearer") as caught:
        await ask(make_model(server.base_url), stream=stream)

    assert KEY not in f"{caught.value!r} {caught.value.__context__!r} {caplog.text}"


@both_modes
@pytest.mark.parametrize("cookie", ["session=1", "session=\xdf"], ids=["plain", "one that cannot be sent back"])
async def test_cookies_are_not_kept(server: ModelServer, make_model: Models, stream: bool, cookie: str) -> None:
    server.always(Answer(text_stream("a"), headers={"Set-Cookie": cookie}))
    model = make_model(server.base_url)

    await ask(model, stream=stream)
    await ask(model, stream=stream)

    assert "cookie" not in server.exchanges[1].headers


async def test_a_request_into_a_line_that_the_server_has_just_closed_is_sent_over_another(server: ModelServer) -> None:
    server.will(Answer(text_stream("one")), Answer(BREAK), Answer(text_stream("two")))
    model = OpenAIModel(server.base_url)

    assert [await ask(model, stream=True), await ask(model, stream=False)] == ["one", "two"]
    assert server.connections == 2
    await model.aclose()


async def test_a_proxy_of_the_environment_is_used_unless_it_says_otherwise(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.always(Answer(text_stream("through")))
    host = server.base_url.removeprefix("http://").removesuffix("/v1")
    monkeypatch.setenv("http_proxy", host)
    monkeypatch.setenv("no_proxy", "near.example")
    model = OpenAIModel("http://far.example/v1")

    assert await ask(model, stream=True) == "through"
    assert server.exchanges[0].path == "http://far.example/v1/chat/completions"
    monkeypatch.setenv("http_proxy", f"http://{host}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    near = OpenAIModel(server.base_url)
    assert await ask(near, stream=True) == "through"
    assert server.exchanges[1].path == "/v1/chat/completions"
    await near.aclose()
    await model.aclose()


async def test_a_proxy_that_refuses_is_named(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.always(Answer.json({}, status=407))
    monkeypatch.setenv("https_proxy", server.base_url.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "")
    model = OpenAIModel("https://far.example/v1?key=in-the-url")

    with pytest.raises(ModelUnavailable, match="the proxy answered 407") as caught:
        await ask(model, stream=True)

    assert "in-the-url" not in str(caught.value)
    await model.aclose()


async def test_a_server_that_never_ends_its_handshake_is_a_timeout(server: ModelServer) -> None:
    model = OpenAIModel(server.base_url.replace("http:", "https:"), timeouts=Timeouts(connect=0.1))

    with pytest.raises(ModelTimeout, match="No connection"):
        await ask(model, stream=True)

    await model.aclose()


@both_modes
@pytest.mark.fault("D09")
async def test_waiting_for_a_free_line_has_its_limit(server: ModelServer, make_model: Models, stream: bool) -> None:
    server.will(Answer(event(chunk({"content": "a"})), HANG), Answer(text_stream("free")))
    model = make_model(server.base_url, connections=1, timeouts=Timeouts(connect=0.1))

    async with listening(model) as events:
        await anext(events)
        with pytest.raises(ModelTimeout, match="No connection"):
            await ask(model, stream=stream)

    assert await ask(model, stream=stream) == "free"


async def test_a_header_that_the_library_refuses_is_an_error_that_does_not_repeat_it(server: ModelServer) -> None:
    transport = AiohttpTransport()
    headers = {"Authorization": "secret\r\nX: 1"}
    request = WireRequest(server.base_url, b"{}", headers, 1.0, server.base_url)

    with pytest.raises(ModelUnavailable, match="ValueError") as caught:
        await transport.send(request)

    assert "secret" not in str(caught.value)
    await transport.aclose()


@pytest.mark.fault("K06")
def test_one_transport_serves_one_event_loop_after_another() -> None:
    transport = AiohttpTransport()

    async def once() -> str:
        async with ModelServer() as server:
            server.always(Answer(text_stream("here"), framing="close"))
            return await ask(OpenAIModel(server.base_url, transport=transport), stream=True)

    async def close() -> None:
        await transport.aclose()
        await transport.aclose()

    assert [asyncio.run(once()), asyncio.run(once())] == ["here", "here"]
    asyncio.run(close())


async def test_the_sdks_own_addresses_and_headers_are_used(server: ModelServer) -> None:
    server.always(Answer(text_stream("azure")))
    client = AsyncAzureOpenAI(
        azure_endpoint=server.base_url.removesuffix("/v1"),
        api_key="azure-key-42",
        api_version="2030-01-01",
        http_client=httpx2.AsyncClient(trust_env=False, verify=TRUST),
    )
    model = OpenAIModel(server.base_url, model="probe", transport=OpenAITransport(client), headers={"X-Title": "H"})

    assert await ask(model, stream=True) == "azure"

    [exchange] = server.exchanges
    assert exchange.path == "/openai/deployments/probe/chat/completions?api-version=2030-01-01"
    assert (exchange.headers["api-key"], exchange.headers["x-title"]) == ("azure-key-42", "H")
    await model.aclose()


async def test_what_the_sdk_cannot_authenticate_is_an_error_without_the_reason_s_words() -> None:
    async def no_token() -> str:
        raise OpenAIError("the token service said hidden-token-7")

    client = AsyncAzureOpenAI(
        azure_endpoint="http://127.0.0.1:1", azure_ad_token_provider=no_token, api_version="2030-01-01"
    )
    model = OpenAIModel("http://127.0.0.1:1", model="probe", transport=OpenAITransport(client))

    with pytest.raises(ModelUnavailable, match="cannot be reached: OpenAIError") as caught:
        await ask(model, stream=True)

    assert "hidden-token-7" not in f"{caught.value!r} {caught.value.__cause__!r}"
    await model.aclose()
