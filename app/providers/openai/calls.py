"""Tool calls put together from fragments.

A fragment belongs to a call by its labels (id and index), never by its position: servers begin to count at 1 or -1,
give every call index 0, send ids late, on every fragment, or not at all. The rules, in the order they are tried:

1. A known id at its index continues that call; without an index, the call with that id.
2. An index, or without one the call written last, names the call that may go on.
3. That call goes on unless the fragment brings an id other than the call's, or a name though the call has one and
   either another one or complete arguments.
4. Otherwise a new call begins.

An empty id or name is none. An id that another call of the answer has is replaced by one of ours, as is a missing one.

A call is started on the stream when its id and name are known, and ready when the answer has ended: until then any
call may go on.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from app.chat import ToolCall, ToolCallArguments, ToolCallReady, ToolCallStarted
from app.chat.events import Delta
from app.chat.messages import EMPTY
from app.chat.text import bytes_of, well_formed_text
from app.providers.openai.errors import protocol_error
from app.providers.openai.text_channel import TextChannel
from app.providers.openai.wire_json import encode
from app.providers.scrubbing import masked, masked_value

_LABEL = (str, int)  # and no union, which is made anew each time it is asked for
_OWN_FIELDS = frozenset({"index", "id", "type", "function"})
_OWN_FUNCTION_FIELDS = frozenset({"name", "arguments"})
_CALL_WEIGHT = 200
"""What a call counts towards the size of an answer beside its texts, so that empty calls are not free."""


class ToolCallAssembly:
    """All calls of one answer, in the order in which they began.

    Args:
        secrets: masked in ids, names and arguments, see `StreamMask`.
    """

    def __init__(self, secrets: Collection[str] = ()) -> None:
        self._secrets = secrets
        self._calls: list[_OpenCall] = []
        self._by_index: dict[object, _OpenCall] = {}
        self._by_label: dict[tuple[object, str], _OpenCall] = {}
        self._ids: set[str] = set()

    def add(self, fragment: Mapping[str, Any], told: list[Delta]) -> int:
        """Take one entry of a delta's `tool_calls`.

        Args:
            fragment: the entry.
            told: gets the events that it makes.

        Returns:
            What it counts towards the size of the answer.

        Raises:
            ModelProtocolError: the fragment cannot be read.
        """
        function = fragment.get("function")
        if function is None:
            function = {}
        elif not isinstance(function, dict):
            raise protocol_error(f"a tool call whose function is a {type(function).__name__}")
        index = fragment.get("index")
        index = index if isinstance(index, _LABEL) else None
        call_id, name = self._label(fragment.get("id"), "id"), self._label(function.get("name"), "name")
        arguments = _arguments(function.get("arguments"))
        call = self._find(index, call_id, name, arguments)
        size = 0
        if call is None:
            call = _OpenCall(self._secrets)
            self._calls.append(call)
            size = _CALL_WEIGHT
        if call_id and not call.sent_id:
            call.sent_id = call_id
            call.id = self._unique(call_id)
            self._by_label[index, call_id] = call
            self._by_label.setdefault((None, call_id), call)
        self._by_index[index] = self._by_index[None] = call
        if call_id and call_id == call.sent_id and call.is_repeated_by(arguments):
            arguments = ""
        call.grow(name, arguments, told)
        return size + bytes_of(arguments) + call.keep(fragment, function)

    def complete(self) -> bool:
        """Whether every call has a name and arguments that are closed, or none."""
        return all(call.name and (call.is_closed() or not call.has_arguments()) for call in self._calls)

    def close(self, told: list[Delta], *, cut: bool) -> tuple[ToolCall, ...]:
        """The calls as they came.

        Args:
            told: gets what is still to be told of them.
            cut: the answer was cut short: calls are told as far as they came, and none is ready.

        Raises:
            ModelProtocolError: a call has no name.
        """
        if not self._calls:
            return ()
        if cut:
            self._calls = [call for call in self._calls if call.name]
        for call in self._calls:
            if not call.name:
                raise protocol_error("a tool call without a name")
            call.id = call.id or self._unique("")
            call.close(told)
        calls = tuple([call.result() for call in self._calls])
        if not cut:
            told += map(ToolCallReady, calls)
        return calls

    def _find(self, index: object, call_id: str, name: str, arguments: str) -> _OpenCall | None:
        """The call that goes on with a fragment, None where a new one begins."""
        call = self._by_label.get((index, call_id)) if call_id else None
        if call is None:
            call = self._by_index.get(index)
        return None if call is None or call.is_over(call_id, name, arguments) else call

    def _label(self, value: Any, field: str) -> str:
        return "" if value is None else masked(_text(value, field), self._secrets)

    def _unique(self, call_id: str) -> str:
        if not call_id or call_id in self._ids:
            call_id = f"call_{uuid.uuid4().hex}"
        self._ids.add(call_id)
        return call_id


class _OpenCall:
    """A call that is being written: `id` is the call's own, `sent_id` what the server labels its fragments with."""

    def __init__(self, secrets: Collection[str]) -> None:
        self.id = ""
        self.sent_id = ""
        self.name = ""
        self._extra: dict[str, Any] = {}
        self._secrets = secrets
        self._arguments = TextChannel(secrets)
        self._length = 0
        self._untold: list[str] = []
        self._closing = _ClosingBrace()
        self._unscanned: list[str] = []
        self._started = False

    def is_over(self, call_id: str, name: str, arguments: str) -> bool:
        """Whether a fragment with these labels begins another call, though its index is this one's."""
        if call_id and self.sent_id and call_id != self.sent_id:
            # some servers make a new id for every fragment: one without a name in the middle of the arguments goes on
            return bool(name) or not arguments or not self.has_arguments() or self.is_closed()
        if not name or not self.name:
            return False
        if call_id and call_id == self.sent_id:
            return self.is_closed() and not self.is_repeated_by(arguments)
        return name != self.name or self.is_closed()

    def is_repeated_by(self, arguments: str) -> bool:
        """Whether a fragment of this call brings nothing new: the whole call is sent once more at its end."""
        if not self.is_closed():
            return False
        # lengths first: fragment by fragment, the whole text costs its length every time
        return not arguments or (len(arguments) == self._length and arguments == self._arguments.text)

    def is_closed(self) -> bool:
        """Whether the arguments so far are a whole JSON object. Each character is looked at once."""
        if self._unscanned:
            self._closing.feed("".join(self._unscanned))
            self._unscanned.clear()
        return self._closing.closed

    def has_arguments(self) -> bool:
        return bool(self._arguments)

    def grow(self, name: str, arguments: str, told: list[Delta]) -> None:
        self.name = self.name or name
        if arguments:
            self._length += len(arguments)
            self._unscanned.append(arguments)
            self._untold.append(self._arguments.feed(arguments))
        if self.id and self.name:
            self._tell(told)

    def keep(self, fragment: Mapping[str, Any], function: Mapping[str, Any]) -> int:
        """Remember the fields that are not ours to understand. Returns roughly how large they are."""
        if _OWN_FIELDS.issuperset(fragment) and _OWN_FUNCTION_FIELDS.issuperset(function):
            return 0
        outer = {key: value for key, value in fragment.items() if key not in _OWN_FIELDS and value is not None}
        inner = {key: value for key, value in function.items() if key not in _OWN_FUNCTION_FIELDS and value is not None}
        if inner:
            outer["function"] = inner
        if outer:
            _merge(self._extra, masked_value(outer, self._secrets))  # callers get to see it
        return len(str(outer)) if outer else 0

    def close(self, told: list[Delta]) -> None:
        self._untold.append(self._arguments.close())
        self._tell(told)

    def result(self) -> ToolCall:
        arguments = self._arguments.text
        return ToolCall(self.id, self.name, arguments if arguments.strip() else "{}", self._extra or EMPTY)

    def _tell(self, told: list[Delta]) -> None:
        if not self._started:
            self._started = True
            told.append(ToolCallStarted(self.id, self.name))
        text = "".join(self._untold)
        self._untold.clear()
        if text:
            told.append(ToolCallArguments(self.id, self.name, text))


class _ClosingBrace:
    """Finds the end of a JSON object in a text that comes in pieces."""

    _STRUCTURE = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)

    def __init__(self) -> None:
        self.closed = False
        self._depth = 0
        self._in_text = False
        self._escape = ""

    def feed(self, piece: str) -> None:
        piece = self._escape + piece
        self._escape = ""
        for mark in self._STRUCTURE.findall(piece):
            if mark == '"':
                self._in_text = not self._in_text
            elif mark == "\\":
                self._escape = mark
            elif self._in_text or mark[0] == "\\":
                continue
            else:
                self._depth += 1 if mark in "{[" else -1
                self.closed = self._depth == 0


def _merge(kept: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Objects are united at every depth, all else is replaced."""
    for key, value in fields.items():
        if isinstance(value, dict) and isinstance(kept.get(key), dict):
            _merge(kept[key], value)
        else:
            kept[key] = value


def _text(value: Any, field: str) -> str:
    if isinstance(value, _LABEL):
        return well_formed_text(str(value)).strip()
    raise protocol_error(f"a tool call whose {field} is a {type(value).__name__}")


def _arguments(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return encode(value)
    except ValueError as error:
        raise protocol_error(f"arguments of a tool call {error}") from None
