"""The server process: it serves, drains on a signal, and is gone with exit code 0 whatever still hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from app.chat import ConfigurationError

logger = logging.getLogger(__name__)

_KEEP_ALIVE = 75
"""Seconds an idle connection is kept: longer than load balancers keep theirs, so that they never use a closed one."""

_FAREWELL = 5
"""Seconds that connections have to take their last bytes once no run is going any more."""

_PATIENCE = 2.0
"""Seconds for what should end at once: users' functions can hang in threads, and ignore that they are cancelled."""


class Server(uvicorn.Server):
    """uvicorn's server with a start that says what is wrong, and an end that orchestrators like.

    On SIGTERM or SIGINT it goes on answering while runs end, and the application refuses new ones (503): nobody meets
    a closed port before the load balancer has noticed. A second SIGINT ends the runs at once, a third the server.

    Args:
        app: its lifespan yields the `Gateway` as `{"gateway": ...}`.
        host: an address or a name.
        port: 0 = any free one.
        forwarded_allow_ips: addresses and networks whose X-Forwarded-* headers are believed.
        on_drained: called when the runs have ended, or will not.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        forwarded_allow_ips: Sequence[str] = (),
        on_drained: Callable[[], None] = lambda: None,
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
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=_FAREWELL,
            )
        )
        self._on_drained = on_drained
        self._in_a_hurry = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end. uvicorn's own raises the signal again at last, and the exit code would be 143."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = self._in_a_hurry
            self._in_a_hurry = True
        self.should_exit = True

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

    async def main_loop(self) -> None:
        """Serve until a signal comes, and then until no run is going any more."""
        await super().main_loop()
        gateway = self.lifespan.state["gateway"]
        logger.info("draining; runs that are going: %d", gateway.runs.active)
        draining = asyncio.create_task(gateway.runs.drain(gateway.drain_time))
        latest = time.monotonic() + gateway.drain_time + _PATIENCE
        while not draining.done() and not self._in_a_hurry and time.monotonic() < latest:
            await asyncio.wait([draining], timeout=0.1)
        draining.cancel()
        await asyncio.wait([asyncio.create_task(gateway.runs.drain(0))], timeout=_PATIENCE)
        self._on_drained()


def serve(app: ASGIApp, host: str, port: int, *, forwarded_allow_ips: Sequence[str] = ()) -> None:
    """Serve until a signal comes. It is the process's last act: what still hangs then is left behind.

    Args:
        app: see `Server`, as with all that follow.
        host: see `Server`.
        port: see `Server`.
        forwarded_allow_ips: see `Server`.

    Raises:
        ConfigurationError: it could not start.
    """
    server = Server(
        app, host, port, forwarded_allow_ips=forwarded_allow_ips, on_drained=partial(_leave_in, _FAREWELL + _PATIENCE)
    )
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve())
        _leave_in(_PATIENCE)


def _leave_in(seconds: float) -> None:
    """End the process in some seconds, should it still be there."""
    leaving = threading.Timer(seconds, _leave)
    leaving.daemon = True
    leaving.start()


def _leave() -> None:
    logger.warning("what is still at work is left behind")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
