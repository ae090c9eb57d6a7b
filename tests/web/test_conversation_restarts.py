"""A conversation outlives the process that it was held in, however that ends."""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway_process import GatewayProcess, running_gateway

pytestmark = pytest.mark.server


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"GATEWAY_MEMORY__URL": str(tmp_path / "data" / "gateway.db"), "GATEWAY_MEMORY__MAX_MESSAGES": "100000"}


@contextmanager
def started(env: Mapping[str, str]) -> Iterator[GatewayProcess]:
    """A gateway that may be killed."""
    process = GatewayProcess(env)
    try:
        process.wait_until_answering(f"{process.url}/readyz")
        yield process
    finally:
        process.close()


def say(client: httpx.Client, message: str, conversation_id: str = "trip") -> str:
    response = client.post("/chat", json={"message": message, "conversation_id": conversation_id})
    response.raise_for_status()
    answer: str = response.json()["content"]
    return answer


def turns(client: httpx.Client, conversation_id: str) -> list[list[str]]:
    document: dict[str, Any] = client.get(f"/conversations/{conversation_id}").json()
    return [[message["content"] for message in turn["messages"]] for turn in document["turns"]]


def test_a_conversation_goes_on_after_a_restart(env: dict[str, str]) -> None:
    with running_gateway(env) as first, first.client() as client:
        greeting = say(client, "My name is Ada.")
    with running_gateway(env) as second, second.client() as client:
        recalled = say(client, "What is my name?")
        kept = turns(client, "trip")

    assert "Ada" in recalled
    assert kept == [["My name is Ada.", greeting], ["What is my name?", recalled]]


class Writers:
    """Clients that write, each into a conversation of its own and all into one, until the line breaks.

    Args:
        process: where.
        name: what their messages begin with.

    Attributes:
        confirmed: by conversation, what was answered.
    """

    def __init__(self, process: GatewayProcess, name: str) -> None:
        self.confirmed: dict[str, list[list[str]]] = {"all": []}
        self._name = name
        self._enough = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._write, args=(process, number)) for number in range(6)]
        for thread in self._threads:
            thread.start()

    def wait(self, answers: int) -> None:
        """Wait until so many more were answered."""
        for _ in range(answers):
            assert self._enough.acquire(timeout=60)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _write(self, process: GatewayProcess, number: int) -> None:
        own = f"writer {number}"
        self.confirmed[own] = []
        with process.client() as client:
            for count in range(10**6):
                name = "all" if count % 3 == 0 else own
                message = f"{self._name}, {number}, {count}"
                sent = {"message": message, "conversation_id": name, "when_busy": "queue"}
                try:
                    answer = client.post("/chat", json=sent)
                except httpx.TransportError:
                    return
                if answer.status_code != 200:
                    return
                self.confirmed[name].append([message, answer.json()["content"]])
                self._enough.release()


def test_what_was_confirmed_is_there_whole_after_a_kill(env: dict[str, str]) -> None:
    confirmed: dict[str, list[list[str]]] = {}
    for answers in (1, 20, 33):
        with started(env) as process:
            writers = Writers(process, f"after {answers}")
            writers.wait(answers)
            process.signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            writers.join()
        for name, found in writers.confirmed.items():
            confirmed.setdefault(name, []).extend(found)
    with closing(sqlite3.connect(env["GATEWAY_MEMORY__URL"])) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []
    with running_gateway(env) as process, process.client() as client:
        kept = {name: turns(client, name) for name, found in confirmed.items() if found}

    for name, found in kept.items():
        assert all(len(turn) == 2 for turn in found), "every turn is whole"
        assert len({question for question, _ in found}) == len(found), "none is there twice"
        there = [turn for turn in found if turn in confirmed[name]]
        if name == "all":
            assert len(there) == len(confirmed[name]), "what was confirmed is there"
        else:
            assert there == confirmed[name], "and in its order"
