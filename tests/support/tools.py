"""Tools for tests that are about running tools, not about making them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from app.chat import ToolContext, ToolDefinition, ToolMetadata
from app.tooling.threads import ToolThreads
from tests.support.gates import PATIENCE

Behaviour: TypeAlias = Callable[[str, ToolContext], Awaitable[Any]]


class HandWrittenTool:
    """A tool made without `app.tooling`, of a coroutine function that gets the raw arguments and the context.

    Attributes:
        asked: the arguments of every call, in the order the calls began.
    """

    def __init__(self, name: str, behaviour: Behaviour, **metadata: Any) -> None:
        self.definition = ToolDefinition(name, f"What {name} does.")
        self.metadata = ToolMetadata(**metadata)
        self.asked: list[str] = []
        self._behaviour = behaviour

    async def call(self, arguments: str, context: ToolContext) -> Any:
        """Run the behaviour; what it gives is not checked to be text."""
        self.asked.append(arguments)
        return await self._behaviour(arguments, context)


def echo(name: str = "echo", **metadata: Any) -> HandWrittenTool:
    """A tool whose result is its arguments."""

    async def behaviour(arguments: str, _: ToolContext) -> str:
        return arguments

    return HandWrittenTool(name, behaviour, **metadata)


def giving(name: str, result: object, **metadata: Any) -> HandWrittenTool:
    """A tool with one result."""

    async def behaviour(_: str, __: ToolContext) -> object:
        return result

    return HandWrittenTool(name, behaviour, **metadata)


def failing(name: str, error: BaseException, **metadata: Any) -> HandWrittenTool:
    """A tool that raises."""

    async def behaviour(_: str, __: ToolContext) -> str:
        raise error

    return HandWrittenTool(name, behaviour, **metadata)


def in_thread(
    name: str, function: Callable[[ToolContext], str], threads: ToolThreads, **metadata: Any
) -> HandWrittenTool:
    """A tool whose work is done in a thread."""

    async def behaviour(_: str, context: ToolContext) -> str:
        return await threads.run(lambda: function(context))

    return HandWrittenTool(name, behaviour, **metadata)


class Held:
    """A tool whose calls wait to be let go, and which keeps count of them.

    Attributes:
        tool: the tool; its result is its arguments.
        let_go: set to let all calls go on.
        ended: set when a call has ended, in whatever way.
        running: how many calls are running.
        most: how many ran at once at most.
        cancelled: how many were cancelled while they waited.
    """

    def __init__(self, name: str = "held", **metadata: Any) -> None:
        self.tool = HandWrittenTool(name, self._wait, **metadata)
        self.let_go = asyncio.Event()
        self.ended = asyncio.Event()
        self.running = 0
        self.most = 0
        self.cancelled = 0
        self._began = asyncio.Semaphore(0)

    async def begun(self, count: int = 1) -> None:
        """Wait until so many more calls have begun."""
        async with asyncio.timeout(PATIENCE):
            for _ in range(count):
                await self._began.acquire()

    async def _wait(self, arguments: str, _: ToolContext) -> str:
        async with self._counted():
            self._began.release()
            await self.let_go.wait()
            return arguments

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            yield
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
            self.ended.set()
