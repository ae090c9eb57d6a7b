"""Counts the calls of a request and of a streamed token, and fails where they have grown by more than a tenth.

    python -m benchmarks.counting                             # against the committed baseline
    python -m benchmarks.counting --write                     # makes what is counted now the baseline
    python -m benchmarks.counting --times 20                  # whether it counts the same every time
    python -m benchmarks.counting --top 20 --only token       # which functions are called most
    python -m benchmarks.counting --beneath 20 --only token   # beneath which functions most are called

The exit code is 1 where a figure has grown, or was not checked for there is no baseline for it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.counting.baseline import baseline_file, read, write
from benchmarks.counting.calls import Calls
from benchmarks.counting.comparison import Comparison
from benchmarks.counting.figures import FIGURES
from benchmarks.counting.worker import counted_apart

_WRITE = "make count ARGS=--write"


class Count(Protocol):
    """Counts figures. See `counted_apart`."""

    def __call__(self, names: Sequence[str], *, beneath: bool = False) -> Mapping[str, Calls]:
        """Count."""


def main(arguments: Sequence[str] | None = None, count: Count = counted_apart, file: Path | None = None) -> int:
    """Read the command line, count, print.

    Args:
        arguments: the command line; None = this process's.
        count: counts figures.
        file: the baseline; None = the one for this Python.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make what is counted now the baseline")
    parser.add_argument("--times", type=int, default=1, help="count so often, and tell whether it is the same always")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="show the N functions with the most calls")
    parser.add_argument("--beneath", type=int, default=0, metavar="N", help="the same with what those functions call")
    parser.add_argument("--only", default="", metavar="WORDS", help="only figures whose names have these words")
    options = parser.parse_args(arguments)
    names = [figure.name for figure in FIGURES if options.only in figure.name]
    if not names:
        parser.error(f"no figure has {options.only!r} in its name; there are: {'; '.join(f.name for f in FIGURES)}")
    if options.write and options.only:
        parser.error("a baseline has all figures")
    if options.beneath:
        print(*_top(count(names, beneath=True), options.beneath), sep="\n")
        return 0
    file = file or baseline_file()
    counted = [count(names) for _ in range(max(1, options.times))]
    comparison = Comparison(read(file) if file.exists() else None, counted[0])
    for line in (*_spread(counted), *_top(counted[0], options.top), *comparison.table(), *comparison.growth()):
        print(line)
    if options.write:
        write(file, counted[0])
    print(f"\nWritten: {file}" if options.write else f"\n{_verdict(comparison, file)}")
    return 0 if options.write or comparison.is_passed else 1


def _verdict(comparison: Comparison, file: Path) -> str:
    if comparison.before is None:
        return f"NOT CHECKED: there is no {file}. Where all is well, `{_WRITE}` writes it, to be committed."
    if comparison.unknown:
        return f"NOT CHECKED: {file} lacks figures. Where all is well, `{_WRITE}` writes it anew, to be committed."
    if not comparison.is_passed:
        return (
            f"FAILED: calls grew by more than a tenth. If that is worth it: `{_WRITE}`, and commit it with the reason."
        )
    if any(change.is_fall for change in comparison.changes):
        return f"Passed, and calls fell by more than a tenth: `{_WRITE}` keeps them from growing back unseen."
    return "Passed."


def _spread(counted: Sequence[Mapping[str, Calls]]) -> Iterator[str]:
    if len(counted) == 1:
        return
    for figure in counted[0]:
        totals = [figures[figure].total for figures in counted]
        same = all(figures[figure] == counted[0][figure] for figures in counted)
        told = "the same, function by function" if same else f"from {min(totals):,.2f} to {max(totals):,.2f}"
        yield f"{figure}: {len(counted)} times {told}"
    yield ""


def _top(figures: Mapping[str, Calls], number: int) -> Iterator[str]:
    for figure, calls in figures.items() if number else ():
        yield f"{figure}:"
        for name, times in sorted(calls.by_function.items(), key=lambda one: (-one[1], one[0]))[:number]:
            yield f"{times:10,.2f}  {name}"
        yield ""


if __name__ == "__main__":
    sys.exit(main())
