"""The tool loop behind a client, and tools for it."""

from __future__ import annotations

from typing import Any

from app.advisors.tool_calling import ToolCallingAdvisor
from app.chat import AssistantMessage
from app.client import ChatClient
from app.providers.scripted import ScriptedModel, tool_calls
from app.tooling import ToolCallback, ToolCallingManager, ToolCallLimits, tool


class Weather:
    """A tool that counts how often it ran."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @tool
    def get_weather(self, city: str) -> str:
        """Tell the weather of a city."""
        self.asked.append(city)
        return f"sunny in {city}"


def call_weather(*cities: str, content: str = "") -> AssistantMessage:
    """A message that asks for the weather of some cities."""
    return tool_calls(*(("get_weather", {"city": city}) for city in cities), content=content)


def client_of(model: ScriptedModel, *tools: Any, limits: ToolCallLimits | None = None, **advisor: Any) -> ChatClient:
    """A client whose loop is made with the given limits and constructor arguments."""
    manager = ToolCallingManager(limits=limits or ToolCallLimits())
    return ChatClient(model, tools=tools, tool_calling_advisor=lambda: ToolCallingAdvisor(manager, **advisor))


def direct(name: str) -> ToolCallback:
    """A tool whose result is the answer."""

    def give(text: str) -> str:
        """Give the text back."""
        return text

    return ToolCallback.from_function(give, name=name, return_direct=True)
