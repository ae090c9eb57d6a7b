"""`python -m app`: the commands, in a process that can be told to stop before it has imported them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, see `app.commands`.

    Args:
        arguments: the command line; None = the process's own.

    Returns:
        The exit code.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["serve"]:
        for number in (signal.SIGTERM, signal.SIGINT):
            # Until the server takes over: the first process of a container has no default for signals.
            signal.signal(number, _leave)
    from app.commands import run  # noqa: PLC0415 - a second of imports, in which the signals are to be heeded

    return run(given)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(0)  # nothing has begun yet, and an exception would be taken for one of the module that is being imported


if __name__ == "__main__":
    sys.exit(main())
