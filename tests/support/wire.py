"""A transport without a network: its answers are scripted, its requests kept."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from typing import Any, TypeAlias

from app.chat import ModelError
from app.providers.transport import WireRequest, WireResponse

Piece: TypeAlias = bytes | ModelError | asyncio.Event
"""What a read gives, an error it raises, or an event it waits for before it goes on to the next piece."""


class ScriptedResponse:
    """A response that is read in the pieces given."""

    def __init__(self, *pieces: Piece, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.headers = dict(headers or {})
        self.closed = False
        self._pieces = deque(pieces)

    def take(self) -> bytes | None:
        """Nothing that need not be waited for."""
        return None

    async def read(self) -> bytes:
        """The next piece."""
        while self._pieces:
            piece = self._pieces.popleft()
            if isinstance(piece, ModelError):
                raise piece
            if isinstance(piece, bytes):
                return piece
            await piece.wait()
        return b""

    async def aclose(self) -> None:
        """Remember that it was closed."""
        self.closed = True


class ScriptedTransport:
    """Gives the responses of a script, or raises its errors, in order; the last one for ever."""

    secrets = ()

    def __init__(self, *script: ScriptedResponse | ModelError | asyncio.Event) -> None:
        self._script = deque(script)
        self.requests: list[WireRequest] = []
        self.closed = 0

    @property
    def bodies(self) -> list[Any]:
        """The bodies of the requests, decoded."""
        return [json.loads(request.body) for request in self.requests]

    async def send(self, request: WireRequest) -> WireResponse:
        """The next response."""
        self.requests.append(request)
        answer = self._script.popleft() if len(self._script) > 1 else self._script[0]
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return await self.send(request)
        if isinstance(answer, ModelError):
            raise answer
        return answer

    async def aclose(self) -> None:
        """Count how often it was closed."""
        self.closed += 1
