"""The tools of a request, and how the model may choose among them, as a server takes them.

A schema's `$schema` tells a model nothing, and Gemini's servers refuse the whole request for it: nobody is sent it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from app.chat import ChatOptions, ModelRejected, Tool, ToolDefinition
from app.chat.json_schema import Schema, make_strict, map_subschemas, subschemas
from app.providers.openai.wire_json import Json, encode
from app.providers.profile import Profile

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolChoiceOptionParam

_logger = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

_Dialect: TypeAlias = tuple[bool, frozenset[str]]
"""The flags of a profile by which offers differ."""

_FREE_CHOICES = ("auto", "none", "required")
_NEVER_STRICT = frozenset(
    {
        *("allOf", "oneOf", "not", "if", "then", "else", "prefixItems", "patternProperties", "propertyNames"),
        *("dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"),
        *("contains", "minContains", "maxContains", "uniqueItems"),
    }
)
"""Keywords that servers do not take in a schema which they are to hold a model to."""


def tool_fields(options: ChatOptions, profile: Profile, offers: Offers) -> dict[str, Any]:
    """The fields of a request body that speak of tools, `tools` as JSON; none where there are no tools.

    Raises:
        ModelRejected: the choice is no tool's name and cannot be read.
        ValueError: a schema has no JSON form.
    """
    if not options.tools:
        return {}
    choice: Any = None
    tools: Sequence[Tool] = options.tools
    if options.tool_choice is not None:
        choice, tools = _fitting(_tool_choice(options.tool_choice), tools, profile)
    return {
        "tools": offers.encoded(tools, profile),
        "tool_choice": choice,
        "parallel_tool_calls": options.parallel_tool_calls if profile.parallel_tool_calls else None,
    }


class Offers:
    """Tools as JSON, each written once a dialect: schemas are most of what is sent, and hardly ever change.

    Providers may make new tools for every request, so that only so many are kept.
    """

    def __init__(self) -> None:
        self._lists: dict[tuple[int, _Dialect], tuple[Sequence[Tool], Json]] = {}
        self._tools: dict[tuple[int, _Dialect], tuple[ToolDefinition, bytes]] = {}

    def encoded(self, tools: Sequence[Tool], profile: Profile) -> Json:
        """A JSON list of the tools. The same tuple, as the rounds of a turn have it, is put together once."""
        dialect = profile.strict_tools, profile.refused_keywords
        known = self._lists.get((id(tools), dialect))
        if known is not None and known[0] is tools:
            return known[1]
        text = Json(b"[" + b",".join([self._one(tool.definition, dialect, profile) for tool in tools]) + b"]")
        if isinstance(tools, tuple):
            _put(self._lists, (id(tools), dialect), (tools, text), _LISTS)
        return text

    def _one(self, definition: ToolDefinition, dialect: _Dialect, profile: Profile) -> bytes:
        known = self._tools.get((id(definition), dialect))
        if known is not None and known[0] is definition:
            return known[1]
        text = encode(_tool(definition, profile)).encode("utf-8", "replace")
        _put(self._tools, (id(definition), dialect), (definition, text), _TOOLS)
        return text


def _put(kept: dict[K, V], key: K, value: V, at_most: int) -> None:
    """Keep a value; where there are too many, the one that was kept first goes."""
    kept.pop(key, None)
    if len(kept) >= at_most:
        del kept[next(iter(kept))]
    kept[key] = value


_LISTS = 16
_TOOLS = 4096


def _tool(definition: ToolDefinition, profile: Profile) -> ChatCompletionFunctionToolParam:
    schema: Schema = {name: value for name, value in definition.input_schema.items() if name != "$schema"}
    function: dict[str, Any] = {"name": definition.name, "description": definition.description}
    if profile.strict_tools and (strict := _strict(schema)) is not None:
        schema = strict
        function["strict"] = True
    if profile.refused_keywords:
        schema = _without(schema, profile.refused_keywords)
    return cast("ChatCompletionFunctionToolParam", {"type": "function", "function": {**function, "parameters": schema}})


def _strict(schema: Schema) -> dict[str, Any] | None:
    """The schema as servers hold a model to it; None where it has no such form."""
    for part in subschemas(schema):
        closed = part.get("additionalProperties", False if "properties" in part else None) is False
        if not _NEVER_STRICT.isdisjoint(part) or (_is_object(part) and not closed):
            return None
    return _closed(make_strict(schema))


def _is_object(schema: Schema) -> bool:
    kinds = schema.get("type")
    return "properties" in schema or kinds == "object" or (isinstance(kinds, list | tuple) and "object" in kinds)


def _closed(schema: Schema) -> dict[str, Any]:
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}  # beside which nothing may stand
    changed = map_subschemas(schema, _closed)
    changed.pop("default", None)
    if _is_object(changed):
        changed["additionalProperties"] = False
        changed.setdefault("required", [])
    return changed


def _without(schema: Schema, keywords: frozenset[str]) -> dict[str, Any]:
    changed = map_subschemas(schema, lambda part: _without(part, keywords))
    if "const" in keywords and "const" in changed:
        changed.setdefault("enum", [changed["const"]])
    return {keyword: value for keyword, value in changed.items() if keyword not in keywords}


def _tool_choice(choice: str) -> ChatCompletionToolChoiceOptionParam:
    if choice in _FREE_CHOICES:
        return cast("ChatCompletionToolChoiceOptionParam", choice)
    if not choice.lstrip().startswith("{"):
        return {"type": "function", "function": {"name": choice}}
    try:
        written: Mapping[str, Any] = json.loads(choice)
    except ValueError as error:
        raise ModelRejected(
            f"The request was not sent: tool_choice is neither a tool's name nor JSON ({error}).",
            code="invalid_tool_choice",
        ) from None
    return cast("ChatCompletionToolChoiceOptionParam", written)


def _fitting(
    choice: ChatCompletionToolChoiceOptionParam, tools: Sequence[Tool], profile: Profile
) -> tuple[Any, Sequence[Tool]]:
    """The choice in a form that the server takes, and the tools to offer with it."""
    if profile.tool_choice == "all" or choice == "none":
        return choice, tools
    if profile.tool_choice == "words":
        if isinstance(choice, str):
            return choice, tools
        wanted = _named(choice)
        return "required", [tool for tool in tools if tool.definition.name == wanted] or tools
    if choice != "auto":
        _logger.info("tool_choice is left to the model, for the server takes no other")
    return None, tools


def _named(choice: Mapping[str, Any]) -> str | None:
    function = choice.get("function")
    return function.get("name") if isinstance(function, Mapping) else None
