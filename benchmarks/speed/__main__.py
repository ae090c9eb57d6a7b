"""Measures the gateway's speed, beside a plain passthrough of FastAPI and aiohttp, and nginx.

    python -m benchmarks.speed --rounds 3 --json speed.json

All over loopback: a model server that costs next to nothing, callers that check every answer, and each server a
process of its own. Where there are two cores, the servers have one and the rest has the other. The table goes to
standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.processes import allow_files
from benchmarks.speed.report import figures, markdown
from benchmarks.speed.rounds import NAMES, Rounds
from benchmarks.speed.servers import PEERS, PEERS_PYTHON, has_nginx
from benchmarks.speed.wrong import Wrong

_BEGIN, _END = "<!-- measured -->", "<!-- /measured -->"
_FILES = 8192
"""Open files that thousands of connections need in each process."""


def main() -> int:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--only", default=",".join(NAMES), help=f"by commas, of: {', '.join(NAMES)}")
    parser.add_argument(
        "--peers", nargs="?", const=",".join(PEERS), default="", help=f"of {', '.join(PEERS)}; without a value all"
    )
    parser.add_argument("--document", type=Path, help="a Markdown file in which the last tables are replaced")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    arguments = parser.parse_args()
    chosen, peers = arguments.only.split(","), [name for name in arguments.peers.split(",") if name]
    if unknown := [name for name in chosen if name not in NAMES] + [name for name in peers if name not in PEERS]:
        parser.error(f"unknown: {', '.join(unknown)}")
    if peers and not PEERS_PYTHON.exists():
        parser.error("the frameworks are not installed: use `make bench-peers`")
    if (allowed := allow_files(_FILES)) is not None:
        parser.error(f"{_FILES} open files a process are needed, and {allowed} are allowed (ulimit -Hn)")
    if not has_nginx():
        _tell("nginx is not installed, so what is compared with it is left out")
    try:
        with Rounds(chosen, peers, _tell) as rounds:
            for number in range(1, arguments.rounds + 1):
                rounds.make(number)
    except Wrong as error:
        _tell(f"WRONG: {error}")
        return 1
    told = markdown(rounds.samples)
    print(told)
    if arguments.document:
        _replace_tables(arguments.document, told)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures(rounds.samples), indent=2) + "\n", encoding="utf-8")
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _replace_tables(document: Path, told: str) -> None:
    before, begin, rest = document.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise SystemExit(f"{document} does not have {_BEGIN} and {_END}, between which the tables belong")
    document.write_text(f"{before}{begin}\n{told}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
