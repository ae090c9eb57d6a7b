"""The process that puts load on a server, from the side of the one who measures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from benchmarks import processes
from benchmarks.speed.load import ASKED, READY
from benchmarks.speed.seen import Figures, Order
from benchmarks.speed.wrong import Wrong
from tests.support.gateway_process import REPOSITORY


class Load:
    """A process that has opened its connections and waits for the word. `begin`, `wait`, `figures`, in this order."""

    def __init__(self, process: subprocess.Popen[str], order: Order) -> None:
        self.pid = process.pid
        self._process = process
        self._say(json.dumps(asdict(order)))
        self._hear(READY)

    def begin(self) -> None:
        """Have it ask."""
        self._say("")

    def wait(self) -> None:
        """Wait for the last answer."""
        self._hear(ASKED)

    def figures(self) -> Figures:
        """What it has seen.

        Raises:
            Wrong: an answer was.
        """
        told = Figures(**json.loads(self._line()))
        if told.wrong_count or not told.answers:
            raise Wrong(f"{told.wrong_count} answers of {told.answers + told.wrong_count}: {' | '.join(told.wrong)}")
        return told

    def _say(self, line: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def _hear(self, word: str) -> None:
        line = self._line().rstrip()
        if line != word:
            raise Wrong(f"the load says {line!r} in place of {word!r}")

    def _line(self) -> str:
        return self._process.stdout.readline() if self._process.stdout is not None else ""


@contextmanager
def loading(order: Order, core: int | None) -> Iterator[Load]:
    """A load that is ready, on its core. Its errors are seen on standard error."""
    with (
        processes.on_core(core),
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.speed.load"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            yield Load(process, order)
        finally:
            process.kill()
