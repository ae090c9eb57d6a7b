"""Which test shows which behaviour of Spring AI's tool calling, and which guards against which known fault.

The tables are read from the markers in the tests and written to `tests/BEHAVIOURS.md` by `python -m tests.tables`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
TABLE = TESTS / "BEHAVIOURS.md"

BEHAVIOURS = range(1, 198)
"""Numbers of the checklist of Spring AI's behaviours that this version answers for."""

NOT_APPLICABLE: Mapping[int, str] = {
    40: "the types exclude a missing request or chain, and mypy strict holds every caller to them",
    41: "there are no tracing spans yet; the trace advisor logs a line for each round",
    89: "one answer is asked for, and a server that sends several has the others ignored by the reader",
    196: "there is no advisor that recalls texts from a vector store",
    197: "there is no advisor that recalls texts from a vector store",
}
"""Behaviours that have no counterpart here, with the reason."""

GRAVE_FAULTS = frozenset(
    {
        *("T12", "T16"),
        *("L01", "L03", "L05", "L06", "L07", "L09", "L11"),
        *("M01", "M02", "M04", "M05", "M10", "M11"),
        *("S01", "S10"),
        *("D03", "D04", "D07", "D10", "D11"),
        *("X01", "X02", "X03", "X04", "X06", "X08"),
        *("K02", "K03", "K08", "K09"),
        "C02",
    }
)
"""Known faults of such gateways that each need a test."""

FAULTS_NOT_APPLICABLE: Mapping[str, str] = {
    "X08": "callers are not told apart yet, so there is no key of theirs to compare",
}
"""Grave faults that this version cannot have, with the reason."""

HEAD = """<!-- Written by `python -m tests.tables`; a test holds it to the markers. -->
# What the tests show
"""


@cache
def marked(marker: str) -> dict[int | str, list[str]]:
    """The tests that carry `@pytest.mark.<marker>(…)`, by each of the marker's values."""
    found: dict[int | str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for value in _values(function, marker):
                    found[value].append(f"{path.relative_to(TESTS).as_posix()}::{function.name}")
    return dict(found)


def _values(function: ast.FunctionDef | ast.AsyncFunctionDef, marker: str) -> Iterator[int | str]:
    for decorator in function.decorator_list:
        match decorator:
            case ast.Call(func=ast.Attribute(attr=attr), args=values) if attr == marker:
                yield from (value.value for value in values if isinstance(value, ast.Constant))  # type: ignore[misc]  # markers are checked by conftest


def page() -> str:
    """Both tables as Markdown."""
    parity, faults = marked("parity"), marked("fault")
    lines = [
        HEAD,
        "## Behaviours of Spring AI's tool calling\n",
        "| number | tests, or why it does not apply |",
        "|---|---|",
    ]
    lines += [f"| {number} | {_cell(parity.get(number), NOT_APPLICABLE.get(number))} |" for number in BEHAVIOURS]
    lines += ["\n## Known faults of such gateways\n", "| fault | tests, or why it does not apply |", "|---|---|"]
    names = sorted({*map(str, faults), *FAULTS_NOT_APPLICABLE})
    lines += [f"| {name} | {_cell(faults.get(name), FAULTS_NOT_APPLICABLE.get(name))} |" for name in names]
    return "\n".join(lines) + "\n"


def _cell(tests: list[str] | None, reason: str | None) -> str:
    shown = "<br>".join(f"`{test}`" for test in dict.fromkeys(tests or ()))
    return shown or f"Does not apply: {reason}"


if __name__ == "__main__":
    TABLE.write_text(page(), encoding="utf-8")
