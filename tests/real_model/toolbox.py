"""Two tools whose results no model can guess: they are in the request's tool context, which the model never sees."""

from __future__ import annotations

from typing import Annotated

from app.tooling import ToolContext, ToolFailed, ToolParam, tool


@tool
def get_weather(city: Annotated[str, ToolParam(description="The city's name.")], context: ToolContext) -> str:
    """Current weather in a city."""
    return _reading(context, "weather", city)


@tool
async def get_time(city: Annotated[str, ToolParam(description="The city's name.")], context: ToolContext) -> str:
    """Current time in a city."""
    return _reading(context, "time", city)


def _reading(context: ToolContext, kind: str, city: str) -> str:
    readings: dict[str, str] = context[kind]
    if city not in readings:
        raise ToolFailed(f"there is no {kind} of {city!r}")
    return readings[city]
