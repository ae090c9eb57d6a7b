"""Executing the calls that a model asks for: from an assistant message to one tool message.

Differs from Spring AI:

1. The calls of a message run concurrently, up to a cap; a `sequential` tool is a barrier (parity 67).
2. A name that was not offered becomes an error result which lists the names that were (parity 64, 90).
3. There is no registry to fall back to, not even by a setting: only the tools given run (parity 65).
4. An exception's message is not shown to the model, unless it is a `ToolError` or a setting says so (parity 72, 130).
5. Calls beyond a limit are refused one by one and the others of the batch run; the first refusal is handed over as
   `ToolExecution.breach` and never raised here, so that what was done is kept whatever the loop makes of it
   (parity 75, 76).
6. Return-direct needs more than the flag of every tool: no call may have failed, for an error is for the model, which
   may do better next time (parity 69 to 71).
7. Time-outs, progress, and limits on rounds and on identical calls are our own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.chat import (
    AssistantMessage,
    ConfigurationError,
    Message,
    Tool,
    ToolCall,
    ToolCallErrored,
    ToolCallLimitExceeded,
    ToolCallProgress,
    ToolCallSucceeded,
    ToolContext,
    ToolMessage,
    ToolNotFound,
    ToolResult,
    ToolRun,
)
from app.chat.tools import ProgressListener
from app.tooling.batch import Batch, CallEnd, ContextOf
from app.tooling.failures import FailurePolicy
from app.tooling.limits import ToolCallLimits, asked_so_far, refusals, rounds_used_up

logger = logging.getLogger(__name__)

SHOWN_NAME = 100
"""How much of a name that the model made up is repeated to it and in the log."""


@dataclass(frozen=True, slots=True)
class ToolExecution:
    """What came of the calls of one assistant message.

    Attributes:
        message: all results, in the order asked.
        tool_runs: the same as a record for the caller.
        return_direct: the results are the answer: every call's tool says so and none failed.
        breach: the first limit reached: a call beyond it was refused with an error result, or, where all calls were
            run, this was the last round.
        history: the messages before, the assistant message and `message`.
    """

    message: ToolMessage
    tool_runs: tuple[ToolRun, ...]
    return_direct: bool
    breach: ToolCallLimitExceeded | None
    history: tuple[Message, ...]


ToolEvents: TypeAlias = AsyncGenerator[ToolCallProgress | ToolCallSucceeded | ToolCallErrored | ToolExecution, None]


class ToolCallingManager:
    """Runs tool calls. Holds no state of any conversation; one manager serves all requests at once.

    Args:
        limits: how many calls a turn may have.
        max_concurrency: how many calls of one message may run at the same time.
        timeout: seconds a call may take whose tool does not say so itself; None = as long as it likes.
        error_details: show the model the type and message of exceptions that are no `ToolError`.
        log_details: log the message and the whole traceback of such exceptions.
        raise_errors: exceptions that go to the caller instead of the model: True for all but `ToolError`s, or a tuple
            of types, whose subclasses count too. What is no `Exception` (a cancellation, `SystemExit`) always does.
        cancel_grace: seconds that a tool has for cleaning up when it is cancelled, by its time-out or with the whole
            batch. One that takes longer is left running, and the log says so.

    Raises:
        ConfigurationError: no call could run with these arguments.
    """

    def __init__(
        self,
        *,
        limits: ToolCallLimits = ToolCallLimits(),  # noqa: B008 - immutable
        max_concurrency: int = 8,
        timeout: float | None = 60.0,
        error_details: bool = False,
        log_details: bool = False,
        raise_errors: bool | tuple[type[Exception], ...] = False,
        cancel_grace: float = 1.0,
    ) -> None:
        if max_concurrency < 1:
            raise ConfigurationError(f"max_concurrency must be at least 1; it is {max_concurrency}")
        if timeout is not None and timeout <= 0:
            raise ConfigurationError(f"the time-out of tools must be above 0, or None for none; it is {timeout}")
        self.limits = limits
        self._max_concurrency = max_concurrency
        self._timeout = timeout
        self._failures = FailurePolicy(error_details, log_details, raise_errors)
        self._cancel_grace = cancel_grace
        self._left_running: set[asyncio.Task[Any]] = set()
        self._offered: tuple[Sequence[Tool], Mapping[str, Tool]] = ((), {})

    @property
    def left_running(self) -> int:
        """How many tools ignored their cancellation and are still running though their batch is over."""
        return len(self._left_running)

    async def call(
        self,
        message: AssistantMessage,
        *,
        tools: Sequence[Tool],
        history: Sequence[Message],
        tool_context: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        principal: str | None = None,
        round: int = 1,  # noqa: A002 - the field's name everywhere
    ) -> ToolExecution:
        """Run all calls of a message and return what came of them; arguments and errors are those of `stream`."""
        events = self.stream(
            message,
            tools=tools,
            history=history,
            tool_context=tool_context,
            conversation_id=conversation_id,
            principal=principal,
            round=round,
        )
        async with aclosing(events):
            return [event async for event in events if isinstance(event, ToolExecution)][-1]

    async def stream(
        self,
        message: AssistantMessage,
        *,
        tools: Sequence[Tool],
        history: Sequence[Message],
        tool_context: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        principal: str | None = None,
        round: int = 1,  # noqa: A002 - the field's name everywhere
    ) -> ToolEvents:
        """Run all calls of a message and tell of it as it happens.

        Whatever way the generator ends, closed early or cancelled included, nothing of the batch goes on running
        but a tool that ignores its cancellation, and a function in a thread, which cannot be stopped.

        Args:
            message: the model's answer, with its calls.
            tools: what was offered to the model; nothing else runs.
            history: all messages before `message`, not trimmed: the limits count in it.
            tool_context: what tools may know of the request; each call gets a copy of its own.
            conversation_id: told to tools.
            principal: who asks; told to tools.
            round: number of the model call that asked, for the record.

        Yields:
            Progress as tools report it (the oldest unread reports are dropped where nobody keeps up), one end for each
            call in the order of ending, and last of all exactly one `ToolExecution`.

        Raises:
            ValueError: the message asks for no calls.
            ConfigurationError: two different tools have one name.
            Exception: an exception of a tool, as `raise_errors` says; the other calls were cancelled.
        """
        if not message.tool_calls:
            raise ValueError("the message asks for no tool calls: look at `message.tool_calls` before running them")
        offered = self._by_name(tools)
        history = tuple(history)
        asked = asked_so_far(history)
        breaches = refusals(message.tool_calls, asked=asked, tools=offered, limits=self.limits)
        batch = self._planned(
            message.tool_calls, breaches, offered, _contexts(tool_context or {}, conversation_id, principal)
        )
        try:
            batch.start()
            while (event := await batch.next_event()) is not None:
                yield event
        finally:
            await batch.stop()
        ended = list(zip(message.tool_calls, batch.ends, strict=True))
        results = ToolMessage(tuple([_result(call, end) for call, end in ended]))
        yield ToolExecution(
            message=results,
            tool_runs=tuple([_run(round, call, end) for call, end in ended]),
            return_direct=all(
                isinstance(end, ToolCallSucceeded) and offered[call.name].metadata.return_direct for call, end in ended
            ),
            breach=next(filter(None, breaches), rounds_used_up(len(asked) + 1, self.limits)),
            history=(*history, message, results),
        )

    def _by_name(self, tools: Sequence[Tool]) -> Mapping[str, Tool]:
        """The tools by their names. The same tuple, as requests have it one after the other, is gone through once."""
        known, offered = self._offered
        if known is not tools:
            offered = _by_name(tools)
            self._offered = tuple(tools), offered  # a list may change, and is never the same as its tuple
        return offered

    def _planned(
        self,
        calls: Sequence[ToolCall],
        breaches: Sequence[ToolCallLimitExceeded | None],
        offered: Mapping[str, Tool],
        context_of: ContextOf,
    ) -> Batch:
        batch = Batch(
            context_of,
            failures=self._failures,
            max_concurrency=self._max_concurrency,
            cancel_grace=self._cancel_grace,
            left_running=self._left_running,
        )
        for call, breach in zip(calls, breaches, strict=True):
            tool = offered.get(call.name)
            if breach is not None:
                batch.refuse_call(call, str(breach))
            elif tool is None:
                batch.refuse_call(call, self._not_found(call, offered))
            else:
                own = tool.metadata.timeout
                batch.run_call(call, tool, self._timeout if own is None else own)
        return batch

    def _not_found(self, call: ToolCall, offered: Mapping[str, Tool]) -> str:
        name = call.name if len(call.name) <= SHOWN_NAME else f"{call.name[:SHOWN_NAME]}…"
        logger.warning(
            "the model asked for the tool %r, which it was not given: it may have changed the name, or cut it short "
            "(names are often cut at 64 characters)",
            name,
        )
        if offered:
            advice = f"The tools you can call are: {', '.join(sorted(offered))}."
        else:
            advice = "No tools can be called: answer without them."
        error = ToolNotFound(f"There is no tool {name!r}. {advice}")
        if self._failures.raises(error):
            raise error
        return str(error)


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    offered = {tool.definition.name: tool for tool in tools}
    if len(offered) == len(tools):
        return offered
    for tool in tools:
        name = tool.definition.name
        if offered.setdefault(name, tool) is not tool:
            raise ConfigurationError(f"two different tools are offered under the name {name!r}: rename one of them")
    return offered


def _contexts(values: Mapping[str, Any], conversation_id: str | None, principal: str | None) -> ContextOf:
    def context_of(call: ToolCall, listener: ProgressListener) -> ToolContext:
        return ToolContext(
            values, call_id=call.id, conversation_id=conversation_id, principal=principal, listener=listener
        )

    return context_of


def _result(call: ToolCall, end: CallEnd) -> ToolResult:
    if isinstance(end, ToolCallErrored):
        return ToolResult(call.id, call.name, end.error, is_error=True)
    return ToolResult(call.id, call.name, end.result)


def _run(number: int, call: ToolCall, end: CallEnd) -> ToolRun:
    if isinstance(end, ToolCallErrored):
        return ToolRun(number, call.id, call.name, call.arguments, error=end.error, ms=end.ms)
    return ToolRun(number, call.id, call.name, call.arguments, end.result, ms=end.ms)
