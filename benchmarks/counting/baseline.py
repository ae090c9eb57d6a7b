"""What was counted when it was right: a file for each minor version of Python, for they call differently.

A row is a function of ours or a file of others, a column is a figure.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.counting.calls import Calls

FOLDER = Path(__file__).parent / "baselines"


def baseline_file() -> Path:
    """The file for the running Python."""
    return FOLDER / f"python{sys.version_info.major}.{sys.version_info.minor}.json"


def read(file: Path) -> Mapping[str, Calls]:
    """The figures that a file holds, folded."""
    kept = json.loads(file.read_text(encoding="utf-8"))
    return {
        figure: Calls({name: row[column] for name, row in kept["rows"].items() if row[column]})
        for column, figure in enumerate(kept["figures"])
    }


def write(file: Path, figures: Mapping[str, Calls]) -> None:
    """Keep figures: a line for each row, so that a diff shows what has changed."""
    folded = {figure: calls.folded().rounded() for figure, calls in figures.items()}
    names = sorted({name for calls in folded.values() for name in calls.by_function})
    rows = {name: [_short(calls.of(name)) for calls in folded.values()] for name in names}
    head = {"python": platform.python_version(), "figures": list(figures)}
    totals = {figure: _short(round(calls.total, 3)) for figure, calls in folded.items()}
    parts = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in {**head, "calls": totals}.items()]
    parts.append('  "rows": {\n' + ",\n".join(f"    {json.dumps(name)}: {row}" for name, row in rows.items()) + "\n  }")
    file.parent.mkdir(exist_ok=True)
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _short(number: float) -> float:
    return int(number) if number == int(number) else number
