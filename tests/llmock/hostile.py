"""llmock as a process: a model server that fails as it is told and grades how its client took that."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.gateway_process import LoggedProcess, free_port

# In an environment of its own: its pytest plugin would be loaded into every run of our tests.
PROGRAM = Path(sys.prefix, "llmock", "bin", "llmock")


class Hostile:
    """A running llmock.

    Args:
        url: where it serves.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=f"{url}/_llmock", timeout=30, trust_env=False)

    def will(self, *behaviours: Mapping[str, Any]) -> None:
        """Forget all that was, and do this to the next requests."""
        self._client.post("/reset").raise_for_status()
        if behaviours:
            self._client.post("/scenario", json={"behaviors": behaviours}).raise_for_status()

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What it was asked since `will`."""
        asked: list[dict[str, Any]] = self._client.get("/requests").json()["requests"]
        return asked

    @property
    def verdict(self) -> dict[str, Any]:
        """How it grades what its client did since `will`."""
        graded: dict[str, Any] = self._client.get("/verdict").json()
        return graded

    def close(self) -> None:
        """Talk to it no more."""
        self._client.close()


@contextmanager
def hostile() -> Iterator[Hostile]:
    """An llmock that serves on loopback."""
    port = free_port()
    command = [str(PROGRAM), "serve", "--host", "127.0.0.1", "--port", str(port), "--response-style", "echo"]
    pace = ["--stream-chunk-delay-ms", "50"]  # so slow that it sees a client leave before all is written
    process = LoggedProcess([*command, *pace], name="llmock")
    server = Hostile(f"http://127.0.0.1:{port}")
    try:
        process.wait_until_answering(f"{server.url}/health")
        yield server
        process.stop()
    finally:
        server.close()
        process.close()
