"""Arithmetic in a sentence, as an expression that a calculator takes."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_TIMES, _DIVIDED, _MINUS = "\N{MULTIPLICATION SIGN}", "\N{DIVISION SIGN}", "\N{MINUS SIGN}"
_FUNCTION = r"(?:sqrt|abs|round|min|max|floor|ceil|exp|log|log2|log10|ln|sin|cos|tan|factorial|pow)"
_SIGNED = rf"-?{_NUMBER}"

# Sentences, most specific first: the pattern and the expression that its groups make.
_SENTENCES = tuple(
    (re.compile(pattern.replace("N", f"({_SIGNED})"), re.IGNORECASE), expression)
    for pattern, expression in (
        (r"N\s*(?:%|percent)\s+of\s+N", r"\1 / 100 * \2"),
        (r"\b(?:square\s+root|sqrt)\s+of\s+N", r"sqrt(\1)"),
        (r"N\s+squared\b", r"\1 ** 2"),
        (r"N\s+cubed\b", r"\1 ** 3"),
        (r"N\s+(?:to|raised\s+to)\s+the\s+power\s+(?:of\s+)?N", r"\1 ** \2"),
        (r"\b(?:add|sum\s+of|sum)\s+N\s+(?:and|to|with)\s+N", r"\1 + \2"),
        (r"\bsubtract\s+N\s+from\s+N", r"\2 - \1"),
        (r"\bdifference\s+(?:between|of)\s+N\s+and\s+N", r"\1 - \2"),
        (r"\b(?:multiply|product\s+of)\s+N\s+(?:by|and|with)\s+N", r"\1 * \2"),
        (r"\bdivide\s+N\s+by\s+N", r"\1 / \2"),
    )
)
_SPOKEN = {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "multiplied by": "*",
    "divided by": "/",
    "modulo": "%",
    "mod": "%",
    "to the power of": "**",
    "x": "*",
    _TIMES: "*",
    _DIVIDED: "/",
    _MINUS: "-",
    "^": "**",
}
_TOKEN = re.compile(
    rf"\s*(?:(?P<number>{_NUMBER}(?:[eE][+-]?\d+)?)|(?P<operator>\*\*|//|[-+*/%^{_TIMES}{_DIVIDED}{_MINUS}])"
    r"|(?P<spoken>plus|minus|times|multiplied\s+by|divided\s+by|modulo|mod|to\s+the\s+power\s+of|x(?=\s*[\d(]))\b"
    rf"|(?P<name>{_FUNCTION}(?=\()|pi\b)|(?P<bracket>[(),]))",
    re.IGNORECASE,
)
_START = re.compile(rf"(?<![\w.,])(?:\d|[-{_MINUS}]\s*[\d(]|\(|{_FUNCTION}\(|pi\b)", re.IGNORECASE)
_OPERATIONS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}
_LONGEST = 200  # characters of one expression
_MOST_STARTS = 60  # numbers and brackets tried as the beginning of one; a text of brackets alone would take seconds


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression found in a text.

    Attributes:
        text: the expression in the notation of programming languages.
        operation: the English verb of its outermost operation, None where there is none.
        start: where it begins in the text.
        end: where it ends.
        tree: its syntax tree as text: equal for two spellings of the same.
    """

    text: str
    operation: str | None
    start: int
    end: int
    tree: str


def expressions(text: str) -> list[Expression]:
    """The arithmetic in a text, in order: `2 plus 2`, `(3+4)*2`, `12.5% of 80`, `sqrt(2)`; plain numbers are none."""
    found = [
        _expression(match.expand(template).replace(",", ""), match.start(), match.end())
        for pattern, template in _SENTENCES
        for match in pattern.finditer(text)
    ]
    found += _written(text)
    kept: list[Expression] = []
    for one in sorted((one for one in found if one), key=lambda one: one.start - one.end):
        if not any(one.start < other.end and other.start < one.end for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda one: one.start)


def _written(text: str) -> list[Expression | None]:
    """Runs of numbers, operators, brackets and names of functions."""
    found: list[Expression | None] = []
    position = 0
    for _ in range(_MOST_STARTS):
        start = _START.search(text, position)
        if start is None:
            break
        one = _longest(text, start.start())
        found.append(one)
        position = one.end if one else start.end()
    return found


def _longest(text: str, start: int) -> Expression | None:
    """The longest expression that begins at `start`; a number after a number ends it."""
    pieces: list[str] = []
    whole: tuple[int, int] | None = None  # pieces and characters up to where all brackets are closed
    depth, position, operand_next = 0, start, True
    while position - start < _LONGEST and (token := _TOKEN.match(text, position)):
        piece = " ".join(token.group().split()).lower()
        piece = _SPOKEN.get(piece, piece)
        opens = piece == "(" or bool(token["name"])
        if not opens and piece not in {")", "-"} and bool(token["number"]) != operand_next:
            break
        if token["number"]:
            piece = piece.replace(",", "")
        depth += (piece == "(") - (piece == ")")
        if depth < 0:
            break
        pieces.append(piece)
        position = token.end()
        operand_next = not (token["number"] or piece in {")", "pi"})
        if not depth and not operand_next:
            whole = (len(pieces), position)
    if whole is None:
        return None
    made = _expression(_joined(pieces[: whole[0]]), start, whole[1])
    as_written = made and _expression(text[start : whole[1]].strip(), start, whole[1])
    return as_written if as_written and made and as_written.tree == made.tree else made


def _joined(pieces: list[str]) -> str:
    text = " ".join(pieces)
    text = re.sub(r"(?<=\()\s+|\s+(?=[),])", "", text)
    text = re.sub(r"(?<=[A-Za-z0-9])\s+(?=\()", "", text)
    return re.sub(r"(?:(?<=^)|(?<=[(,]))-\s+", "-", text)


def _expression(text: str, start: int, end: int) -> Expression | None:
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    inside = list(ast.walk(node))
    if not any(isinstance(each, ast.BinOp | ast.Call) for each in inside):
        return None
    if any(isinstance(each, ast.Tuple) or (isinstance(each, ast.Call) and not each.args) for each in inside):
        return None
    operation = _OPERATIONS.get(type(node.op)) if isinstance(node, ast.BinOp) else None
    return Expression(text, operation, start, end, ast.dump(node))
