"""The server process: it serves, drains on a signal, and is gone with exit code 0 whatever still hangs."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType

import uvicorn
from sse_starlette.sse import AppStatus
from starlette.types import ASGIApp

from app.chat import ConfigurationError
from app.web import Gateway

logger = logging.getLogger(__name__)

_FAREWELL = 1.0
"""Seconds after the runs' time at which clients who have not taken their last bytes are hung up on."""

_LATEST = 1.5
"""Seconds after the runs' time at which the process leaves, whatever is still there: users' functions can sit in
threads and ignore that they are cancelled. Half a second less than what was promised, for machines with much to do."""

_GARBAGE = (20_000, 20, 50)
"""After how many new objects garbage is searched for among them, after how many such searches among the survivors, and
after how many of those among all."""

_LAST_WORDS = 0.1
"""Seconds that the log and the output have to take what the process says last; their readers may be gone."""


class Server(uvicorn.Server):
    """uvicorn's server with a start that says what is wrong, and an end that orchestrators like.

    On SIGTERM or SIGINT it goes on answering while runs end, and the application refuses new ones (503). A second
    SIGINT ends the runs at once, a third the server.

    Args:
        app: its lifespan yields the `Gateway` as `{"gateway": ...}`.
        host: an address or a name.
        port: 0 = any free one.
        forwarded_allow_ips: addresses and networks whose X-Forwarded-* headers are believed.
        keep_alive: seconds an idle connection is kept.
        on_stop: called when the server is told to stop, with the seconds that runs have left; again when it is told to
            hurry. It may be called in a signal's handler.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        forwarded_allow_ips: Sequence[str] = (),
        keep_alive: int = 75,
        on_stop: Callable[[float], None] = lambda _: None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                ws="none",
                lifespan="on",
                log_config=None,
                server_header=False,
                proxy_headers=bool(forwarded_allow_ips),
                forwarded_allow_ips=list(forwarded_allow_ips),
                timeout_keep_alive=keep_alive,
            )
        )
        self._on_stop = on_stop
        self._in_a_hurry = False
        self._runs_end: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end, in the signal's handler: a tool may hold the event loop up, and time counts from here.

        uvicorn's own handler raises the signal again at last, and the exit code would be 143.
        """
        again, self.should_exit = self.should_exit, True
        if not again:
            gateway = self._gateway
            if gateway is not None:
                gateway.runs.close()
            self._end_runs_in(gateway.drain_time if gateway is not None else 0)
        elif sig == signal.SIGINT:
            self.force_exit = self._in_a_hurry
            self._in_a_hurry = True
            self._end_runs_in(0)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and listen.

        Raises:
            ConfigurationError: one of them failed; the log says how.
        """
        try:
            await super().startup(sockets)
        except SystemExit:
            problem = "the application could not start; the log says why"
            if not self.lifespan.should_exit:
                problem = (
                    f"cannot listen on {self.config.host}, port {self.config.port}: is it in use? "
                    "Choose with --host and --port, or GATEWAY_SERVER__HOST and GATEWAY_SERVER__PORT"
                )
            raise ConfigurationError(problem) from None
        _collect_garbage_seldom()

    async def main_loop(self) -> None:
        """Serve until a signal comes, and then until no run is going any more."""
        await super().main_loop()
        gateway = self._gateway
        if gateway is None:
            raise ConfigurationError("the application's lifespan does not yield a Gateway as `gateway`")
        self._end_runs_in(gateway.drain_time)  # where no signal has said so before
        logger.info("draining; runs that are going: %d", gateway.runs.active)
        draining = asyncio.create_task(gateway.runs.drain(self._left()))
        while not draining.done() and not self._in_a_hurry:
            await asyncio.wait([draining], timeout=0.1)
        await gateway.runs.drain(0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let clients take their last bytes, for as long as runs had time and a little more. Then stop the rest."""
        hanging_up = asyncio.get_running_loop().call_later(self._left(_FAREWELL), self._hang_up)
        await super().shutdown(sockets)
        hanging_up.cancel()

    def _end_runs_in(self, seconds: float) -> None:
        moment = time.monotonic() + seconds
        self._runs_end = moment if self._runs_end is None else min(self._runs_end, moment)
        self._on_stop(seconds)

    def _left(self, more: float = 0.0) -> float:
        """Seconds until `more` after the runs' time."""
        return max(0.0, (self._runs_end or 0.0) + more - time.monotonic())

    def _hang_up(self) -> None:
        logger.info("hanging up on clients: %d", len(self.server_state.connections))
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @property
    def _gateway(self) -> Gateway | None:
        """What the application works with, None before it has started."""
        lifespan = getattr(self, "lifespan", None)
        return lifespan.state.get("gateway") if lifespan else None


def serve(app: ASGIApp, host: str, port: int, *, forwarded_allow_ips: Sequence[str] = (), keep_alive: int = 75) -> None:
    """Serve until a signal comes. It is the process's last act: what still hangs then is left behind.

    Args:
        app: see `Server`, as with all that follow.
        host: see `Server`.
        port: see `Server`.
        forwarded_allow_ips: see `Server`.
        keep_alive: see `Server`.

    Raises:
        ConfigurationError: it could not start.
    """
    # Here runs are ended by the server, and streams end with their runs: a thousand that each look out for the server's
    # end by themselves, ten times a second, would be all that it does.
    AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call] # theirs
    server = Server(
        app,
        host,
        port,
        forwarded_allow_ips=forwarded_allow_ips,
        keep_alive=keep_alive,
        on_stop=_Exit().runs_end_in,
    )
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve())
    gc.freeze()  # the interpreter's last look for garbage would go through all the runs that are kept


def _collect_garbage_seldom() -> None:
    """Leave what the start has made out of every search for garbage, and search when there is more to find.

    What a run makes it frees by itself, without cycles. A thousand streams hold hundreds of thousands of objects, and a
    look through all of them is a pause for each.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE)


class _Exit:
    """Ends the process in time, from a thread of its own: what holds everything else up does not hold this up.

    The thread is there before it is needed, and it is spoken to through a queue that can be put to at any moment: a
    signal's handler may have interrupted the very lock that it wants.
    """

    def __init__(self) -> None:
        self._ends: SimpleQueue[float] = SimpleQueue()
        threading.Thread(target=self._watch, name="exit", daemon=True).start()

    def runs_end_in(self, seconds: float) -> None:
        """End the process, should it still be there, some time after the runs' end, which is in `seconds`."""
        self._ends.put(time.monotonic() + seconds)

    def _watch(self) -> None:
        runs_end = self._wait(self._ends.get())
        gc.freeze()  # to look for garbage among all that runs hold would take the time in which their readers are told
        self._wait(runs_end, _LATEST)
        try:
            words = threading.Thread(target=_say_last_words, daemon=True)
            words.start()
            words.join(_LAST_WORDS)
        finally:
            os._exit(0)

    def _wait(self, runs_end: float, more: float = 0.0) -> float:
        """Wait until `more` after the runs' end, which may be moved forward meanwhile. Returns where it is then."""
        while (seconds := runs_end + more - time.monotonic()) > 0:
            with suppress(Empty):
                runs_end = min(runs_end, self._ends.get(timeout=seconds))
        return runs_end


def _say_last_words() -> None:
    logger.warning("what is still at work is left behind")
    sys.stdout.flush()
    sys.stderr.flush()
