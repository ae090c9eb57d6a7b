"""`POST /chat` and `POST /chat/stream`: two readers of the same run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from fastapi import APIRouter, Request, Response

from app.runs import Run
from app.web import openapi
from app.web.answers import answer_document
from app.web.dependencies import Chat, CurrentGateway, Gateway, Principal
from app.web.documents import AnswerDocument
from app.web.encoding import json_response
from app.web.errors import Problem, problem_of
from app.web.events import Answer
from app.web.presence import while_connected
from app.web.requests import chat_request
from app.web.schemas import ChatBody
from app.web.sse import RunStream

T = TypeVar("T")

router = APIRouter(tags=["chat"], default_response_class=Response)


@router.post(
    "/chat", responses=openapi.answers(AnswerDocument, *openapi.RUN_ERRORS), openapi_extra=openapi.takes(ChatBody)
)
async def chat(request: Request, body: Chat, gateway: CurrentGateway, principal: Principal) -> Response:
    """Answer, when the run has ended. Tools that the model asks for are run on the way.

    The body is read as JSON whatever its `Content-Type`. A caller who goes away ends the run.
    """
    asked = chat_request(body, gateway.client, stream=False, principal=principal)
    run = gateway.runs.start(asked, tool_calling=body.tool_calling)
    try:
        outcome = await while_connected(request, _or_problem(run.result))
    finally:
        run.cancel()
    if isinstance(outcome, Problem):
        return outcome.response()
    return json_response(_answer(run, gateway)(outcome))


@router.post("/chat/stream", responses=openapi.streams(*openapi.RUN_ERRORS), openapi_extra=openapi.takes(ChatBody))
async def chat_stream(request: Request, body: Chat, gateway: CurrentGateway, principal: Principal) -> Response:
    """Tell everything that happens in the run as server-sent events, the answer last.

    An error before the model's first event, within the first second, is an ordinary error response; a later one is
    the event `run.failed`, with the same document. A caller who goes away ends the run. Ignore unknown events.
    """
    asked = chat_request(body, gateway.client, stream=True, principal=principal)
    run = gateway.runs.start(asked, tool_calling=body.tool_calling)
    try:
        outcome = await while_connected(request, _or_problem(partial(run.answering, gateway.commit_after)))
    except BaseException:
        run.cancel()
        raise
    if isinstance(outcome, Problem):
        return outcome.response()
    return RunStream(
        run,
        _answer(run, gateway),
        heartbeat=gateway.heartbeat,
        drain=partial(gateway.runs.drain, gateway.drain_time),
        drain_time=gateway.drain_time,
    )


def _answer(run: Run, gateway: Gateway) -> Answer:
    return partial(answer_document, run_id=run.id, conversation_id=run.conversation_id, model=gateway.client.model.name)


async def _or_problem(work: Callable[[], Awaitable[T]]) -> T | Problem:
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 - whatever a run fails with it has logged itself
        return problem_of(error)
