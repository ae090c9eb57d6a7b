"""A real model server, and the gateway in front of it, each in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.real_model.asking import LlamaServer
from tests.real_model.llama_server import MODEL, PACKAGES
from tests.support.gateway_process import GatewayProcess, LoggedProcess, free_port, running_gateway

MISSING = "needs a llama.cpp server and a model, which `make real-model` installs"


@contextmanager
def running_model_server() -> Iterator[LlamaServer]:
    """A llama.cpp server that has loaded its model."""
    if not all(find_spec(package) for package in PACKAGES):
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    url = f"http://127.0.0.1:{(port := free_port())}"
    script = Path(__file__).with_name("llama_server.py")
    process = LoggedProcess([sys.executable, str(script), str(port)], name="the model server")
    try:
        process.wait_until_answering(f"{url}/health", timeout=120)
        yield LlamaServer(url, process)
    finally:
        process.close()


@contextmanager
def gateway_before(server: LlamaServer) -> Iterator[GatewayProcess]:
    """A gateway that is set to a model server and to the tools of these tests."""
    env = {
        "GATEWAY_MODEL__BASE_URL": f"{server.url}/v1",
        "GATEWAY_MODEL__NAME": MODEL,
        "GATEWAY_TOOLS__PACKAGES": json.dumps(["tests.real_model.toolbox"]),
        "GATEWAY_STREAM__HEARTBEAT": "1",
    }
    with running_gateway(env) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def model_server() -> Iterator[LlamaServer]:
    with running_model_server() as server:
        yield server


@pytest.fixture(scope="session")
def gateway(model_server: LlamaServer) -> Iterator[GatewayProcess]:
    with gateway_before(model_server) as gateway:
        yield gateway


@pytest.fixture
def mortal_server() -> Iterator[LlamaServer]:
    """A server of the test's own, which it may kill."""
    with running_model_server() as server:
        yield server


@pytest.fixture
def its_gateway(mortal_server: LlamaServer) -> Iterator[GatewayProcess]:
    """The gateway before `mortal_server`."""
    with gateway_before(mortal_server) as gateway:
        yield gateway
