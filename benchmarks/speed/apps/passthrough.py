"""The least that a Python service does: FastAPI in front, aiohttp behind, one call of the model, no tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from benchmarks.speed.apps.doors import KEY, MODEL, MODEL_SERVER, SYSTEM, Answer, Question, application

_URL = f"{MODEL_SERVER}/chat/completions"
_HEADERS = {"authorization": f"Bearer {KEY}"}


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield {"session": session}


app = application(lifespan=_lifespan)


def _call(question: Question, *, stream: bool) -> dict[str, Any]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question.message}]
    return {"model": MODEL, "messages": messages, "stream": stream}


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
