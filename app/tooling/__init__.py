"""The hands: from a function to an executed call."""

from app.chat import ToolContext, ToolDefinition, ToolFailed, ToolMetadata
from app.tooling.limits import ToolCallLimits
from app.tooling.manager import ToolCallingManager, ToolEvents, ToolExecution
from app.tooling.threads import ToolThreads, ToolThreadsBusy

__all__ = [
    "ToolCallLimits",
    "ToolCallingManager",
    "ToolContext",
    "ToolDefinition",
    "ToolEvents",
    "ToolExecution",
    "ToolFailed",
    "ToolMetadata",
    "ToolThreads",
    "ToolThreadsBusy",
]
