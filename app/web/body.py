"""Reading a request's body: bytes counted before anything is parsed, strict JSON, errors that say where and what.

The body is taken for JSON whatever its `Content-Type` says, for `curl -d` labels it as a form. Only web pages have to
label it: a browser asks a server before it sends JSON to it for another site's page, and does not ask for forms, so any
page could talk to a gateway on its reader's machine.
"""

from __future__ import annotations

import codecs
import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json
from starlette.requests import Request

Location: TypeAlias = tuple[str | int, ...]
"""Where in the body: `("messages", 0, "content")`; empty for the body itself."""

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing in a body that does not fit."""

    location: Location
    message: str


class BodyUnlabelled(Exception):
    """A web page sent a body without calling it JSON."""


class BodyTooLarge(Exception):
    """The body is larger than it may be; the rest of it was not read."""


class BodyNotJson(Exception):
    """The body is not strict JSON in UTF-8."""


class BodyInvalid(Exception):
    """The body is JSON but not what the route takes.

    Args:
        *errors: all that does not fit.
    """

    def __init__(self, *errors: FieldError) -> None:
        super().__init__("; ".join(f"{dotted(error.location)}: {error.message}" for error in errors))
        self.errors = errors


async def read_json(request: Request, *, limit: int) -> Any:
    """The body, parsed.

    Args:
        request: its body is read from the stream.
        limit: bytes it may have, announced or not.

    Raises:
        BodyUnlabelled: it was sent by a web page and is not labelled as JSON.
        BodyTooLarge: it has more.
        BodyNotJson: it is no JSON: also NaN, infinities, lone surrogates, other encodings, and deep nesting.
        ClientDisconnect: the caller went away.
    """
    if "origin" in request.headers and _label(request) != "application/json":
        raise BodyUnlabelled("a body that a web page sends needs the header Content-Type: application/json")
    raw = (await _read(request, limit)).removeprefix(codecs.BOM_UTF8)
    if not raw.strip():
        raise BodyNotJson("the body is empty; send a JSON object")
    try:
        value = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise BodyNotJson(f"the body is not JSON in UTF-8: {error}") from None
    if not _is_finite(value):
        raise BodyNotJson("the body holds a number that is too large to be one")
    return value


def _label(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _read(request: Request, limit: int) -> bytes:
    message = f"the body is larger than the {limit} bytes it may have"
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:  # no size worth reading has more digits
        raise BodyTooLarge(message)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise BodyTooLarge(message)
        parts.append(part)
    return b"".join(parts)


def _is_finite(value: Any) -> bool:
    pending = [value]
    for one in pending:  # what is in it is put behind it
        match one:
            case dict():
                pending += one.values()
            case list():
                pending += one
            case float() if not math.isfinite(one):
                return False
    return True


def validated(schema: type[T], value: Any) -> T:
    """The parsed body as an instance of `schema`.

    Raises:
        BodyInvalid: it does not fit. A field that is not known is told together with the nearest one that is.
    """
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
    known = [path for path, _ in _fields(schema)]
    raise BodyInvalid(*dict.fromkeys(_field_error(detail, value, known) for detail in found))


def _field_error(detail: ErrorDetails, value: Any, known: Sequence[Location]) -> FieldError:
    location = _real(detail["loc"], value)
    if detail["type"] == "extra_forbidden":
        return FieldError(location, _unknown(location, known))
    return FieldError(location, _said(detail["type"], detail["msg"], detail.get("ctx", {})))


def _real(location: Location, value: Any) -> Location:
    """The location without the names of union branches, which stand in no body."""
    real: list[str | int] = []
    for position, part in enumerate(location):
        inside = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
        if part in inside:
            value = value[part]
        elif not isinstance(value, Mapping) or position + 1 < len(location):
            continue
        real.append(part)
    return tuple(real)


def _unknown(location: Location, known: Sequence[Location]) -> str:
    """What to say of a field that is not known: the nearest one beside it, or else anywhere in the body."""
    *above, name = (part for part in location if isinstance(part, str))
    beside = [path[-1] for path in known if list(path[:-1]) == above]
    if near := difflib.get_close_matches(str(name), map(str, beside), n=1):
        return f"unknown field; did you mean {near[0]!r}?"
    elsewhere = {str(path[-1]): path for path in known}
    if near := difflib.get_close_matches(str(name), elsewhere, n=1, cutoff=0.8):
        return f"unknown field; did you mean {dotted(elsewhere[near[0]])!r}?"
    return f"unknown field; known here: {', '.join(map(str, dict.fromkeys(beside)))}"


def _fields(schema: type[BaseModel], above: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Every field of a schema and of the schemas in it, by its path without list positions."""
    for name, field in schema.model_fields.items():
        path = (*above, field.alias or name)
        yield path, field
        for inner in _schemas(field.annotation):
            yield from _fields(inner, path)


def _schemas(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return (schema for part in getattr(annotation, "__args__", ()) for schema in _schemas(part))


def _said(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """Pydantic's sentence in the words of JSON."""
    match kind:
        case "missing":
            return "is required"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "must be a JSON object"
        case "list_type":
            return "must be a list"
        case "union_tag_not_found":
            return f"needs the field {context['discriminator']}"
        case "union_tag_invalid":
            return f"{context['discriminator']} must be one of {context['expected_tags']}"
    message = message.removeprefix("Value error, ").replace(" after validation", "").replace("a valid int", "an int")
    return re.sub(r"^(Input|String|List|Dictionary|Number) should ", "must ", message).replace("be a valid ", "be a ")


def dotted(location: Location) -> str:
    """A location as a reader writes it: `messages[0].content`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "body"
