"""The least that a Python service does: FastAPI in front, aiohttp behind, one call of the model, no tools.

MODEL_SERVER=http://127.0.0.1:8080/v1 uvicorn benchmarks.speed.apps.passthrough:app
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

_URL = f"{os.environ['MODEL_SERVER']}/chat/completions"
_HEADERS = {"authorization": "Bearer none"}


class Question(BaseModel):
    """The body of a request."""

    message: str
    conversation_id: str | None = None


class Answer(BaseModel):
    """The body of an answer."""

    answer: str


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=120)
    ) as session:
        yield {"session": session}


app = FastAPI(lifespan=_lifespan)


def _call(question: Question, *, stream: bool) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": question.message},
    ]
    return {"model": "mock", "messages": messages, "stream": stream}


@app.get("/healthz")
async def healthz() -> None:
    """Say that it is there."""


@app.post("/chat")
async def chat(question: Question, request: Request) -> Answer:
    """Answer at once."""
    session: aiohttp.ClientSession = request.state.session
    async with session.post(_URL, json=_call(question, stream=False), headers=_HEADERS) as response:
        completion = await response.json()
    return Answer(answer=completion["choices"][0]["message"]["content"])


@app.post("/chat/stream")
async def stream(question: Question, request: Request) -> StreamingResponse:
    """Pass the model server's bytes on while they come."""
    session: aiohttp.ClientSession = request.state.session

    async def passed_on() -> AsyncIterator[bytes]:
        async with session.post(_URL, json=_call(question, stream=True), headers=_HEADERS) as response:
            async for data in response.content.iter_any():
                yield data

    return StreamingResponse(passed_on(), media_type="text/event-stream")
