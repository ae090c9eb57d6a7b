"""`POST /chat` and `POST /chat/stream`: two readers of the same run."""

from __future__ import annotations

from functools import partial

from fastapi import Request, Response

from app.runs import Run, RunOptions
from app.web import openapi, routing
from app.web.answers import run_document
from app.web.dependencies import Chat, CurrentGateway, Gateway, Principal
from app.web.documents import AnswerDocument, RunDocument
from app.web.encoding import json_response
from app.web.errors import Problem
from app.web.parameters import REPLAYED, idempotency_key
from app.web.presence import while_connected
from app.web.reading import RUN, RUN_EVENTS, answer_of, check_readable, or_problem, outcome_of, path_of, stream_of
from app.web.request_ids import current_request_id
from app.web.requests import chat_request, check_read
from app.web.schemas import ChatBody

router = routing.router("chat")

_QUESTION = {"message": "What is the weather in Paris?"}


@router.post(
    "/chat",
    responses=openapi.begins_run(openapi.answers(AnswerDocument, *openapi.RUN_ERRORS) | openapi.accepts(RunDocument)),
    openapi_extra=openapi.takes(ChatBody, question=_QUESTION, background={**_QUESTION, "background": True})
    | openapi.parameters(openapi.IDEMPOTENCY_KEY),
)
async def chat(request: Request, body: Chat, gateway: CurrentGateway, principal: Principal) -> Response:
    """Answer, when the run has ended. Tools that the model asks for are run on the way.

    The body is read as JSON whatever its `Content-Type`. A caller who goes away ends the run, unless the body says
    otherwise. With `background` the answer is 202 at once, and the run is read at its `Location`.
    """
    # Whoever follows a run in the background sees its text come.
    run, headers = await _begun(request, body, gateway, principal, stream=body.background is True)
    if body.background:
        headers["Location"] = path_of(request, RUN, run)
        return json_response(run_document(run, answer_of(run, gateway)), 202, headers)
    reader = await run.enter()
    try:
        outcome = await outcome_of(run, gateway, request)
    finally:
        reader.leave()
    if isinstance(outcome, Problem):
        return outcome.response(headers)
    return json_response(answer_of(run, gateway)(outcome), headers=headers)


@router.post(
    "/chat/stream",
    responses=openapi.begins_run(openapi.streams(*openapi.RUN_ERRORS, 410, located=True)),
    openapi_extra=openapi.takes(ChatBody, question=_QUESTION, outlasting={**_QUESTION, "on_disconnect": "continue"})
    | openapi.parameters(openapi.IDEMPOTENCY_KEY),
)
async def chat_stream(request: Request, body: Chat, gateway: CurrentGateway, principal: Principal) -> Response:
    """Tell everything that happens in the run as server-sent events, the answer last.

    An error before the model's first event, within the first second, is an ordinary error response; a later one is
    the event `run.failed`, with the same document. A caller who goes away ends the run, unless the body says
    otherwise; the events can be read again at `Location`. Ignore unknown events.
    """
    check_read(body)
    run, headers = await _begun(request, body, gateway, principal, stream=True)
    reader = await run.enter()
    try:
        outcome = await while_connected(request, or_problem(run, partial(run.answering, gateway.commit_after)))
        if isinstance(outcome, Problem):
            reader.leave()
            return outcome.response(headers)
        await check_readable(run)
    except BaseException:
        reader.leave()
        raise
    headers["Location"] = path_of(request, RUN_EVENTS, run)
    return stream_of(run, reader, gateway, headers=headers)


async def _begun(
    request: Request, body: ChatBody, gateway: Gateway, principal: str, *, stream: bool
) -> tuple[Run, dict[str, str]]:
    """The run of a request, and headers that say whether it was begun by an earlier one."""
    asked = chat_request(body, gateway.client, stream=stream, principal=principal)
    options = RunOptions(
        tool_calling=body.tool_calling,
        when_busy=body.when_busy or "reject",
        on_disconnect=body.on_disconnect or ("continue" if body.background else "cancel"),
        request_id=current_request_id(),
    )
    key = idempotency_key(request, body, principal)
    if key is None:
        return await gateway.runs.start(asked, options), {}
    run, is_new = await gateway.runs.start_once(key, asked, options)
    return run, {} if is_new else {REPLAYED: "true"}
