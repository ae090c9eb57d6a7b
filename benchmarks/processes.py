"""Processes seen from outside: their tree, the processor time and memory they use, and the core they may run on."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_KIB = 1024
_CLOCK_OF_PROCESS = 2
"""CPUCLOCK_SCHED of Linux: `clock_getcpuclockid(3)` makes a clock of a process by it, which counts nanoseconds of all
its threads, also of those that have ended."""
ON_LINUX = sys.platform == "linux"


def allow_files(files: int) -> int | None:
    """Let this process, and those it starts, open so many files.

    Returns:
        How many they may have at most where that is fewer, else None.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        return hard
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return None


def tree(pid: int) -> list[int]:
    """A process with all that it has started, and they in turn."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def cpu_seconds(pids: list[int]) -> float:
    """Processor time that processes have used, in the system's and in their own code."""
    return sum(map(_cpu_of, pids))


def memory_kib(pids: list[int]) -> float:
    """Memory of processes that is resident."""
    if ON_LINUX:
        return sum(_resident(pid) for pid in pids)
    return sum(float(line) for line in _ps("rss", pids))


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """What is started meanwhile runs on this core alone; None or a system that cannot: wherever it likes."""
    if core is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cores() -> tuple[int | None, int | None]:
    """A core for what is measured, and one for what measures; None where there are no two to be had.

    The first and the last: however a system numbers them, those are not two halves of one, where there are others.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[-1]) if len(allowed) > 1 else (None, None)


def _parents() -> Iterator[tuple[int, int]]:
    if not ON_LINUX:
        for line in _ps("pid=,ppid", None):
            child, parent = line.split()
            yield int(child), int(parent)
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                yield int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])


def _cpu_of(pid: int) -> float:
    if ON_LINUX:
        return time.clock_gettime(~pid << 3 | _CLOCK_OF_PROCESS)
    return sum(map(seconds_of, _ps("time", [pid])))


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _KIB


def seconds_of(told: str) -> float:
    """Processor time as `ps` tells it: `[[days-]hours:]minutes:seconds`."""
    days, _, rest = told.strip().rpartition("-")
    seconds = 0.0
    for part in rest.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + int(days or 0) * 86_400


def _ps(columns: str, pids: list[int] | None) -> list[str]:
    chosen = ["-A"] if pids is None else ["-p", ",".join(map(str, pids))]
    told = subprocess.run(["ps", "-o", f"{columns}=", *chosen], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()
