"""A real PostgreSQL on a free loopback port, from the packages of the system; it can be stopped, killed and frozen."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.gateway_process import free_port

USER = "gateway"
PASSWORD = "p/ss:w@rd?"
_ESCAPED = "p%2Fss%3Aw%40rd%3F"

_START = 60.0
"""Seconds a start may take on a machine that is busy with other things."""
_FAST = ("fsync=off", "full_page_writes=off")
"""What would only help where the machine itself goes down."""


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, None where there are none. Debian has those of a server in no path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    found = str(debian[-1]) if debian else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


class PostgresServer:
    """A server with databases of its own. It does not run yet.

    Args:
        folder: where it keeps them, empty.
        programs: the folder of its programs.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "log"
        password = folder / "password"
        password.write_text(PASSWORD)
        for path in (folder, password):
            shutil.chown(path, _nobody())
        made = [*("--pgdata", str(self._data), "--username", USER, "--pwfile", str(password)), "--no-sync"]
        self._run("initdb", [*made, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8"])

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def url(self, database: str = "postgres", *, password: str = _ESCAPED, scheme: str = "postgresql") -> str:
        """The address of one of its databases."""
        return f"{scheme}://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = (f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", *_FAST)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the tests' own command
                [self._programs / "postgres", "-D", self._data, *(part for one in options for part in ("-c", one))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=_nobody(),
                cwd=self._folder,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"PostgreSQL does not start:\n{self._log.read_text()[-4000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in good order; connections are closed and transactions rolled back."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it as if the machine had lost its power."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Let it answer nothing, as where the line is cut."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it answer again."""
        self._signal_all(signal.SIGCONT)

    def execute(self, statement: str, database: str = "postgres") -> str:
        """Run a statement by another client than ours. Returns its rows, a line each."""
        address = [*("--host", "127.0.0.1", "--port", str(self.port), "--username", USER), "--dbname", database]
        options = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]
        return self._run("psql", [*address, *options, "--command", statement], {"PGPASSWORD": PASSWORD}).strip()

    @contextmanager
    def database(self) -> Iterator[str]:
        """The name of an empty database that is there for a while."""
        name = f"test_{uuid.uuid4().hex}"
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield name
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _answers(self) -> bool:
        asked = ["--host", "127.0.0.1", "--port", str(self.port), "--quiet"]
        return subprocess.run([self._programs / "pg_isready", *asked], check=False).returncode == 0  # noqa: S603 - the tests' own command

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if number is signal.SIGKILL:
            self._signal_all(number)
        else:
            self._process.send_signal(number)  # it tells its children itself
        self._process.wait(_START)
        self._process = None

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        for pid in (self._process.pid, *_children(self._process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _run(self, program: str, arguments: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(  # noqa: S603 - the tests' own command
            [self._programs / program, *arguments],
            env=os.environ | dict(env or {}),
            cwd=self._folder,
            user=_nobody(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program} failed: {done.stderr}"
        return done.stdout


def _children(parent: int) -> Iterator[int]:
    """The processes that a process has begun."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it is gone
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(stat.parent.name)


def _nobody() -> str | int:
    """Who runs the server: it refuses to be run by root."""
    if os.getuid() != 0:
        return os.getuid()
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server that answers. Where it is not installed the test is skipped, and in CI it fails."""
    found = programs()
    if found is None:
        missing = "PostgreSQL is not installed (apt-get install postgresql)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # pytest's own folders are for its user only
    server = PostgresServer(folder, found)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)
