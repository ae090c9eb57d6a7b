"""What is remembered: conversations can be listed, read, forgotten and copied."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response

from app.memory import ConversationInfo, KeptConversation
from app.web import openapi, routing
from app.web.answers import time_text
from app.web.dependencies import Conversations, CurrentGateway, Fork
from app.web.documents import ConversationDocument, ConversationsDocument
from app.web.encoding import json_response
from app.web.history import wire_messages
from app.web.parameters import BeforeConversation, ConversationName, PageLimit, place_in_list
from app.web.schemas import ForkBody

router = routing.router("conversations")

_ERRORS = (404, 501, 503)


@router.get(
    "/conversations",
    responses=openapi.answers(ConversationsDocument, 422, 501, 503),
    openapi_extra=openapi.parameters(openapi.LIMIT, openapi.BEFORE_CONVERSATION),
)
async def conversations(memory: Conversations, limit: PageLimit, before: BeforeConversation) -> Response:
    """List the conversations that are remembered, the one that was added to last first."""
    found = await memory.page(limit + 1, before=before)
    page, more = found[:limit], found[limit:]
    return json_response({"conversations": list(map(_listed, page)), "next": _place(page[-1]) if more else None})


@router.get(
    "/conversations/{conversation_id:path}",
    name="conversation",
    responses=openapi.answers(ConversationDocument, *_ERRORS),
    openapi_extra=openapi.parameters(openapi.CONVERSATION_ID),
)
async def one_conversation(memory: Conversations, name: ConversationName) -> Response:
    """Tell what is remembered of a conversation, turn by turn."""
    return json_response(_document(await memory.read(name)))


@router.delete(
    "/conversations/{conversation_id:path}",
    status_code=204,
    responses=openapi.nothing("It is forgotten") | openapi.problems(*_ERRORS, 409),
    openapi_extra=openapi.parameters(openapi.CONVERSATION_ID),
)
async def forget(memory: Conversations, name: ConversationName, gateway: CurrentGateway) -> Response:
    """Forget a conversation. Not while a run of it is going, whose turn would begin it anew."""
    async with gateway.runs.between_runs(name):
        await memory.read(name)
        await memory.clear(name)
    return Response(status_code=204)


@router.post(
    "/conversations/{conversation_id:path}/fork",
    status_code=201,
    responses=openapi.makes(ConversationDocument, *openapi.BODY_ERRORS, *_ERRORS, 409),
    openapi_extra=openapi.takes(ForkBody) | openapi.parameters(openapi.CONVERSATION_ID),
)
async def fork(
    request: Request, memory: Conversations, name: ConversationName, body: Fork, gateway: CurrentGateway
) -> Response:
    """Begin another conversation with what was said in this one, up to a turn."""
    new_id = body.id or f"conversation_{uuid.uuid4().hex}"
    # A run of the new conversation that is going began with nothing, and its turn would stand behind what is copied.
    async with nullcontext() if body.id is None else gateway.runs.between_runs(new_id):
        copy = await memory.fork(name, new_id, body.turn)
    place = request.url_for("conversation", conversation_id=quote(new_id, safe="")).path
    return json_response(_document(copy), 201, {"Location": place})


def _listed(info: ConversationInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "created_at": time_text(info.created_at),
        "updated_at": time_text(info.updated_at),
        "turns": info.turns,
    }


def _place(info: ConversationInfo) -> str:
    return place_in_list(info.updated_at, info.id)


def _document(kept: KeptConversation) -> dict[str, Any]:
    return {
        "id": kept.id,
        "created_at": time_text(kept.created_at),
        "updated_at": time_text(kept.updated_at),
        "system": [message.content for message in kept.system],
        "summary": kept.summary,
        "turns": [
            {
                "number": turn.number,
                "created_at": time_text(turn.created_at),
                "messages": wire_messages(turn.messages),
            }
            for turn in kept.turns
        ],
    }
