"""Runs that were begun before: their list, their answers, their events, and their end."""

from __future__ import annotations

from fastapi import Response

from app.web import openapi, routing
from app.web.answers import run_document, run_summary
from app.web.dependencies import CurrentGateway, NamedRun
from app.web.documents import RunDocument, RunsDocument, RunSummaryDocument
from app.web.encoding import json_response
from app.web.parameters import After, Before, OfConversation, PageLimit, ParameterInvalid
from app.web.reading import RUN, RUN_EVENTS, answer_of, check_readable, stream_of

RETRY = 1_000
"""Milliseconds after which a browser comes back to a stream that was cut."""

router = routing.router("runs")


@router.get(
    "/runs",
    responses=openapi.answers(RunsDocument, 422, 503),
    openapi_extra=openapi.parameters(openapi.LIMIT, openapi.BEFORE, openapi.CONVERSATION),
)
async def runs(gateway: CurrentGateway, limit: PageLimit, before: Before, conversation: OfConversation) -> Response:
    """List the runs that are going, and those that have ended not long ago, the newest first."""
    found = await gateway.runs.page(limit + 1, before=before, conversation_id=conversation)
    page, more = found[:limit], found[limit:]
    return json_response({"runs": [run_summary(run) for run in page], "next": page[-1].id if more else None})


@router.get(
    RUN,
    name="run",
    responses=openapi.answers(RunDocument, 404, 410, 503),
    openapi_extra=openapi.parameters(openapi.RUN_ID),
)
async def one_run(run: NamedRun, gateway: CurrentGateway) -> Response:
    """Tell how far a run is, with its answer or its problem when it has ended."""
    return json_response(run_document(run, answer_of(run, gateway)))


@router.get(
    RUN_EVENTS,
    responses=openapi.streams(404, 410, 422, 503, retry=RETRY)
    | openapi.nothing("The run has ended and the reader has all its events"),
    openapi_extra=openapi.parameters(openapi.RUN_ID, openapi.LAST_EVENT_ID, openapi.AFTER),
)
async def run_events(run: NamedRun, gateway: CurrentGateway, after: After) -> Response:
    """Tell the run's events that the reader lacks, and then those that come, to the last.

    A reader who comes back names the last event it has, in `Last-Event-ID` as browsers do by themselves or in
    `after`. Reading a run keeps it going: it is cancelled, if at all, when its last reader has left.
    """
    last = await check_readable(run, after)
    if run.end is not None and after >= last:
        return Response(status_code=204)
    if after > last:
        raise ParameterInvalid(f"the run has {last} events so far; name one of them, or none")
    return stream_of(run, await run.enter(), gateway, after=after, retry=RETRY)


@router.post(
    f"{RUN}/cancel",
    responses=openapi.answers(RunSummaryDocument, 404, 410, 503, status=202),
    openapi_extra=openapi.parameters(openapi.RUN_ID),
    status_code=202,
)
async def cancel_run(run: NamedRun) -> Response:
    """End a run: its model call and its tools are cancelled, and its answer is what was done until then.

    It may be asked any number of times, and does nothing to a run that has ended.
    """
    await run.request_cancel()
    return json_response(run_summary(run), 202)
