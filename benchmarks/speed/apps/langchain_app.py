"""LangChain behind FastAPI: an agent with one tool, at both doors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
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


@tool
async def get_weather(city: str) -> str:
    """Get the weather for a city."""
    return WEATHER


_model = ChatOpenAI(model=MODEL, base_url=MODEL_SERVER, api_key=KEY)
_agent = create_agent(_model, [get_weather], system_prompt=SYSTEM)
app = application()


def _asked(question: Question) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question.message}]}


@app.post("/chat")
async def chat(question: Question) -> Answer:
    """Answer at once."""
    return Answer(answer=(await _agent.ainvoke(_asked(question)))["messages"][-1].content)


@app.post("/chat/stream")
async def stream(question: Question) -> EventSourceResponse:
    """Tell the text while it comes."""

    async def deltas() -> AsyncIterator[str]:
        async for message, _ in _agent.astream(_asked(question), stream_mode="messages"):
            if message.type == "AIMessageChunk" and message.content:
                yield message.content

    return EventSourceResponse(events(deltas()))
