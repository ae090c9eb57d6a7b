"""pydantic-ai behind FastAPI: an agent with one tool, at both doors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
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

_client = AsyncOpenAI(
    base_url=MODEL_SERVER,
    api_key=KEY,
    http_client=DefaultAsyncHttpxClient(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=2000)),
)
_agent = Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=_client)), instructions=SYSTEM)
app = application()


@_agent.tool_plain
async def get_weather(city: str) -> str:
    """Get the weather for a city."""
    return WEATHER


@app.post("/chat")
async def chat(question: Question) -> Answer:
    """Answer at once."""
    return Answer(answer=(await _agent.run(question.message)).output)


@app.post("/chat/stream")
async def stream(question: Question) -> EventSourceResponse:
    """Tell the text while it comes."""

    async def deltas() -> AsyncIterator[str]:
        async with _agent.run_stream(question.message) as run:
            async for delta in run.stream_text(delta=True, debounce_by=None):
                yield delta

    return EventSourceResponse(events(deltas()))
