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
    "description": "Names the request in the log; a sane one of the caller's is kept.",
    "schema": {"type": "string"},
}
_RETRY_AFTER = {
    "description": "Seconds to wait before asking again; with 502 only where the model server said so.",
    "schema": {"type": "integer", "minimum": 1},
}


def takes(body: type[BaseModel]) -> dict[str, Any]:
    """`openapi_extra` of a route that reads this body by itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref(body)}}}}


def answers(document: type[BaseModel], *errors: int, status: int = 200) -> Responses:
    """`responses` of a route that gives this document or one of these errors; 500 is added."""
    return {status: _response("The answer", "application/json", _ref(document)), **problems(*errors)}


def streams(*errors: int) -> Responses:
    """`responses` of a route that gives a stream of events or one of these errors; 500 is added."""
    event = {"oneOf": [_event(name, data) for name, data in event_documents.EVENTS.items()]}
    # OpenAPI 3.1 has no words for streams; that the schema is each event's is what its tools have settled on.
    events = _response("Server-sent events, the run's end last", EVENT_STREAM, event)
    events["headers"] |= {
        "Cache-Control": {"schema": {"const": "no-cache"}},
        "X-Accel-Buffering": {"schema": {"const": "no"}},
    }
    return {200: events, **problems(*errors)}


def accepts(document: type[BaseModel]) -> Responses:
    """`responses` of a route that can also answer before the work is done."""
    accepted = _response("It is being done; `Location` says where to look", "application/json", _ref(document))
    accepted["headers"]["Location"] = {"schema": {"type": "string"}}
    return {202: accepted}


def nothing(description: str) -> Responses:
    """`responses` of a route that can also have nothing to say."""
    return {204: {"description": description, "headers": {HEADER: _REQUEST_ID}}}


def parameters(*given: dict[str, Any]) -> dict[str, Any]:
    """`openapi_extra` of a route that reads these headers or query parameters by itself."""
    return {"parameters": list(given)}


def _parameter(place: str, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"in": place, "name": name, "required": False, "description": description, "schema": schema}


CONVERSATION_ID = {"in": "path", "name": "conversation_id", "required": True, "schema": {"type": "string"}}
RUN_ID = {"in": "path", "name": "run_id", "required": True, "schema": {"type": "string"}}
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
    {"type": "string", "pattern": "^[0-9]{1,18}$"},
)
AFTER = _parameter(
    "query", "after", "The number of the last event that the reader has.", {"type": "integer", "minimum": 0}
)
LIMIT = _parameter(
    "query",
    "limit",
    "How many runs a page may have.",
    {"type": "integer", "minimum": 1, "maximum": outside.LARGEST_PAGE, "default": outside.DEFAULT_PAGE},
)
BEFORE = _parameter("query", "before", "The `next` of the page before.", {"type": "string"})
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


def _event(name: str, data: type[BaseModel]) -> dict[str, Any]:
    return {
        "title": name,
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "pattern": "^[1-9][0-9]*$"},
            "event": {"const": name},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": _ref(data)},
        },
    }


def _ref(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": _REF.format(model=model.__name__)}
