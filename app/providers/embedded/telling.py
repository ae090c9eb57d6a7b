"""What the demo model says: results of tools as sentences, what it lacks, and what it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from textwrap import shorten
from typing import Any

from app.chat import AssistantMessage, Message, ToolCall, ToolDefinition, ToolMessage, ToolResult
from app.providers.embedded.choosing import first_sentence
from app.providers.embedded.planning import Lacking
from app.providers.embedded.schemas import kind, listed, number_of
from app.providers.embedded.slots import Slot

_MOST_TOOLS = 20
_MOST_ELEMENTS = 20
_LONGEST_SUMMARY = 160  # characters said of a tool
_LONGEST = 4000  # characters of one result
_EXACT = 10**15  # up to which 17.0 is told as 17
_ONE_LINE = 60  # characters up to which a list of plain values stays in the sentence
_DEEPEST = 50  # arrays and objects within each other that are told as a text

_GREETINGS = frozenset({"hello", "hi", "hey", "hallo", "moin", "greetings"})
_CONFIGURE = (
    "To talk to a real model, set `GATEWAY_MODEL__BASE_URL` to an OpenAI-compatible server, `GATEWAY_MODEL__NAME` to "
    "one of its models and, if the server wants a key, `GATEWAY_MODEL__API_KEY`; then start the gateway again."
)


def of_results(turn: Sequence[Message]) -> str:
    """The results of all calls of a turn, in the order they came."""
    asked = {call.id: call for message in turn if isinstance(message, AssistantMessage) for call in message.tool_calls}
    results = [result for message in turn if isinstance(message, ToolMessage) for result in message.results]
    return "\n".join(_of_result(result, asked.get(result.id), alone=len(results) == 1) for result in results)


def of_lacking(lacking: Iterable[Lacking]) -> str:
    """What would be called, and what the message does not say."""
    return "\n".join(map(_of_lacking, lacking))


def of_itself(message: str, tools: Sequence[ToolDefinition], *, forbidden: bool) -> str:
    """What the model is, which tools it has, and how to get a real one.

    Args:
        message: what the user said.
        tools: the tools it was offered.
        forbidden: whether the request forbids calls.
    """
    greeting = "Hello! " if message.lower().strip(" .,!?") in _GREETINGS else ""
    opening = (
        f"{greeting}I am the demo model of this gateway. I have no intelligence: I match the words of a message with "
        "the names and descriptions of tools, and read their arguments from it."
    )
    return "\n\n".join([opening, _of_tools(tools, forbidden=forbidden), _CONFIGURE])


def _of_tools(tools: Sequence[ToolDefinition], *, forbidden: bool) -> str:
    if not tools:
        return "This request offers me no tools."
    if forbidden:
        return "This request forbids me to call tools (`tool_choice` is `none`)."
    lines = [f"- `{tool.name}`: {_shortened(tool.description)}".removesuffix(": ") for tool in tools[:_MOST_TOOLS]]
    if len(tools) > _MOST_TOOLS:
        lines.append(f"- and {len(tools) - _MOST_TOOLS} more")
    return "\n".join(["None of my tools fits this message. I can call:", *lines])


def _shortened(description: str) -> str:
    return shorten(first_sentence(description), _LONGEST_SUMMARY, placeholder=" \N{HORIZONTAL ELLIPSIS}")


def _of_lacking(lacking: Lacking) -> str:
    would = f"I would call `{lacking.name}`, but"
    if not lacking.missing:
        return f"{would} what the message says does not fit its parameters."
    names = [f"`{slot.name}`{_confines(slot)}" for slot in lacking.missing]
    return f"{would} the message does not say {_and(names, 'or')}."


def _confines(slot: Slot) -> str:
    """What a parameter is confined to, where that is quickly said."""
    values = [each for branch in slot.branches for each in listed(branch.get("enum"))][:_MOST_ELEMENTS]
    if values:
        return f" (one of {_and([_plain(each) for each in values], 'or')})"
    for branch in slot.branches:
        least, most = number_of(branch.get("minimum")), number_of(branch.get("maximum"))
        if least is not None and most is not None:
            return f" (from {_plain(least)} to {_plain(most)})"
    is_whole = bool(slot.branches) and all(branch.get("type") == "integer" for branch in slot.branches)
    return " (a whole number)" if is_whole else ""


def _of_result(result: ToolResult, call: ToolCall | None, *, alone: bool) -> str:
    name = f"`{result.name}`"
    if not alone and call is not None and (arguments := _parsed(call.arguments)):
        name += f" ({_readable(arguments, call.arguments)})"
    if result.is_error:
        return f"{name} failed: {_cut(result.content)}"
    value = _parsed(result.content)
    if value is None or value == "Done":
        return f"{name} is done." if value else f"{name} found nothing."
    if isinstance(value, str) and " " in value.strip():
        return _cut(value) if alone else f"{name} says: {_cut(value)}"
    if isinstance(value, dict | list):
        return f"{name} says:{_cut(_readable(value, f' {result.content}', _written))}"
    return f"{name} gives {_cut(value if isinstance(value, str) else _plain(value))}."


def _readable(value: Any, text: str, how: Callable[[Any], str] | None = None) -> str:
    """A value for people; as the JSON text it was where it is nested beyond reading."""
    return text if _is_deep(value) else (how or _plain)(value)


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [child for each in level for child in _children(each)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _parsed(text: str) -> Any:
    """The value of a JSON text, else the text itself; None for null, and where there is nothing."""
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _written(value: Any) -> str:
    """An object or array as text that people read: in the sentence where it is short, else as a list below it."""
    if _is_short(value):
        return f" {_plain(value)}"
    if isinstance(value, list):
        return _lines(map(_plain, value), len(value))
    return _lines((f"{_words(key)}:{_below(each)}" for key, each in value.items()), len(value))


def _below(value: Any) -> str:
    if isinstance(value, list) and not _is_short(value):
        return _lines(map(_plain, value), len(value), indent="  ")
    return f" {_plain(value)}"


def _lines(lines: Iterable[str], count: int, indent: str = "") -> str:
    more = [f"and {count - _MOST_ELEMENTS} more"] if count > _MOST_ELEMENTS else []
    return "".join(f"\n{indent}- {line}" for line in [*islice(lines, _MOST_ELEMENTS), *more])


def _is_short(value: Any) -> bool:
    """Whether it is quickly read in one line: without objects or arrays in it, and no long array."""
    if isinstance(value, list):
        return all(map(_is_scalar, value)) and len(_plain(value)) <= _ONE_LINE
    return not isinstance(value, dict) or all(_is_scalar(each) or each == [] for each in value.values())


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _plain(value: Any) -> str:
    """A value in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{_words(key)}: {_plain(each)}" for key, each in value.items()) or "nothing"
    if isinstance(value, list):
        return (", " if all(map(_is_scalar, value)) else "; ").join(map(_plain, value)) or "nothing"
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {None: "nothing", True: "yes", False: "no"}[value]
    return json.dumps(int(value) if kind(value) == "integer" and abs(value) < _EXACT else value)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _and(names: Sequence[str], last: str) -> str:
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} (the result is longer; the demo model stops here)"
