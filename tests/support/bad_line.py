"""A bad line: a proxy that cuts each connection when it has reached some age."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Self

from tests.support.tally import Tally

_RESET = struct.pack("ii", 1, 0)


class BadLine:
    """Listens on loopback. Every other connection is cut with a reset.

    Args:
        target: host and port of the server behind it.
        life: seconds after which a connection is cut.
        tears: whether it is cut in the middle of what is being sent, for which half as long is waited.

    Attributes:
        cuts: of connections over which a run was being followed.
    """

    def __init__(self, target: tuple[str, int], life: float = 1.0, *, tears: bool = True) -> None:
        self.cuts = Tally()
        self._target = target
        self._life = life
        self._tears = tears
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The server's address for those who use this line."""
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # one that is cancelled at once closes nothing

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, ahead = await asyncio.open_connection(*self._target)
        follows = asyncio.Event()
        there = asyncio.create_task(_copy(reader, ahead, follows))
        back = asyncio.create_task(self._copy_and_cut(behind, writer, follows))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
            for end in (writer, ahead):
                end.transport.abort()
                with suppress(OSError):
                    await end.wait_closed()

    async def _copy_and_cut(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, follows: asyncio.Event
    ) -> None:
        carries_events = False
        with suppress(TimeoutError):
            async with asyncio.timeout(self._life):
                while piece := await source.read(65536):
                    carries_events = carries_events or b"text/event-stream" in piece
                    target.write(piece)
                return
        if self._tears:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._life / 2):
                    piece = await source.read(65536)
                    if not piece.startswith(b"HTTP/"):  # browsers take half a head for a whole one
                        target.write(piece[: len(piece) // 2])
        if self.cuts.count % 2:
            target.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        if carries_events and follows.is_set():
            self.cuts.add()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, follows: asyncio.Event) -> None:
    while piece := await source.read(65536):
        if b"/events HTTP/1.1" in piece:
            follows.set()
        target.write(piece)
