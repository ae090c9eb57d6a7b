"""An answer of a model server on its way: which piece is read next, until when, and how the connection is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from app.chat import ChatEvent, ModelError, ModelProtocolError, ModelTimeout
from app.providers.clock import Clock
from app.providers.openai.reader import ChatCompletionReader
from app.providers.transport import WireResponse

_ERROR_BODY = 64 * 2**10
_ERROR_BODY_TIME = 10.0
_DRAIN_TIME = 0.1


class Exchange:
    """An answer whose head has come. Whoever got it enters it at once, and asks for `more` until it is `Completed`.

    Args:
        response: the answer. Closed at the end of the block.
        reader: reads its body.
        clock: its time limits. Stopped at the end of the block.
    """

    def __init__(self, response: WireResponse, reader: ChatCompletionReader, clock: Clock) -> None:
        self._response = response
        self._reader = reader
        self._clock = clock

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ModelError):
            error.usage = self._reader.usage  # a failed answer is billed all the same
        self._clock.close()
        await self._response.aclose()

    async def more(self) -> Iterator[ChatEvent]:
        """Wait for the next piece of the body. Returns the events in it, to be iterated to their end.

        Raises:
            ModelError: also while iterating: the answer cannot be used.
        """
        reader = self._reader
        if reader.grew:
            self._clock.content_came()  # by now it has been taken: whoever asks for more has the time to
        try:
            chunk = await self._clock.piece(self._response, at_end=reader.finished)
        except (ModelTimeout, ModelProtocolError):
            if not reader.finished:
                raise
            chunk = b""  # the answer is whole, only its end mark is missing
        return reader.feed(chunk) if chunk else reader.close()

    async def drain(self) -> None:
        """Read what is left after the answer's end, which is nothing, so that the connection can be used again."""
        try:
            while piece := self._response.take():
                pass
            if piece is None:
                async with asyncio.timeout(_DRAIN_TIME):
                    while await self._response.read():
                        pass
        except (ModelError, TimeoutError):
            return  # and it is not used again

    async def error_body(self) -> bytes:
        """The body, or the beginning of it, of an answer that is none."""
        body = b""
        with suppress(ModelError, TimeoutError):  # what came of it is enough
            async with asyncio.timeout_at(self._clock.at_most(_ERROR_BODY_TIME)):
                while len(body) < _ERROR_BODY and (piece := await self._response.read()):
                    body += piece
        return body
