"""The tools of the gateway that is soaked: two that take their time, and one that tells what the process holds.

The gateway is the real one, unchanged; this is the package that `GATEWAY_TOOLS__PACKAGES` names.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.tooling import tool


class _Pauses:
    """Collections of garbage, which hold everything up while they last.

    Attributes:
        longest: seconds of processor time that the longest one took.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.longest = max(self.longest, time.thread_time() - self._began)


_pauses = _Pauses()


@tool
async def wait(seconds: float) -> str:
    """Wait on the event loop."""
    await asyncio.sleep(seconds)
    return f"wait {seconds}"


@tool
def block(seconds: float) -> str:
    """Block a thread."""
    time.sleep(seconds)
    return f"block {seconds}"


@tool(default=False)
async def census(collect: bool, kinds: bool) -> dict[str, Any]:
    """Count what the process holds, and tell the longest pause since this was asked for the last time.

    Args:
        collect: collect garbage before.
        kinds: count objects by their type, which holds the event loop up for a moment.
    """
    if collect:
        gc.collect()
    counted = {
        "tasks": len(asyncio.all_tasks()),
        "sockets": _sockets(),
        "threads": threading.active_count(),
        "longest pause, ms": round(_pauses.longest * 1000),
    }
    _pauses.longest = 0.0
    if not kinds:
        return counted
    objects = gc.get_objects()
    types = Counter(map(type, objects))
    names: Counter[str] = Counter()
    for kind, number in types.items():
        names[f"{kind.__module__}.{kind.__qualname__}"] += number  # types of one name are made anew now and then
    return {**counted, "objects": len(objects), "kinds": names}


def _sockets() -> int:
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            found += str(entry.readlink()).startswith("socket:")
    return found
