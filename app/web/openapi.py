"""The OpenAPI page. FastAPI cannot derive it here, for bodies are read and answers are written by hand.

What it says is held to the truth by tests: every answer and event is checked against its schema.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeAlias

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from app.web import documents, event_documents, schemas
from app.web import parameters as outside
from app.web.errors import MEDIA_TYPE
from app.web.request_ids import HEADER
from app.web.sse import MEDIA_TYPE as EVENT_STREAM

Responses: TypeAlias = dict[int | str, dict[str, Any]]

BODY_ERRORS = (400, 413, 415, 422)
_RETRIED = frozenset({429, 502, 503})
_OUTCOMES = frozenset({200, 202, 429, 500, 502, 503, 504})
"""What a run can give; the other statuses refuse to begin one."""
RUN_ERRORS = (*BODY_ERRORS, 409, 429, 502, 503, 504)

_REF = "#/components/schemas/{model}"
_SENT = (
    documents.AnswerDocument,
    documents.RunDocument,
    documents.RunsDocument,
    documents.ConversationDocument,
    documents.ConversationsDocument,
    documents.ProblemDocument,
    documents.ToolsDocument,
    documents.ToolCallsDocument,
    documents.AliveDocument,
    documents.ReadyDocument,
    *dict.fromkeys(event_documents.EVENTS.values()),
)
_TAKEN = (schemas.ChatBody, schemas.ToolCallsBody, schemas.ForkBody)

_REQUEST_ID = {
    "required": True,
    "description": "Names the request in the log; a sane one of the caller's is kept.",
    "schema": {"type": "string"},
}
_RETRY_AFTER = {
    "description": "Seconds to wait before asking again; with 502 only where the model server said so.",
    "schema": {"type": "integer", "minimum": 1},
}
_LOCATION = {"required": True, "schema": {"type": "string", "format": "uri-reference"}}
_REPLAYED = {
    "description": "The run was begun by an earlier request of the same `Idempotency-Key`; absent otherwise.",
    "schema": {"const": "true"},
}
_LINKS = {
    name: {
        "operationRef": f"#/paths/{path.replace('/', '~1')}/{method}",
        "parameters": {"run_id": "$response.body#/id"},
    }
    for name, method, path in (
        ("run", "get", "/runs/{run_id}"),
        ("run_events", "get", "/runs/{run_id}/events"),
        ("cancel_run", "post", "/runs/{run_id}/cancel"),
    )
}
"""Where to go with a document that has the id of a run."""


def takes(body: type[BaseModel], **examples: dict[str, Any]) -> dict[str, Any]:
    """`openapi_extra` of a route that reads this body by itself, with bodies to begin with."""
    shown = {name: {"value": value} for name, value in examples.items()}
    content = {"application/json": {"schema": _ref(body), "examples": shown}}
    return {"requestBody": {"required": True, "content": content}}


def answers(document: type[BaseModel], *errors: int, status: int = 200) -> Responses:
    """`responses` of a route that gives this document or one of these errors; 500 is added."""
    return {status: _response("The answer", "application/json", _ref(document)), **problems(*errors)}


def streams(*errors: int, located: bool = False, retry: int | None = None) -> Responses:
    """`responses` of a route that gives a stream of events or one of these errors; 500 is added.

    Args:
        errors: their statuses.
        located: whether the response says where the events are found again.
        retry: milliseconds after which browsers are told to come back; None = they are told nothing.
    """
    event = {"oneOf": [_event(name, data, retry) for name, data in event_documents.EVENTS.items()]}
    # OpenAPI 3.1 has no words for streams; that the schema is each event's is what its tools have settled on.
    events = _response("Server-sent events, the run's end last", EVENT_STREAM, event)
    events["headers"] |= {
        "Cache-Control": {"required": True, "schema": {"const": "no-cache"}},
        "X-Accel-Buffering": {"required": True, "schema": {"const": "no"}},
        **({"Location": _LOCATION} if located else {}),
    }
    return {200: events, **problems(*errors)}


def makes(document: type[BaseModel], *errors: int) -> Responses:
    """`responses` of a route that makes what this document tells of, or gives one of these errors; 500 is added."""
    made = _response("It is made; `Location` says where it is", "application/json", _ref(document))
    made["headers"]["Location"] = _LOCATION
    return {201: made, **problems(*errors)}


def accepts(document: type[BaseModel]) -> Responses:
    """`responses` of a route that can also answer before the work is done."""
    accepted = _response("It is being done; `Location` says where to look", "application/json", _ref(document))
    accepted["headers"]["Location"] = _LOCATION
    return {202: accepted}


def begins_run(responses: Responses) -> Responses:
    """`responses` of a route that begins a run, or joins the one that the same key has begun."""
    for status in _OUTCOMES & responses.keys():
        responses[status]["headers"][outside.REPLAYED] = _REPLAYED
        if "application/json" in responses[status]["content"]:
            responses[status]["links"] = _LINKS
    return responses


def nothing(description: str) -> Responses:
    """`responses` of a route that can also have nothing to say."""
    return {204: {"description": description, "headers": {HEADER: _REQUEST_ID}}}


def parameters(*given: dict[str, Any]) -> dict[str, Any]:
    """`openapi_extra` of a route that reads these headers or query parameters by itself."""
    return {"parameters": list(given)}


def _parameter(place: str, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"in": place, "name": name, "required": False, "description": description, "schema": schema}


CONVERSATION_ID = {
    "in": "path",
    "name": "conversation_id",
    "required": True,
    "description": "The `conversation_id` of a request, percent-encoded; a slash may stand as it is.",
    "schema": {"type": "string"},
}
RUN_ID = {
    "in": "path",
    "name": "run_id",
    "required": True,
    "description": "The `id` of an answer, the `run_id` of an event.",
    "schema": {"type": "string"},
}
IDEMPOTENCY_KEY = _parameter(
    "header",
    outside.IDEMPOTENCY_KEY,
    "Names the request: sent again with the same body it joins the run that it began. A text such as a UUID.",
    {"type": "string", "pattern": r"^[\x21-\x7e]{1,255}$"},
)
LAST_EVENT_ID = _parameter(
    "header",
    outside.LAST_EVENT_ID,
    "The number of the last event that the reader has; before `after`.",
    {"type": "string", "pattern": "^[0-9]{0,18}$"},
)
AFTER = _parameter(
    "query",
    "after",
    "The number of the last event that the reader has.",
    {"type": "integer", "minimum": 0, "maximum": outside.LARGEST_NUMBER, "default": 0},
)
LIMIT = _parameter(
    "query",
    "limit",
    "How many a page may have.",
    {"type": "integer", "minimum": 1, "maximum": outside.LARGEST_PAGE, "default": outside.DEFAULT_PAGE},
)
BEFORE = _parameter(
    "query", "before", "The `next` of the page before.", {"type": "string", "pattern": f"^{outside.RUN_ID}$"}
)
BEFORE_CONVERSATION = _parameter(
    "query", "before", "The `next` of the page before.", {"type": "string", "pattern": f"^{outside.PLACE}$"}
)
CONVERSATION = _parameter("query", "conversation_id", "Only runs of this conversation.", {"type": "string"})


def describe(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """A function that gives the page of an application, made when it is first asked for."""
    page: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not page:
            page.update(get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes))
            page.setdefault("components", {}).setdefault("schemas", {}).update(_schemas())
        return page

    return openapi


class _WithoutDefaults(GenerateJsonSchema):
    """Schemas of what goes out: a field that may be missing is not taken for its default then."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def _schemas() -> dict[str, Any]:
    _, taken = models_json_schema([(body, "validation") for body in _TAKEN], ref_template=_REF)
    _, sent = models_json_schema(
        [(document, "validation") for document in _SENT], ref_template=_REF, schema_generator=_WithoutDefaults
    )
    return {**sent["$defs"], **taken["$defs"]}


def problems(*statuses: int) -> Responses:
    """`responses` with these errors; 500 is added."""
    problem = _ref(documents.ProblemDocument)
    responses: Responses = {}
    for status in (*statuses, 500):
        responses[status] = _response(HTTPStatus(status).phrase, MEDIA_TYPE, problem)
        if status in _RETRIED:
            responses[status]["headers"]["Retry-After"] = _RETRY_AFTER
    return responses


def _response(description: str, media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "headers": {HEADER: _REQUEST_ID}, "content": {media_type: {"schema": schema}}}


def _event(name: str, data: type[BaseModel], retry: int | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "event": {"const": name},
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": _ref(data)},
    }
    if name not in event_documents.UNNUMBERED:
        fields = {"id": {"type": "string", "pattern": "^[1-9][0-9]*$"}, **fields}
    once = {"const": retry, "description": "Milliseconds; with the stream's first event only."}
    return {
        "title": name,
        "type": "object",
        "required": list(fields),
        "properties": fields if retry is None else {**fields, "retry": once},
    }


def _ref(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": _REF.format(model=model.__name__)}
