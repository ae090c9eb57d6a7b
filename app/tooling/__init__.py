"""The hands: from a function to an executed call."""

from app.chat import ToolContext, ToolDefinition, ToolFailed, ToolMetadata
from app.tooling.compiling import input_schema
from app.tooling.decorator import ResultConverter, tool
from app.tooling.discovery import discover
from app.tooling.function import ToolCallback
from app.tooling.limits import ToolCallLimits
from app.tooling.manager import ToolCallingManager, ToolEvents, ToolExecution
from app.tooling.notes import ToolParam
from app.tooling.threads import ToolThreads, ToolThreadsBusy
from app.tooling.toolsets import flatten_tools, is_tool, settled_tools

__all__ = [
    "ResultConverter",
    "ToolCallLimits",
    "ToolCallback",
    "ToolCallingManager",
    "ToolContext",
    "ToolDefinition",
    "ToolEvents",
    "ToolExecution",
    "ToolFailed",
    "ToolMetadata",
    "ToolParam",
    "ToolThreads",
    "ToolThreadsBusy",
    "discover",
    "flatten_tools",
    "input_schema",
    "is_tool",
    "settled_tools",
    "tool",
]
