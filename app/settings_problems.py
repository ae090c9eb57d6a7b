"""How to tell an operator which value in which place is wrong. No value is repeated, since it may be a secret."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource

from app.settings_sources import Key, Source, fields, value_at, variable_name


def explain(error: ValidationError, settings_cls: type[BaseSettings], arguments: Mapping[str, Any]) -> str:
    """Return what is wrong with the settings, one line for each wrong value, without the values.

    Args:
        error: what validation found in the merged values.
        settings_cls: the settings class, whose sources are asked where a value came from.
        arguments: what was passed to its constructor.
    """
    known = [key for key, _ in fields(settings_cls)]
    none = InitSettingsSource(settings_cls, init_kwargs={})
    sources = settings_cls.settings_customise_sources(settings_cls, none, none, none, none)
    lines = ["The settings are not usable:"]
    for found in error.errors(include_url=False, include_context=False, include_input=False):
        path = tuple(str(part) for part in found["loc"])
        key = next((k for k in known if path[: len(k)] == k), path)
        dotted = ".".join(key)
        inside = _sections_in(settings_cls, key)
        place = f"{dotted} (argument)" if value_at(arguments, key) is not None else _place(key, sources)
        is_unknown = found["type"] == "extra_forbidden"
        where = place or (dotted if is_unknown else variable_name(key, settings_cls))
        if inside and path != key:
            where += f": {'.'.join(path[len(key) :])}"
        if not is_unknown:
            lines.append(f"{where}: {_rule(found['type'], found['msg'])}")
            continue
        if inside:
            names = [".".join(k) for k, _ in fields(inside)]
        elif place is not None and place.upper().startswith(variable_name((), settings_cls)):
            names = [variable_name(k, settings_cls) for k in known]
        else:
            names = [*settings_cls.model_fields] if len(key) == 1 else [".".join(k) for k in known]
        lines.append(f"{where}: unknown; the nearest known name is {_nearest(path[-1:] if inside else key, names)}")
    return "\n  ".join(lines)


def _sections_in(settings_cls: type[BaseModel], key: Key) -> type[BaseModel] | None:
    """Return the class of the sections that stand within the value of one setting, None where it holds none."""
    found: list[Any] = [field.annotation for name, field in fields(settings_cls) if name == key]
    for annotation in found:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        found.extend(get_args(annotation))
    return None


def _place(key: Key, sources: tuple[PydanticBaseSettingsSource, ...]) -> str | None:
    names = (source.name(key) for source in sources if isinstance(source, Source))
    return next(filter(None, names), None)


def _rule(kind: str, message: str) -> str:
    """Return pydantic's sentence as a rule for an operator."""
    match kind:
        case "tuple_type" | "list_type":
            return 'must be a JSON list, such as ["one", "two"]'
        case "mapping_type" | "dict_type":
            return 'must be a JSON object, such as {"name": "value"}'
        case "model_type":
            return "is a section: set the keys in it"
        case "string_too_short" | "too_short":
            return "must not be empty"
        case _:
            return message.removeprefix("Value error, ").replace("Input should be", "must be", 1)


def _nearest(key: Key, names: list[str]) -> str:
    """Return the known name most like `key`; one that ends alike was most likely meant with another section."""
    wanted = ".".join(key)
    last = re.split(r"__|\.", wanted.removeprefix("GATEWAY_"))[-1]
    alike = [name for name in names if re.split(r"__|\.", name)[-1] == last]
    return difflib.get_close_matches(wanted, alike or names, n=1, cutoff=0)[0]
