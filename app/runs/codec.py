"""Entries of a journal as bytes and back, for journals outside of this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from app.chat import GatewayError, ModelError
from app.chat.storing import KIND, StoredValueInvalid, from_stored, to_stored
from app.runs.journal import Entry, RunEvent, RunFailed

_ERROR_FIELDS = ("status", "code", "retry_after")


class FaultElsewhere(Exception):
    """A run failed by a fault of the gateway's own, in another process; what it was stands in that one's log."""


def encode(round_: int | None, event: RunEvent) -> bytes:
    """An entry's round and event, as JSON in UTF-8."""
    data = (
        {KIND: RunFailed.__name__, "error": _error(event.error)} if isinstance(event, RunFailed) else to_stored(event)
    )
    return json.dumps([round_, data], ensure_ascii=False, separators=(",", ":"), default=_name).encode(
        "utf-8", "surrogatepass"
    )


def decode(seq: int, stored: bytes) -> Entry:
    """The entry of a number.

    Raises:
        StoredValueInvalid: the bytes are not those of an entry.
    """
    try:
        round_, data = json.loads(stored.decode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise StoredValueInvalid(f"entry {seq} is not an entry") from error
    if data[KIND] == RunFailed.__name__:
        return Entry(seq, round_, RunFailed(_raised(data["error"])))
    return Entry(seq, round_, from_stored(RunEvent, data))


def _name(value: object) -> str:
    return f"<{type(value).__name__}>"  # what a tool reports need not have a JSON form


def _error(error: Exception) -> dict[str, Any]:
    if not isinstance(error, GatewayError):
        return {KIND: FaultElsewhere.__name__}
    told = {name: getattr(error, name) for name in _ERROR_FIELDS} if isinstance(error, ModelError) else {}
    return {KIND: type(error).__name__, "message": str(error), **told}


def _raised(data: dict[str, Any]) -> Exception:
    known = {cls.__name__: cls for cls in _classes(GatewayError)}
    cls = known.get(data[KIND])
    if cls is None:
        return FaultElsewhere()
    if issubclass(cls, ModelError):
        return cls(data["message"], **{name: data.get(name) for name in _ERROR_FIELDS})
    raised = cls.__new__(cls)
    Exception.__init__(raised, data["message"])  # some want more than a message, which is all that is told of them
    return raised


def _classes(cls: type[GatewayError]) -> Iterator[type[GatewayError]]:
    yield cls
    for below in cls.__subclasses__():
        yield from _classes(below)
