"""Streams held open for minutes, and callers who hang up: memory stays flat, and nothing is left.

    python -m benchmarks.soak --minutes 5 --streams 1000 --cuts 10000 --seed 1 --json soak.json

The gateway is `python -m app serve` in a process of its own, the model server another, and the callers are this one.
What the gateway holds is told by a tool that it was given; its memory and processor time are read in /proc. The exit
code is 1 where a stream was not whole, memory grew, or something was left over.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

import uvloop

from benchmarks.processes import allow_files
from benchmarks.soak.cuts import AT_ONCE, Cuts
from benchmarks.soak.processes import soaked
from benchmarks.soak.report import OBJECTS_A_RUN, Report
from benchmarks.soak.streams import Streams

_WARM_UP = 300
"""Callers before the first count: caches, pools and imports are made by then."""


async def soak(arguments: argparse.Namespace) -> Report:
    """The whole soak."""
    with soaked(max(arguments.streams, AT_ONCE)) as gateway:
        fresh = await gateway.census()
        warm_up = await Cuts(gateway, _WARM_UP, f"{arguments.seed}/warm-up").make()
        report = Report(before=await gateway.warmed_up(fresh), wrong=warm_up.wrong)
        if arguments.minutes:
            report.held = await Streams(gateway, arguments.streams, arguments.minutes, arguments.seed).hold()
            report.after_streams = await gateway.at_rest(report.before, objects=report.held.whole * OBJECTS_A_RUN)
        if arguments.cuts:
            report.cut_off = await Cuts(gateway, arguments.cuts, arguments.seed).make()
            report.after_cuts = await gateway.at_rest(report.before, objects=arguments.cuts * OBJECTS_A_RUN)
        report.wrong += gateway.complaints()
    return report


def main() -> int:
    """Read the command line, soak, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5, help="how long streams are held open; 0 = not at all")
    parser.add_argument("--streams", type=int, default=1_000, help="how many of them")
    parser.add_argument("--cuts", type=int, default=10_000, help="how many callers hang up; 0 = none")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same luck")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    arguments = parser.parse_args()
    if not Path("/proc/self/fd").is_dir():
        parser.error("it counts sockets and memory in /proc, which only Linux has")
    files = 4 * max(arguments.streams, AT_ONCE) + 500
    if (allowed := allow_files(files)) is not None:
        parser.error(f"so many streams need {files} open files a process, and {allowed} are allowed (ulimit -Hn)")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        report = runner.run(soak(arguments))
    print(report.markdown())
    if arguments.json:
        asked = {name: value for name, value in vars(arguments).items() if name != "json"}
        arguments.json.write_text(json.dumps({**asked, **report.figures()}, indent=2) + "\n", encoding="utf-8")
    return 1 if report.failures() else 0


if __name__ == "__main__":
    sys.exit(main())
