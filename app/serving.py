"""The server process: it serves, drains on a signal, and is gone with exit code 0 whatever still hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from app.chat import ConfigurationError

logger = logging.getLogger(__name__)

_KEEP_ALIVE = 75
"""Seconds an idle connection is kept: longer than load balancers keep theirs, so that they never use a closed one."""

_FAREWELL = 5
"""Seconds that connections have to take their last bytes once no run is going any more."""

_LEAVE = 2.0
"""Seconds after which the process ends hard: a thread that hangs in a user's function cannot be stopped."""


class Server(uvicorn.Server):
    """uvicorn's server with a start that says what is wrong, and an end that orchestrators like.

    On SIGTERM or SIGINT it goes on answering while runs end, and the application refuses new ones (503): nobody meets
    a closed port before the load balancer has noticed. A second SIGINT ends it at once.

    Args:
        app: its lifespan yields the `Gateway` as `{"gateway": ...}`.
        host: an address or a name.
        port: 0 = any free one.
        forwarded_allow_ips: addresses and networks whose X-Forwarded-* headers are believed.
    """

    def __init__(self, app: ASGIApp, host: str, port: int, *, forwarded_allow_ips: Sequence[str] = ()) -> None:
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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end. uvicorn's own raises the signal again at last, and the exit code would be 143."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
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
        while not draining.done() and not self.force_exit:
            await asyncio.wait([draining], timeout=0.1)
        if self.force_exit:
            draining.cancel()
        else:
            await draining


def serve(server: Server) -> None:
    """Run the server until a signal ends it. It is the process's last act: threads that hang are left behind.

    Raises:
        ConfigurationError: it could not start.
    """
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(_serve(server))


async def _serve(server: Server) -> None:
    await server.serve()
    leaving = threading.Timer(_LEAVE, _leave)
    leaving.daemon = True
    leaving.start()


def _leave() -> None:
    logger.warning("threads that are still at work are left behind")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
