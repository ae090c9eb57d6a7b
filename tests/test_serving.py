"""The server: how it starts, drains and ends. Its end as a process is in `test_shutdown`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from app.chat import ConfigurationError
from app.main import create_app
from app.providers.scripted import ScriptedModel, tool_calls
from app.serving import Server
from app.settings import Settings
from tests.support.gates import PATIENCE
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.tools import Held
from tests.support.web import events_in

pytestmark = pytest.mark.server

ASKING = {"message": "Go on."}


class Served:
    """A server in this process that is serving.

    Attributes:
        client: a client of it.
        over: `server.serve()`, which ends with the server.
    """

    def __init__(self, client: httpx.AsyncClient, over: asyncio.Task[None]) -> None:
        self.client = client
        self.over = over

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """What the operating system does."""
        signal.raise_signal(number)

    async def ended(self) -> None:
        """Wait until the server has gone."""
        await asyncio.wait_for(asyncio.shield(self.over), PATIENCE)


class Announcing(Server):
    """A server that says when it serves."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(app, "127.0.0.1", 0)
        self.is_serving = asyncio.Event()

    async def main_loop(self) -> None:
        self.is_serving.set()
        await super().main_loop()


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[Served]:
    server = Announcing(app)
    serving = asyncio.create_task(server.serve())
    await asyncio.wait_for(server.is_serving.wait(), PATIENCE)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=PATIENCE) as client:
        yield Served(client, serving)
    server.should_exit = server.force_exit = True
    await asyncio.wait_for(serving, PATIENCE)


def gateway(tool: Held, *, drain: float) -> FastAPI:
    model = ScriptedModel(tool_calls((tool.tool.definition.name, {})), "Done.")
    return create_app(Settings(server={"drain": drain}, stream={"commit_after": 0}), model=model, tools=[tool.tool])


async def test_running_answers_end_and_new_ones_are_refused_from_the_moment_of_sigterm_on() -> None:
    tool = Held()
    async with served(gateway(tool, drain=PATIENCE)) as gate:
        running = asyncio.create_task(gate.client.post("/chat", json=ASKING))
        await tool.begun()

        gate.signal()
        ready = await gate.client.get("/readyz")
        refused = await gate.client.post("/chat", json=ASKING)
        alive = await gate.client.get("/healthz")
        tool.let_go.set()
        answer = await running
        await gate.ended()

    for answer_ in (ready, refused):
        assert answer_.status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert answer_.headers["Retry-After"]
    assert alive.status_code == httpx.codes.OK
    assert answer.json()["content"] == "Done."


async def test_a_stream_that_outlasts_the_drain_is_told_so_and_ended() -> None:
    tool = Held()
    async with served(gateway(tool, drain=0.05)) as gate:
        running = asyncio.create_task(gate.client.post("/chat/stream", json=ASKING))
        await tool.begun()

        gate.signal()
        events = events_in((await running).text)
        await gate.ended()

    assert events[-1].name == "run.failed"
    assert events[-1].data["status"] == httpx.codes.SERVICE_UNAVAILABLE
    assert tool.cancelled == 1


async def test_calls_that_a_caller_has_run_outlast_the_drain_no_more_than_runs_do() -> None:
    tool = Held()
    asking = {"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "name": tool.tool.definition.name}]}]}
    async with served(gateway(tool, drain=0.05)) as gate:
        running = asyncio.create_task(gate.client.post("/tool-calls", json=asking))
        await tool.begun()

        gate.signal()
        answer = await running
        await gate.ended()

    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert answer.json()["type"].endswith("shutting-down")
    assert tool.cancelled == 1


async def test_a_second_interrupt_ends_runs_without_waiting() -> None:
    tool = Held()
    async with served(gateway(tool, drain=PATIENCE * 10)) as gate:
        running = asyncio.create_task(gate.client.post("/chat", json=ASKING))
        await tool.begun()

        gate.signal(signal.SIGINT)
        gate.signal(signal.SIGINT)
        answer = await running
        await gate.ended()

    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert tool.cancelled == 1


def test_a_third_interrupt_waits_for_nothing() -> None:
    server = Server(gateway(Held(), drain=PATIENCE), "127.0.0.1", 0)

    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        server.handle_exit(number, None)
    assert (server.should_exit, server.force_exit) == (True, False)

    server.handle_exit(signal.SIGINT, None)
    assert server.force_exit


async def test_a_port_in_use_is_named_with_what_to_do() -> None:
    async with served(gateway(Held(), drain=0)) as gate:
        port = gate.client.base_url.port
        assert port is not None

        with pytest.raises(
            ConfigurationError, match=f"cannot listen on 127.0.0.1, port {port}: .*GATEWAY_SERVER__PORT"
        ):
            await Server(gateway(Held(), drain=0), "127.0.0.1", port).serve()


async def test_an_application_that_cannot_start_ends_the_server() -> None:
    async def broken(_: Scope, __: Receive, ___: Send) -> None:
        raise OSError("no disk")

    with pytest.raises(ConfigurationError, match="the application could not start"):
        await Server(broken, "127.0.0.1", 0).serve()


@pytest.mark.fault("C01")
@pytest.mark.parametrize(
    ("trusted", "address"), [((), "127.0.0.1"), (("10.0.0.0/8",), "127.0.0.1"), (("127.0.0.1",), "1.2.3.4")]
)
async def test_forwarded_addresses_are_believed_from_named_proxies_only(trusted: tuple[str, ...], address: str) -> None:
    seen: list[str] = []

    async def app(scope: Scope, _: Receive, __: Send) -> None:
        seen.append(scope["client"][0])

    server = Server(app, "127.0.0.1", 8000, forwarded_allow_ips=trusted)
    server.config.load()
    scope = {"type": "http", "client": ("127.0.0.1", 1), "headers": [(b"x-forwarded-for", b"1.2.3.4")]}
    await server.config.loaded_app(scope, None, None)

    assert seen == [address]


def test_the_process_says_what_is_wrong_without_a_traceback() -> None:
    process = GatewayProcess(
        {"GATEWAY_TOOLS__PACKAGES": '["no.such.package"]', "GATEWAY_MODEL__API_KEY": "sk-secret-1"}
    )
    try:
        code = process.wait()
        log = process.log
    finally:
        process.close()

    assert code == 1
    assert "no.such.package" in log
    assert "Traceback" not in log
    assert "sk-secret-1" not in log


async def test_an_idle_connection_is_kept_as_long_as_the_settings_say() -> None:
    with running_gateway({"GATEWAY_SERVER__KEEP_ALIVE": "1"}) as process:
        url = httpx.URL(process.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()  # to the end of the connection
        writer.close()

    assert answer.startswith(b"HTTP/1.1 200 ")
