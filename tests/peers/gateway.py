"""A gateway whose model says the same each time, with all that is hard on readers of streams.

Run by `uvicorn --factory tests.peers.gateway:create`.
"""

from __future__ import annotations

import asyncio

from fastapi import FastAPI

from app.chat import AssistantMessage, ModelUnavailable, Prompt, ToolMessage, UserMessage
from app.main import create_app
from app.providers.scripted import Cut, Reply, ScriptedModel, tool_calls
from app.tooling import ToolContext, ToolFailed, tool

ODD_TEXT = (
    "Two lines\nand two more\r\nand\rthe last.\n\ndata: not a field\n\nid: 7\nevent: forged\ndata: {}\n\n"
    "\u2028line\u2029separators\u0085and\x0b\x0c\x1c others,\x00 nul, ￾ byte order \ufeff mark, "
    'quotes " and \\ and \\n, é, ελληνικά, 中文, 🌍🏽, a: colon, : comment'
)
SILENCE = 0.5
"""Seconds that a tool is silent: several times the heartbeat, which `HEARTBEAT` is."""
HEARTBEAT = 0.05


@tool
async def measure(what: str, context: ToolContext) -> str:
    """Measure something."""
    context.progress(ODD_TEXT, current=1, total=2, data={"odd": ODD_TEXT})
    await asyncio.sleep(SILENCE)
    return what


@tool
async def fail() -> str:
    """Fail."""
    raise ToolFailed(ODD_TEXT)


@tool
async def hang() -> str:
    """Never end."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def create() -> FastAPI:
    """The application."""
    return create_app(model=ScriptedModel(forever=_reply), tools=[measure, fail, hang])


def _reply(prompt: Prompt) -> Reply:
    (question,) = (message.content for message in prompt.messages if isinstance(message, UserMessage))
    round_ = 1 + sum(isinstance(message, ToolMessage) for message in prompt.messages)
    match question, round_:
        case "tools", 1:
            return tool_calls(("measure", {"what": ODD_TEXT}), content="I measure.")
        case "tools", 2:
            return tool_calls(("fail", {}))
        case "hang", _:
            return tool_calls(("hang", {}))
        case "failure", _:
            return Cut(ODD_TEXT, ModelUnavailable("the model server is tired"))
        case _:
            return AssistantMessage(ODD_TEXT, reasoning=ODD_TEXT)
