"""Haystack behind FastAPI: an agent with one tool, at both doors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret
from sse_starlette import EventSourceResponse

from benchmarks.speed.apps.doors import (
    KEY,
    MODEL,
    MODEL_SERVER,
    SYSTEM,
    WEATHER,
    Answer,
    Question,
    application,
    events,
)


def get_weather(city: str) -> str:
    """Get the weather for a city."""
    return WEATHER


_tool = Tool(
    name="get_weather",
    description="Get the weather for a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    function=get_weather,
)
_generator = OpenAIChatGenerator(api_key=Secret.from_token(KEY), model=MODEL, api_base_url=MODEL_SERVER)
_agent = Agent(chat_generator=_generator, tools=[_tool], system_prompt=SYSTEM)
_agent.warm_up()
app = application()


async def _run(question: Question, **options: Any) -> str:
    result = await _agent.run_async(messages=[ChatMessage.from_user(question.message)], **options)
    text: str = result["messages"][-1].text
    return text


@app.post("/chat")
async def chat(question: Question) -> Answer:
    """Answer at once."""
    return Answer(answer=await _run(question))


@app.post("/chat/stream")
async def stream(question: Question) -> EventSourceResponse:
    """Tell the text while it comes."""

    async def deltas() -> AsyncIterator[str]:
        told: asyncio.Queue[str | None] = asyncio.Queue()

        async def tell(chunk: Any) -> None:
            if chunk.content:
                told.put_nowait(chunk.content)

        running = asyncio.create_task(_run(question, streaming_callback=tell))
        running.add_done_callback(lambda _: told.put_nowait(None))
        while (delta := await told.get()) is not None:
            yield delta
        await running

    return EventSourceResponse(events(deltas()))
