"""The gateway as it is: `create_app` behind its own HTTP server, before its own transport, with its usual log.

Others are only the event loop and the sockets, see `benchmarks.counting.loop`.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from operator import attrgetter

from sse_starlette.sse import AppStatus

from app.advisors import ToolCallingAdvisor
from app.chat import Advisor, BaseAdvisor
from app.main import create_app
from app.serving import Server
from app.settings import Settings
from app.tooling import ToolCallback
from benchmarks.counting.answers import TOOL
from benchmarks.counting.calls import CallCounter, Calls
from benchmarks.counting.ends import Caller, ModelServer
from benchmarks.counting.exchanges import Exchange, Setup
from benchmarks.counting.loop import Loop

_WARM_UP = 2
"""Times that an exchange is made before it is counted: caches and connections are there then."""
_COUNTED = 3
"""Times that it is counted. The least counts: what happens once in a while (a machine that stood still for so long that
a connection has to be made anew) only adds calls."""


def count(exchanges: Iterable[Exchange], counter: CallCounter) -> Mapping[Exchange, Calls]:
    """The calls of each exchange.

    Raises:
        WrongAnswer: the gateway does something else.
    """
    counted: dict[Exchange, Calls] = {}
    setup_of = attrgetter("setup")
    for setup, asked in groupby(sorted(exchanges, key=setup_of), setup_of):
        with _serving(setup) as gateway:
            for exchange in asked:
                counted[exchange] = gateway.count(exchange, counter)
    return counted


class _Gateway:
    """A gateway, and both of those with whom it talks, in one loop."""

    def __init__(self, setup: Setup, loop: Loop, folder: str) -> None:
        self._loop = loop
        self._model_server = ModelServer(loop.paced)
        self._caller = Caller()
        settings = Settings(
            model={"base_url": "http://127.0.0.1:9000/v1", "name": "probe", "api_key": "sk-counted-0123456789abcdef"},
            memory={"url": f"{folder}/gateway.db"},
        )
        app = create_app(settings, tools=_tools(setup), advisors=_advisors(setup.advisors))
        self._server = Server(app, "127.0.0.1", 8000)

    async def start(self) -> None:
        """Begin to serve: all that `serve` does but its main loop, which looks at the clock ten times a second."""
        AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call] # theirs
        config = self._server.config
        config.load()
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup()
        await self._server.on_tick(0)  # makes the headers that all answers have
        self._loop.reaches(self._model_server.connect)
        self._loop.dial(self._caller.connect)

    async def stop(self) -> None:
        """Serve no more."""
        await self._server.shutdown()

    def count(self, exchange: Exchange, counter: CallCounter) -> Calls:
        """The calls of an exchange, from its first byte until nothing is left to do."""
        counted: list[Calls] = []
        with _without_garbage_collection():
            for time in range(_WARM_UP + _COUNTED):
                self._model_server.will(exchange.model_answers)
                begin = partial(self._caller.ask, exchange.path, exchange.body(time))
                with counter:
                    self._loop.run_to_rest(begin, self._caller.is_answered)
                exchange.check(*self._caller.answer(), self._model_server.asked)
                counted.append(counter.calls())
        return min(counted[_WARM_UP:], key=attrgetter("total"))


@contextmanager
def _serving(setup: Setup) -> Iterator[_Gateway]:
    loop = Loop()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=lambda: loop) as runner:
        gateway = _Gateway(setup, loop, folder)
        runner.run(gateway.start())
        yield gateway
        runner.run(gateway.stop())


async def _look_up(key: str) -> str:
    """Look up what is kept under a key.

    Args:
        key: where it is kept.
    """
    return f"what is kept under {key}"


def _look_up_in_thread(key: str) -> str:
    """Look up what is kept under a key.

    Args:
        key: where it is kept.
    """
    return f"what is kept under {key}"


def _tools(setup: Setup) -> Sequence[ToolCallback]:
    function = _look_up_in_thread if setup.in_threads else _look_up
    names = [TOOL, *(f"{TOOL}_{at}" for at in range(1, setup.tools))]
    return [ToolCallback.from_function(function, name=name) for name in names]


def _advisors(number: int) -> Sequence[Advisor]:
    return [BaseAdvisor(ToolCallingAdvisor.DEFAULT_ORDER + 1 + at) for at in range(number)]


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
