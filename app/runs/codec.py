"""Entries of a journal as bytes and back, for journals outside of this process."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

from app.chat import GatewayError, ModelError
from app.chat.storing import KIND, StoredValueInvalid, from_stored, to_stored
from app.runs.journal import Entry, RunEvent, RunFailed

logger = logging.getLogger(__name__)

_ERROR_FIELDS = ("status", "code", "retry_after")
_BASES = "bases"


class FaultElsewhere(Exception):
    """A run failed by a fault of the gateway's own, in another process; what it was stands in that one's log."""


def encode(round_: int | None, event: RunEvent) -> bytes:
    """An entry's round and event, as JSON in UTF-8 on one line.

    What has no JSON form at all becomes a failure in its place: so it is for those who read it in its own process.
    """
    try:
        return _encoded(round_, event)
    except (ValueError, RecursionError):
        logger.exception("an event cannot be written down")
        return _encoded(round_, RunFailed(FaultElsewhere()))


def decode(seq: int, stored: bytes) -> Entry:
    """The entry of a number.

    Raises:
        StoredValueInvalid: the bytes are not those of an entry.
    """
    try:
        round_, data = json.loads(stored.decode("utf-8", "surrogatepass"))
        if data[KIND] == RunFailed.__name__:
            return Entry(seq, round_, RunFailed(_raised(data["error"])))
    except (ValueError, TypeError, KeyError) as error:
        raise StoredValueInvalid(f"entry {seq} is not an entry") from error
    return Entry(seq, round_, from_stored(RunEvent, data))


def _encoded(round_: int | None, event: RunEvent) -> bytes:
    data = (
        {KIND: RunFailed.__name__, "error": _error(event.error)} if isinstance(event, RunFailed) else to_stored(event)
    )
    text = json.dumps([round_, data], ensure_ascii=False, separators=(",", ":"), default=_plain)
    return text.encode("utf-8", "surrogatepass")


def _plain(value: object) -> object:
    """What users' code handed over and has no JSON form, as those are told who read it in its own process."""
    match value:
        case bytes() | bytearray():
            return value.decode("utf-8", "replace")
        case set() | frozenset():
            return list(value)
        case _:
            return f"<{type(value).__name__}>"


def _error(error: Exception) -> dict[str, Any]:
    if not isinstance(error, GatewayError):
        return {KIND: FaultElsewhere.__name__}
    kind, *bases = (cls.__name__ for cls in type(error).__mro__ if issubclass(cls, GatewayError))
    told = {name: getattr(error, name) for name in _ERROR_FIELDS} if isinstance(error, ModelError) else {}
    # One of an operator's own may be unknown to whoever reads it, but what it is one of is not.
    return {KIND: kind, _BASES: bases, "message": str(error), **told}


def _raised(data: dict[str, Any]) -> Exception:
    known = {cls.__name__: cls for cls in _classes(GatewayError)}
    cls = next((known[name] for name in (data[KIND], *data.get(_BASES, ())) if name in known), None)
    if cls is None:
        return FaultElsewhere()
    raised = cls.__new__(cls)  # some want more than a message, which is all that is told of them
    if isinstance(raised, ModelError):
        ModelError.__init__(raised, data["message"], **{name: data.get(name) for name in _ERROR_FIELDS})
    else:
        Exception.__init__(raised, data["message"])
    return raised


def _classes(cls: type[GatewayError]) -> Iterator[type[GatewayError]]:
    yield cls
    for below in cls.__subclasses__():
        yield from _classes(below)
