"""The habits: one advisor, one file."""

from app.advisors.compat import BlockingAdvise, CallAdvisor, CallNextBlocking, StreamAdvisor, StreamingAdvise
from app.advisors.memory import MemoryAdvisor
from app.advisors.safeguard import SafeguardAdvisor
from app.advisors.structured_output import StructuredOutputAdvisor
from app.advisors.tool_calling import ToolAdvisor, ToolCallingAdvisor
from app.advisors.trace import TraceAdvisor

__all__ = [
    "BlockingAdvise",
    "CallAdvisor",
    "CallNextBlocking",
    "MemoryAdvisor",
    "SafeguardAdvisor",
    "StreamAdvisor",
    "StreamingAdvise",
    "StructuredOutputAdvisor",
    "ToolAdvisor",
    "ToolCallingAdvisor",
    "TraceAdvisor",
]
