"""openai-agents behind FastAPI: an agent with one tool, at both doors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
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

set_tracing_disabled(True)  # it would be sent to OpenAI


@function_tool
async def get_weather(city: str) -> str:
    """Get the weather for a city."""
    return WEATHER


_client = AsyncOpenAI(
    base_url=MODEL_SERVER,
    api_key=KEY,
    http_client=DefaultAsyncHttpxClient(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=2000)),
)
_agent = Agent(
    name="weather", instructions=SYSTEM, tools=[get_weather], model=OpenAIChatCompletionsModel(MODEL, _client)
)
app = application()


@app.post("/chat")
async def chat(question: Question) -> Answer:
    """Answer at once."""
    return Answer(answer=(await Runner.run(_agent, question.message)).final_output)


@app.post("/chat/stream")
async def stream(question: Question) -> EventSourceResponse:
    """Tell the text while it comes."""

    async def deltas() -> AsyncIterator[str]:
        async for event in Runner.run_streamed(_agent, question.message).stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                yield event.data.delta

    return EventSourceResponse(events(deltas()))
