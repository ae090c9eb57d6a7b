"""What the applications have in common: how they are asked, how they answer, and what their tool returns."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

MODEL_SERVER = os.environ.get("MODEL_SERVER", "http://127.0.0.1:8080/v1")
MODEL, KEY = "mock", "none"
SYSTEM = "You are a helpful assistant."
WEATHER = "sunny"


class Question(BaseModel):
    """The body of a request."""

    message: str


class Answer(BaseModel):
    """The body of an answer."""

    answer: str


def application(**options: Any) -> FastAPI:
    """An application that says whether it is there. Options are FastAPI's."""
    app = FastAPI(**options)

    @app.get("/healthz")
    async def healthz() -> None:
        """Say that it is there."""

    return app


async def events(deltas: AsyncIterator[str]) -> AsyncIterator[dict[str, str]]:
    """An event for each piece of text, for sse-starlette, and one that says the end."""
    async for delta in deltas:
        yield {"event": "token", "data": json.dumps({"delta": delta})}
    yield {"data": "[DONE]"}
