"""An event loop in which the same happens in the same order always, for its time and its network are its own.

Time stands still while there is anything to do, and then moves to what happens next. Connections are made within this
process, see `benchmarks.counting.line`.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.counting.line import Connect, Line

MACHINERY = (
    *(
        Path(asyncio.__file__).with_name(f"{name}.py")
        for name in ("base_events", "events", "selector_events", "unix_events")
    ),
    Path(selectors.__file__),
)
"""The code of the loop itself. The gateway is served by uvloop, where this is written in C."""

_PACE = 0.01
"""Seconds between two pieces of a paced answer."""
_SOON = 0.1
"""Seconds within which a timer belongs to what is counted. Those of time-outs lie beyond, and never go off."""


class _Selector(selectors.SelectSelector):
    """Asks the loop what happens next where nothing is ready. Every system has this kind of selector."""

    loop: Loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready."""
        if timeout == 0:
            return super().select(0)
        if self.loop.moves_on(timeout):
            return []
        ready = super().select(self.loop.patience)
        if not ready:
            raise TimeoutError("nothing happens any more")
        return ready


class _Listening:
    """Stands for a server that listens."""

    sockets: tuple[socket.socket, ...] = ()

    def close(self) -> None:
        """Listen no more."""

    async def wait_closed(self) -> None:
        """Wait until all connections are closed."""


class Loop(asyncio.SelectorEventLoop):
    """The loop.

    Args:
        patience: seconds of real time for which a thread is waited for where nothing else happens.
    """

    def __init__(self, patience: float = 30.0) -> None:
        self._selecting = _Selector()
        self._selecting.loop = self
        super().__init__(self._selecting)
        self.patience = patience
        self._moment = 1_000.0
        self._steps: deque[Callable[[], None]] = deque()
        self._is_at_rest: Callable[[], bool] | None = None
        self._answering: Connect | None = None
        self._listening: Callable[[], asyncio.BaseProtocol] | None = None

    def time(self) -> float:
        """The loop's time."""
        return self._moment

    def paced(self, steps: Sequence[Callable[[], None]]) -> None:
        """Take a step whenever all is done that can be, and then a little time has passed."""
        self._steps.extend(steps)

    def run_to_rest(self, begin: Callable[[], None], is_at_rest: Callable[[], bool]) -> None:
        """Run until nothing is left to do.

        Args:
            begin: called first.
            is_at_rest: whether that is the end; asked when nothing is left to do. If not, a thread is waited for.

        Raises:
            TimeoutError: nothing happens any more, and that is not the end.
        """
        self._is_at_rest = is_at_rest
        self.call_soon(begin)
        try:
            self.run_forever()
        finally:
            self._is_at_rest = None

    def moves_on(self, pause: float | None) -> bool:
        """Move to what happens next, since nothing is ready. Returns False where only a thread can tell what that is.

        Args:
            pause: seconds to the next timer; None = there is none.
        """
        if self._steps:
            if pause is None or pause > _PACE:
                self.call_soon(self._steps.popleft())
                pause = _PACE
        elif self._is_at_rest is not None:
            if self._is_at_rest():
                self.stop()
                return True
            if pause is not None and pause > _SOON:
                return False
        if pause is None:
            return False
        self._moment += pause
        return True

    def reaches(self, connect: Connect) -> None:
        """Have connections that are opened in this loop lead there, whatever their address is."""
        self._answering = connect

    def dial(self, connect: Connect) -> None:
        """Open a connection to what listens in this loop."""
        if self._listening is None:
            raise ConnectionRefusedError("nothing listens")
        Line(self, self._listening(), connect)

    async def create_server(self, protocol_factory: Any, *_: object, **__: object) -> Any:
        """See `asyncio.AbstractEventLoop`."""
        self._listening = protocol_factory
        return _Listening()

    async def create_connection(self, protocol_factory: Any, *_: object, **given: Any) -> Any:
        """See `asyncio.AbstractEventLoop`."""
        if (sock := given.get("sock")) is not None:
            sock.close()
        if self._answering is None:
            raise ConnectionRefusedError("nothing is there")
        line = Line(self, protocol_factory(), self._answering)
        return line, line.get_protocol()

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """See `asyncio.AbstractEventLoop`. The socket is given to `create_connection`, which does not need it."""
