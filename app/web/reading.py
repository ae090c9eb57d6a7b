"""Runs and their readers over HTTP: what every route that gives a run's answer or its events needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from starlette.requests import Request

from app.chat import ChatResponse
from app.runs import EventsGone, LocalRun, Reader, Run
from app.web.answers import Answer, answer_document
from app.web.dependencies import Gateway
from app.web.errors import Problem, problem_of
from app.web.presence import while_connected
from app.web.sse import RunStream

T = TypeVar("T")

RUN = "/runs/{run_id}"
RUN_EVENTS = f"{RUN}/events"


def answer_of(run: Run, gateway: Gateway) -> Answer:
    """What makes the answer document of a run."""
    return partial(answer_document, run_id=run.id, conversation_id=run.conversation_id, model=gateway.client.model.name)


def path_of(request: Request, path: str, run: Run) -> str:
    """The path of one of a run's routes, as callers know it: what `url_for` says, without asking all routes for it."""
    root: str = request.scope.get("app_root_path", request.scope.get("root_path", ""))
    return root.rstrip("/") + path.format(run_id=run.id)


def stream_of(
    run: Run,
    reader: Reader,
    gateway: Gateway,
    *,
    after: int = 0,
    headers: Mapping[str, str] | None = None,
    retry: int | None = None,
) -> RunStream:
    """The run's events as a response. See `RunStream`."""
    return RunStream(
        run,
        reader,
        answer_of(run, gateway),
        after=after,
        headers=headers,
        retry=retry,
        heartbeat=gateway.heartbeat,
        drain=partial(gateway.runs.drain, gateway.drain_time),
        drained=None if isinstance(run, LocalRun) else gateway.runs.drained,
    )


async def check_readable(run: Run, after: int = 0) -> int:
    """See to it that the events behind `after` are there.

    Returns:
        The number of the newest event.

    Raises:
        EventsGone: some of them were dropped.
    """
    first, last = await run.journal.span()
    if after + 1 < first:
        raise EventsGone(first, after)
    return last


async def outcome_of(run: Run, gateway: Gateway, request: Request) -> ChatResponse | Problem:
    """The run's answer, or the problem that it failed with, when it has ended and the caller is still there.

    Raises:
        ClientDisconnect: the caller went away.
        ShuttingDown: it is another replica's, and goes on there when this one leaves.
    """
    work = partial(or_problem, run, run.result)
    if not isinstance(run, LocalRun):
        return await while_connected(request, gateway.runs.attend(work))
    await while_connected(request, run.over.happened())
    return await work()


async def or_problem(run: Run, work: Callable[[], Awaitable[T]]) -> T | Problem:
    """What the work gives, or the problem that the run failed with, under the request that began it."""
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 - whatever a run fails with it has logged itself
        return problem_of(error, run.request_id)
