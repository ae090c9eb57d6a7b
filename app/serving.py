"""The server process: it serves, drains on a signal, and is gone with exit code 0 whatever still hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from app.chat import ConfigurationError
from app.web import Gateway

logger = logging.getLogger(__name__)

_KEEP_ALIVE = 75
"""Seconds an idle connection is kept: longer than load balancers keep theirs, so that they never use a closed one."""

_FAREWELL = 0.5
"""Seconds for connections to take their last bytes, once no run is going any more."""

_LATEST = 1.8
"""Seconds after the drain at which the process leaves, whatever is still there: users' functions can sit in threads and
ignore that they are cancelled, and clients can fail to take what is sent to them."""


class Server(uvicorn.Server):
    """uvicorn's server with a start that says what is wrong, and an end that orchestrators like.

    On SIGTERM or SIGINT it goes on answering while runs end, and the application refuses new ones (503): nobody meets
    a closed port before the load balancer has noticed. A second SIGINT ends the runs at once, a third the server.

    Args:
        app: its lifespan yields the `Gateway` as `{"gateway": ...}`.
        host: an address or a name.
        port: 0 = any free one.
        forwarded_allow_ips: addresses and networks whose X-Forwarded-* headers are believed.
        on_stop: called at the first signal with the seconds after which the process has to be gone.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        forwarded_allow_ips: Sequence[str] = (),
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
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=_FAREWELL,  # type: ignore[arg-type] # a timeout of asyncio's, like any other
            )
        )
        self._on_stop = on_stop
        self._in_a_hurry = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end. uvicorn's own raises the signal again at last, and the exit code would be 143."""
        if not self.should_exit:
            gateway = self._gateway
            if gateway is not None:
                gateway.runs.close()  # the main loop looks up ten times a second, when no tool holds it up
            self._on_stop((gateway.drain_time if gateway else 0) + _LATEST)
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
        gateway = self._gateway
        if gateway is None:
            raise ConfigurationError("the application's lifespan does not yield a Gateway as `gateway`")
        logger.info("draining; runs that are going: %d", gateway.runs.active)
        draining = asyncio.create_task(gateway.runs.drain(gateway.drain_time))
        while not draining.done() and not self._in_a_hurry:
            await asyncio.wait([draining], timeout=0.1)
        draining.cancel()
        await gateway.runs.drain(0)

    @property
    def _gateway(self) -> Gateway | None:
        """What the application works with, None before it has started."""
        lifespan = getattr(self, "lifespan", None)
        return lifespan.state.get("gateway") if lifespan else None


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
    server = Server(app, host, port, forwarded_allow_ips=forwarded_allow_ips, on_stop=_leave_in)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve())


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
