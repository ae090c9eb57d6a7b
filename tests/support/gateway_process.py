"""The gateway as an operator runs it: `python -m app serve` in a process of its own, on a free loopback port."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import httpx

REPOSITORY = Path(__file__).parents[2]
START = 60.0
"""Seconds a start may take on a machine that is busy with other things."""
STOP = 30.0
"""Seconds an end in good order may take."""
_PORTS = range(20_000, 32_000)
"""Below those that Linux gives to who asks for any."""


def free_port() -> int:
    """A loopback port that nobody listens on right now, and that nobody is given who asks for any port.

    Until its process listens there, another test's server could be given it otherwise, and would be asked in its place.
    """
    while True:
        port = _PORTS.start + secrets.randbelow(len(_PORTS))
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class LoggedProcess:
    """A process whose output is kept.

    Args:
        command: program and arguments.
        env: variables over those of this process.
        name: what it is called in errors.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str] | None = None, name: str) -> None:
        self.name = name
        self._output: IO[bytes] = TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._process = subprocess.Popen(  # noqa: S603 - the tests' own command
            command,
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | dict(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the terminal ends the tests, which end the process
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.poll()

    @property
    def log(self) -> str:
        """All it has written so far, both outputs together."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def wait(self, timeout: float = STOP) -> int:
        """Wait for its end.

        Returns:
            The exit code, negative where a signal ended it.

        Raises:
            AssertionError: it is still running; with its log.
        """
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise self.failed(f"is still running after {timeout:.0f} s") from None

    def stop(self, timeout: float = STOP) -> int:
        """Ask it to end (SIGTERM) and wait for that. See `wait`."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait_until_answering(self, url: str, timeout: float = START) -> None:
        """Wait until a GET of `url` is answered with 200.

        Raises:
            AssertionError: it ended before, or took too long; with its log.
        """
        deadline = time.monotonic() + timeout
        with httpx.Client(trust_env=False, timeout=5) as client:
            while time.monotonic() < deadline:
                if self.returncode is not None:
                    raise self.failed(f"ended with {self.returncode} before it answered")
                with suppress(httpx.TransportError):  # it does not listen yet
                    if client.get(url).status_code == httpx.codes.OK:
                        return
                time.sleep(0.05)
        raise self.failed(f"did not answer {url} within {timeout:.0f} s")

    def failed(self, what: str) -> AssertionError:
        """An error that shows the end of the log."""
        return AssertionError(f"{self.name} {what}; its log ends with:\n{self.log[-8000:]}")

    def close(self) -> None:
        """End it at once if it still runs, and give up its log."""
        if self.returncode is None:
            self._process.kill()
        self._process.wait()
        self._output.close()


SERVE = ("-m", "app", "serve")
UVICORN = ("-m", "uvicorn", "app.main:create_app", "--factory")


class GatewayProcess(LoggedProcess):
    """A gateway on a free loopback port.

    Args:
        env: settings, by their variables (`GATEWAY_…`).
        arguments: Python's.
    """

    def __init__(self, env: Mapping[str, str] | None = None, *, arguments: Sequence[str] = SERVE) -> None:
        port = str(free_port())
        self.url = f"http://127.0.0.1:{port}"
        place = {"GATEWAY_SERVER__HOST": "127.0.0.1", "GATEWAY_SERVER__PORT": port, "UVICORN_PORT": port}
        super().__init__([sys.executable, *arguments], env=place | dict(env or {}), name="the gateway")

    def client(self, timeout: float = 30.0) -> httpx.Client:
        """A client with the gateway's address; it looks at no proxy settings."""
        return httpx.Client(base_url=self.url, timeout=timeout, trust_env=False)


@contextmanager
def running_gateway(env: Mapping[str, str] | None = None) -> Iterator[GatewayProcess]:
    """A gateway that is ready to serve. At the end it is asked to stop, and must leave with exit code 0.

    A test that stops it itself, or waits for its end, has to look at the exit code itself.
    """
    gateway = GatewayProcess(env)
    try:
        gateway.wait_until_answering(f"{gateway.url}/readyz")
        yield gateway
        if gateway.returncode is None:
            code = gateway.stop()
            if code != 0:
                raise gateway.failed(f"left with {code} on SIGTERM")
    finally:
        gateway.close()
