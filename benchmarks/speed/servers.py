"""The servers that are measured, each a process of its own on a free loopback port."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TypeAlias

from tests.support.gateway_process import REPOSITORY, GatewayProcess, LoggedProcess, free_port

ROOM = 4096
"""Runs at a time and connections to the model server that gateways are given, where 256 and 1,000 are the defaults."""
GATEWAY, PASSTHROUGH, NGINX, MODEL_SERVER = "gateway", "FastAPI + aiohttp", "nginx", "model server alone"
PEERS: Mapping[str, str] = MappingProxyType(
    {
        "pydantic-ai": "pydantic_ai_app",
        "openai-agents": "openai_agents_app",
        "LangChain": "langchain_app",
        "Haystack": "haystack_app",
    }
)
"""Frameworks behind FastAPI, with the names of their applications."""
PEERS_PYTHON = REPOSITORY / ".venv" / "bench-peers" / "bin" / "python"
"""The interpreter of the frameworks' environment, which `make bench-peers` makes."""
QUESTION = {"message": "What is the weather in Paris?"}
_MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": QUESTION["message"]},
]
_PARTS = "benchmarks.speed.gateway_parts"
_ADVISOR = f"{_PARTS}:passing_on"
_NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 8192; }}
http {{
    access_log off; client_body_buffer_size 64k; client_max_body_size 16m; keepalive_requests 10000000;
    client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
    upstream model_server {{ server 127.0.0.1:{model_port}; keepalive 512; keepalive_requests 10000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://model_server; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
        }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Door:
    """Where to ask a server, what, and by which of `CHECKS` its answer is judged."""

    path: str
    body: str
    check: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs.

    Attributes:
        name: what it is called in tables.
        process: it, with all it starts.
        port: where it listens.
        answer: its door for whole answers.
        stream: its door for streams.
        runs_tools: whether it runs the tools that the model asks for; or else it passes one call on.
        started: when its process was made, by the monotonic clock.
    """

    name: str
    process: LoggedProcess
    port: int
    answer: Door
    stream: Door
    runs_tools: bool
    started: float = field(default_factory=time.monotonic)


Start: TypeAlias = Callable[[int], AbstractContextManager[Server]]
"""Starts a server before the model server at a port; it answers when it is given."""


@contextmanager
def gateway(
    model_port: int,
    *,
    advisors: int = 0,
    tools: int = 1,
    settings: Mapping[str, str] | None = None,
    wait: bool = True,
) -> Iterator[Server]:
    """The gateway as `python -m app serve` starts it, with its defaults but for what is said here.

    Args:
        model_port: of the model server.
        advisors: how many it has that do nothing.
        tools: how many it has in all.
        settings: more of them, by their variables.
        wait: until it answers.
    """
    with TemporaryDirectory(prefix="gateway-") as folder:
        process = GatewayProcess(
            {
                "GATEWAY_MODEL__BASE_URL": f"http://127.0.0.1:{model_port}/v1",
                "GATEWAY_MODEL__MAX_CONNECTIONS": str(ROOM),
                "GATEWAY_RUNS__MAX_ACTIVE": str(ROOM),
                "GATEWAY_ENV_FILE": os.devnull,
                "GATEWAY_MEMORY__URL": str(Path(folder) / "gateway.db"),
                "GATEWAY_TOOLS__PACKAGES": json.dumps([_PARTS]),
                "GATEWAY_ADVISORS": json.dumps([_ADVISOR] * advisors),
                "BENCHMARK_TOOLS": str(tools),
                **(settings or {}),
            }
        )
        body = json.dumps(QUESTION)
        answer = Door("/chat", body, "gateway_answer")
        stream = Door("/chat/stream", body, "gateway_stream")
        port = int(process.url.rpartition(":")[2])
        server = Server(GATEWAY, process, port, answer, stream, runs_tools=True)
        with _answering(server, "/readyz" if wait else None):
            yield server


@contextmanager
def passthrough(model_port: int) -> Iterator[Server]:
    """FastAPI and aiohttp, which pass one call on."""
    with _application(PASSTHROUGH, "passthrough", Path(sys.executable), model_port, stream="completion_stream") as one:
        yield one


@contextmanager
def nginx(model_port: int) -> Iterator[Server]:
    """nginx, which passes one call on as it is. See `has_nginx`."""
    port = free_port()
    with TemporaryDirectory(prefix="nginx-") as folder:
        Path(folder).chmod(0o755)  # its worker is another user where it is started by root
        configuration = Path(folder) / "nginx.conf"
        configuration.write_text(_NGINX.format(folder=folder, port=port, model_port=model_port), encoding="utf-8")
        process = LoggedProcess([_nginx() or "nginx", "-c", str(configuration)], name=NGINX)
        with _answering(_passing_on(NGINX, process, port), "/counts") as server:
            yield server


def has_nginx() -> bool:
    """Whether nginx is installed here."""
    return _nginx() is not None


@contextmanager
def peer(model_port: int, *, name: str) -> Iterator[Server]:
    """A framework behind FastAPI, of `PEERS`. It needs `PEERS_PYTHON`."""
    with _application(name, PEERS[name], PEERS_PYTHON, model_port, stream="plain_stream") as server:
        yield server


def starts(peers: Sequence[str]) -> dict[str, Start]:
    """What is measured side by side, by name."""
    found: dict[str, Start] = {GATEWAY: gateway, PASSTHROUGH: passthrough}
    if has_nginx():
        found[NGINX] = nginx
    return found | {name: partial(peer, name=name) for name in peers}


@contextmanager
def model_server() -> Iterator[Server]:
    """The model server, which can be asked directly too."""
    port = free_port()
    process = LoggedProcess([sys.executable, "-m", "benchmarks.speed.model_server", str(port)], name=MODEL_SERVER)
    with _answering(_passing_on(MODEL_SERVER, process, port), "/counts") as server:
        yield server


def _passing_on(name: str, process: LoggedProcess, port: int) -> Server:
    """A server that is asked what the model server is asked."""
    path, body = "/v1/chat/completions", {"model": "mock", "messages": _MESSAGES}
    answer = Door(path, json.dumps(body), "completion")
    stream = Door(path, json.dumps({**body, "stream": True}), "completion_stream")
    return Server(name, process, port, answer, stream, runs_tools=False)


@contextmanager
def _application(name: str, module: str, python: Path, model_port: int, *, stream: str) -> Iterator[Server]:
    port = free_port()
    application = ["-m", "uvicorn", f"benchmarks.speed.apps.{module}:app"]
    options = ["--port", str(port), "--loop", "uvloop", "--http", "httptools", "--no-access-log", "--backlog", "4096"]
    environment = {"MODEL_SERVER": f"http://127.0.0.1:{model_port}/v1", "HAYSTACK_TELEMETRY_ENABLED": "False"}
    process = LoggedProcess([str(python), *application, *options], env=environment, name=name)
    body = json.dumps(QUESTION)
    answer, streamed = Door("/chat", body, "plain_answer"), Door("/chat/stream", body, stream)
    runs_tools = name != PASSTHROUGH
    with _answering(Server(name, process, port, answer, streamed, runs_tools), "/healthz") as server:
        yield server


@contextmanager
def _answering(server: Server, path: str | None) -> Iterator[Server]:
    """The server, once it answers at a path; it is ended afterwards."""
    try:
        if path is not None:
            server.process.wait_until_answering(f"http://127.0.0.1:{server.port}{path}")
        yield server
        server.process.stop()
    finally:
        server.process.close()


def _nginx() -> str | None:
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
