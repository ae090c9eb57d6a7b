"""Counts, and writes what it has counted as JSON.

    python -m benchmarks.counting.worker [--beneath] [FIGURE ...]

It is a process of its own, with an environment that is the same everywhere: what was imported, cached or set before
would be counted, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.logs import configure_logging
from app.providers.scrubbing import Scrubber
from benchmarks.counting.calls import ROOT, CallCounter, Calls
from benchmarks.counting.figures import FIGURES, exchanges_of
from benchmarks.counting.gateway import count
from benchmarks.counting.loop import MACHINERY

_BENEATH = "--beneath"
_LIBRARIES = "LD_LIBRARY_PATH"
"""Where some interpreters find their libraries. It is always set: who reads the environment calls for each variable."""


class CountingFailed(Exception):
    """Nothing could be counted; the message holds what the worker said last."""


def counted_apart(names: Sequence[str], *, beneath: bool = False) -> Mapping[str, Calls]:
    """The calls of figures, counted in a process of its own.

    Args:
        names: of the figures.
        beneath: see `CallCounter`.

    Raises:
        CountingFailed: it broke.
    """
    with tempfile.TemporaryDirectory() as empty:
        environment = {
            "GATEWAY_CONFIG_DIR": empty,
            "GATEWAY_ENV_FILE": os.devnull,
            "PYTHONHASHSEED": "0",
            _LIBRARIES: os.environ.get(_LIBRARIES, ""),
        }
        done = subprocess.run(
            [sys.executable, "-m", __name__, *([_BENEATH] if beneath else []), *names],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    if done.returncode:
        raise CountingFailed(done.stderr[-4_000:])
    return {name: Calls(by_function) for name, by_function in json.loads(done.stdout).items()}


def main(arguments: Sequence[str]) -> None:
    """Count, in this process."""
    configure_logging(Path("logging.toml"), level=None, scrub=Scrubber())  # there is none: the usual log
    counter = CallCounter([Path(__file__).parent, *MACHINERY], beneath=_BENEATH in arguments)
    known = {figure.name: figure for figure in FIGURES}
    figures = [known[name] for name in arguments if name != _BENEATH]
    counted = count(exchanges_of(figures), counter)
    print(json.dumps({figure.name: figure.of(counted).by_function for figure in figures}))


if __name__ == "__main__":
    main(sys.argv[1:])
