"""A module as operators drop into their tools."""

from __future__ import annotations

from app.tooling import tool


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"
