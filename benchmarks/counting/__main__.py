"""Counts the calls of a request and of a streamed token, and fails where they have grown by more than a tenth.

    python -m benchmarks.counting                             # against the committed baseline
    python -m benchmarks.counting --write                     # makes what is counted now the baseline
    python -m benchmarks.counting --times 20                  # whether it counts the same every time
    python -m benchmarks.counting --top 20 --only token       # where the calls are

The exit code is 1 where a figure has grown, or was not checked for there is no baseline for it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.counting import baseline
from benchmarks.counting.calls import ROOT, Calls
from benchmarks.counting.comparison import Comparison
from benchmarks.counting.figures import FIGURES
from benchmarks.counting.worker import counted_apart

_WRITE = "make count ARGS=--write"


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, count, print.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make what is counted now the baseline")
    parser.add_argument("--times", type=int, default=1, help="count so often, and tell whether it is the same always")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="show the N functions with the most calls")
    parser.add_argument("--only", default="", metavar="WORDS", help="only figures whose names have these words")
    options = parser.parse_args(arguments)
    names = [figure.name for figure in FIGURES if options.only in figure.name]
    if not names:
        parser.error(f"no figure has {options.only!r} in its name; there are: {', '.join(f.name for f in FIGURES)}")
    if options.write and options.only:
        parser.error("a baseline has all figures")
    counted = [counted_apart(names) for _ in range(options.times)]
    for line in _spread(counted):
        print(line)
    for line in _top(counted[0], options.top):
        print(line)
    return _write(counted[0]) if options.write else _check(counted[0])


def _check(figures: Mapping[str, Calls]) -> int:
    file = baseline.baseline_file()
    shown = file.relative_to(ROOT)
    comparison = Comparison(baseline.read(file) if file.exists() else None, figures)
    print(*comparison.table(), *comparison.growth(), "", sep="\n")
    if comparison.before is None:
        print(f"NOT CHECKED: there is no {shown}. Where all is well, `{_WRITE}` writes it; commit it then.")
    elif comparison.unknown:
        print(f"NOT CHECKED: {shown} lacks figures. Where all is well, `{_WRITE}` writes it anew; commit it then.")
    elif not comparison.is_passed:
        print(f"FAILED: calls grew by more than a tenth. If they are worth it: `{_WRITE}`, and say why in the commit.")
    elif any(change.is_fall for change in comparison.changes):
        print(f"Passed, and calls fell by more than a tenth: `{_WRITE}` keeps them from growing back unseen.")
    else:
        print("Passed.")
    return 0 if comparison.is_passed else 1


def _write(figures: Mapping[str, Calls]) -> int:
    file = baseline.baseline_file()
    before = baseline.read(file) if file.exists() else None
    baseline.write(file, figures)
    print(*Comparison(before, figures).table(), "", f"Written: {file.relative_to(ROOT)}", sep="\n")
    return 0


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
    if not number:
        return
    for figure, calls in figures.items():
        yield f"{figure}: {calls.total:,.2f} calls"
        for name, times in sorted(calls.by_function.items(), key=lambda one: (-one[1], one[0]))[:number]:
            yield f"{times:10,.2f}  {name}"
        yield ""


if __name__ == "__main__":
    sys.exit(main())
