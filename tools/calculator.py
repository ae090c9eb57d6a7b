"""A calculator: a synchronous tool that refuses what it cannot do in words that the model can act on.

The expression comes from a model, so it is never given to `eval`: it is parsed, and only the few kinds of nodes that
arithmetic needs are worked out. Work is bounded too; `9**9**9` is refused before it is begun.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Annotated, TypeAlias

from app.tooling import ToolFailed, ToolParam, tool

Number: TypeAlias = int | float

_LONGEST = 500  # characters of an expression
_DEEPEST = 60  # brackets and signs within each other
_MOST_BITS = 4096  # of a whole number: more than 1200 digits
_MOST_FACTORIAL = 500
_MOST_DIGITS = 100  # to which a number is rounded
_SIGNIFICANT = 15  # digits that a float can be trusted with; more would show 0.1 + 0.2 as 0.30000000000000004


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > _MOST_BITS:
        raise OverflowError
    result: Number = base**exponent
    return result


def _factorial(number: Number) -> int:
    if not float(number).is_integer():
        raise ValueError("factorial takes whole numbers")
    if number > _MOST_FACTORIAL:
        raise OverflowError
    return math.factorial(int(number))


def _rounded(number: Number, digits: Number = 0) -> Number:
    if digits not in range(-_MOST_DIGITS, _MOST_DIGITS + 1):
        raise ValueError(f"round takes a whole number of digits up to {_MOST_DIGITS}")
    return round(number, int(digits))


_BINARY: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "degrees": math.degrees,
    "exp": math.exp,
    "factorial": _factorial,
    "floor": math.floor,
    "log": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "max": max,
    "min": min,
    "radians": math.radians,
    "round": _rounded,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}


@tool(idempotent=True)
def calculate(
    expression: Annotated[str, ToolParam(description="Arithmetic in Python's notation, such as (3 + 4) * 2 ** 0.5")],
) -> Number:
    """Work out an arithmetic expression.

    It knows + - * / // % ** and brackets, the constants pi, e and tau, and the functions abs, ceil, cos, degrees, exp,
    factorial, floor, log, log10, log2, max, min, radians, round, sin, sqrt and tan. Angles are in radians.
    """
    if len(expression) > _LONGEST:
        raise ToolFailed(f"The expression has more than {_LONGEST} characters. Split it into several.")
    return _tidy(_value(_parsed(expression)))


def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it cannot be read"
        raise ToolFailed(f"{expression!r} is no arithmetic expression: {reason}.") from error


def _value(node: ast.expr, depth: int = 0) -> Number:
    if depth > _DEEPEST:
        raise ToolFailed(f"The expression is nested more than {_DEEPEST} deep. Split it into several.")
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _applied(operator.pos, value)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
            return _UNARY[type(sign)](_value(operand, depth + 1))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _applied(_BINARY[type(sign)], _value(left, depth + 1), _value(right, depth + 1))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _applied(_FUNCTIONS[name], *(_value(argument, depth + 1) for argument in arguments))
    raise ToolFailed(
        f"{_shown(node)} is not allowed. Allowed are numbers, + - * / // % **, brackets, "
        f"{', '.join(_CONSTANTS)}, and the functions {', '.join(_FUNCTIONS)}."
    )


def _shown(node: ast.expr) -> str:
    try:
        return repr(ast.unparse(node))
    except RecursionError:  # what is not allowed was not looked into, so it may be nested at will
        return "Part of the expression"


def _applied(function: Callable[..., Number], *operands: Number) -> Number:
    """The result of an operator or function, its complaints put into words."""
    try:
        return _bounded(function(*operands))
    except ZeroDivisionError as error:
        raise ToolFailed("The expression divides by zero.") from error
    except OverflowError as error:
        raise ToolFailed("A number in the expression is too large.") from error
    except (TypeError, ValueError) as error:  # a wrong number of arguments, or outside of what the function is for
        raise ToolFailed(f"A function in the expression cannot be worked out: {error}.") from error


def _bounded(value: object) -> Number:
    if isinstance(value, complex) or not isinstance(value, int | float):
        raise ToolFailed("The expression has no real result.")
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise OverflowError
    return value


def _tidy(value: Number) -> Number:
    """The value without the noise of floating point: whole numbers as such, others to 15 digits."""
    if isinstance(value, float):
        value = float(f"{value:.{_SIGNIFICANT}g}")
        if value.is_integer() and abs(value) < 10**_SIGNIFICANT:
            return int(value)
    return value
