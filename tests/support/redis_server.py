"""A real Redis on a free loopback port, from the package of the system; it can be stopped, killed and paused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
import redis

from tests.support.gateway_process import free_port

_START = 60.0
"""Seconds a start may take on a machine that is busy with other things."""

_DATABASES = 64
"""How many it has; tests take them in turn."""


class RedisServer:
    """A server that writes down all it is told. It does not run yet.

    Args:
        program: what is run.
        folder: where it keeps what it knows.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self.port = free_port()
        self._program = program
        self._folder = folder
        self._databases = count()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: int = 0) -> str:
        """The address of one of its databases."""
        return f"redis://127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The address of an empty database, which is some other test's again much later."""
        number = next(self._databases) % _DATABASES
        with self.client(number) as client:
            client.flushdb()
        return self.url(number)

    @contextmanager
    def client(self, database: int = 0) -> Iterator[redis.Redis]:
        """A client that is none of the gateway's."""
        client = redis.Redis(port=self.port, db=database, socket_timeout=_START)
        try:
            yield client
        finally:
            client.close()

    def start(self) -> None:
        """Start it with what it knew, and wait until it answers."""
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._folder),
            "databases": str(_DATABASES),
            "appendonly": "yes",
            "appendfsync": "no",  # what would only help where the machine itself goes down, and waits for busy disks
            "save": "",
            "logfile": "log",
        }
        self._process = subprocess.Popen(  # noqa: S603 - the tests' own command
            [self._program, *(part for name, value in options.items() for part in (f"--{name}", value))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + _START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Redis does not start:\n{(self._folder / 'log').read_text()[-4000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it answer nothing, as where the line is cut."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it answer again, what it was asked meanwhile too."""
        self._signal(signal.SIGCONT)

    def forget(self) -> None:
        """End it, and let it lose all it knows."""
        self.kill()
        shutil.rmtree(self._folder / "appendonlydir")

    def _answers(self) -> bool:
        with suppress(redis.ConnectionError), self.client() as client:
            return bool(client.ping())
        return False

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)
        self._process.wait(_START)
        self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """A server that answers. Where it is not installed the test is skipped, and in CI it fails."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        missing = "Redis is not installed (apt-get install redis-server)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        server = RedisServer(program, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()
