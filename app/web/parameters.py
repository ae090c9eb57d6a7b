"""What requests say outside of their bodies: where a reader was, which page is wanted, which request it is."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from typing import Annotated, TypeAlias

from fastapi import Depends
from starlette.requests import Request

from app.memory import can_be_id
from app.runs import IdempotencyKey
from app.web.schemas import ChatBody

IDEMPOTENCY_KEY = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LAST_EVENT_ID = "Last-Event-ID"

DEFAULT_PAGE = 20
LARGEST_PAGE = 100
LARGEST_NUMBER = 10**18 - 1
RUN_ID = "run_[0-9a-f]{32}"
PLACE = "[A-Za-z0-9_-]+"

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_NUMBER = re.compile(r"[0-9]{1,18}")


class ParameterInvalid(Exception):
    """A header or a query parameter cannot be used; the message names it and says what it must be."""


class ConversationsUnknown(Exception):
    """The gateway does not remember conversations, or not where they can be looked at."""


async def _after(request: Request) -> int:
    """The number of the last event that the reader has, 0 for none.

    A browser that comes back names the event it had last in the header, and its address is still the first one: so
    the header wins.
    """
    after = _number("after", request.query_params.get("after", "0"))
    if given := request.headers.get(LAST_EVENT_ID):
        return _number(LAST_EVENT_ID, given)
    return after


async def _limit(request: Request) -> int:
    """How many items a page may have."""
    limit = _number("limit", request.query_params.get("limit", str(DEFAULT_PAGE)))
    if not 1 <= limit <= LARGEST_PAGE:
        raise ParameterInvalid(f"limit must be from 1 to {LARGEST_PAGE}")
    return limit


async def _before(request: Request) -> str | None:
    """The id of the run at which the last page ended, None for the first page."""
    before = request.query_params.get("before")
    if before is not None and not re.fullmatch(RUN_ID, before):
        raise ParameterInvalid("before must be the id of a run, as it stands in next")
    return before


async def _conversation(request: Request) -> str | None:
    return request.query_params.get("conversation_id")


def place_in_list(moment: datetime, name: str) -> str:
    """What names the place of a conversation in the list; it can stand in an address as it is."""
    return urlsafe_b64encode(f"{moment.isoformat()}/{name}".encode()).decode().rstrip("=")


async def _before_conversation(request: Request) -> tuple[datetime, str] | None:
    """The place in the list at which the last page ended, None for the first page."""
    before = request.query_params.get("before")
    if before is None:
        return None
    rule = ParameterInvalid("before must be what stands in next")
    if not re.fullmatch(PLACE, before):
        raise rule
    try:
        said = urlsafe_b64decode(before + "=" * (-len(before) % 4)).decode()
        moment = datetime.fromisoformat(said.partition("/")[0])
        name = said.partition("/")[2]
        if moment.tzinfo is None or not can_be_id(name):
            raise rule
        return moment.astimezone(UTC), name
    except (ValueError, OverflowError):
        raise rule from None


async def _conversation_name(request: Request) -> str:
    name: str = request.path_params["conversation_id"]
    return name


After: TypeAlias = Annotated[int, Depends(_after)]
PageLimit: TypeAlias = Annotated[int, Depends(_limit)]
Before: TypeAlias = Annotated[str | None, Depends(_before)]
BeforeConversation: TypeAlias = Annotated[tuple[datetime, str] | None, Depends(_before_conversation)]
ConversationName: TypeAlias = Annotated[str, Depends(_conversation_name)]
OfConversation: TypeAlias = Annotated[str | None, Depends(_conversation)]


def idempotency_key(request: Request, body: ChatBody, principal: str) -> IdempotencyKey | None:
    """What the request is named by, None where it has no name.

    Args:
        request: its header says the key.
        body: what is asked; requests are equal when their bodies say the same, in whatever order.
        principal: who asks.

    Raises:
        ParameterInvalid: the header cannot be used.
    """
    given = request.headers.getlist(IDEMPOTENCY_KEY)
    if not given:
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        raise ParameterInvalid(
            f"{IDEMPOTENCY_KEY} must be one text of 1 to 255 visible ASCII characters, such as a UUID"
        )
    said = json.dumps(body.model_dump(mode="json", exclude_unset=True), sort_keys=True)
    return IdempotencyKey(principal, given[0], hashlib.sha256(said.encode()).hexdigest())


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ParameterInvalid(f"{name} must be a number, such as 17")
    return int(text)
