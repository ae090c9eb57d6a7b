"""What authors write beside a type: `ToolParam`, a bare text in `Annotated`, and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from app.tooling.docstrings import Documentation, read_docstring


@dataclass(frozen=True, slots=True)
class ToolParam:
    """Describes a parameter of a tool, or a field of a model, dataclass, `TypedDict` or `NamedTuple`.

    It stands in `Annotated[str, ToolParam(description="…")]`, and goes before `Field` and before the docstring.

    Attributes:
        description: what the model is told of it; None = `Field` or the docstring says.
        required: whether the model must give it; None = as the type and the default say: what has a default or may be
            None need not be given. What has no default and is not given arrives as None.
    """

    description: str | None = None
    required: bool | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let None stand for a value that the model need not give."""
        schema = handler(source)
        return core_schema.nullable_schema(schema) if self.required is False else schema


@dataclass(frozen=True, slots=True)
class Note:
    """What is known of one parameter or field beside its type.

    Attributes:
        description: goes before what `Field` says.
        fallback: holds where `Field` says nothing.
        required: as in `ToolParam`.
    """

    description: str | None = None
    fallback: str | None = None
    required: bool | None = None


def note_of(annotations: tuple[Any, ...], documented: str | None = None) -> Note:
    """What the metadata of an annotation says.

    Args:
        annotations: what stands beside the type in `Annotated`; other things than `ToolParam` and texts are skipped.
        documented: what the docstring says.
    """
    params = [metadata for metadata in annotations if isinstance(metadata, ToolParam)]
    texts = [metadata for metadata in annotations if isinstance(metadata, str)]
    return Note(
        description=next((param.description for param in params if param.description), None),
        fallback=next((text for text in texts if text.strip()), documented),
        required=next((param.required for param in params if param.required is not None), None),
    )


def metadata_of(annotation: Any) -> tuple[Any, ...]:
    """What stands beside a type, also inside a union: `Annotated[str, note] | None` is a note on the whole."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        return (*metadata, *metadata_of(inner))
    if origin in {Union, types.UnionType}:
        return tuple(metadata for member in get_args(annotation) for metadata in metadata_of(member))
    return ()


def notes_of(cls: type) -> dict[str, Note]:
    """The notes on the fields of a class, under the names that the fields have in JSON."""
    documented: dict[str, str] = {}
    for base in reversed(list(_lineage(cls))):
        documented.update(class_documentation(base).parameters)
    fields: Mapping[str, FieldInfo] = getattr(cls, "__pydantic_fields__", None) or {}
    if fields:
        return {
            json_name(name, info): note_of((*info.metadata, *metadata_of(info.annotation)), documented.get(name))
            for name, info in fields.items()
        }
    return {name: note_of(metadata_of(hint), documented.get(name)) for name, hint in _hints(cls).items()}


def class_documentation(cls: type) -> Documentation:
    """A class's own docstring, neither inherited nor generated."""
    docstring = vars(cls).get("__doc__")
    generated = dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")
    if not isinstance(docstring, str) or (generated and docstring.startswith(f"{cls.__name__}(")):
        return Documentation()
    return read_docstring(docstring)


def is_description_of(text: object, cls: type) -> bool:
    """Whether `text` is the class's docstring as it stands, which pydantic takes for its description."""
    docstring = vars(cls).get("__doc__")
    return isinstance(docstring, str) and text == inspect.cleandoc(docstring)


def _lineage(cls: type) -> Iterator[type]:
    """A class and its bases, those of a `TypedDict` too, which leave no trace in the method resolution order."""
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] not in {"builtins", "typing", "pydantic"}:
            yield base
            for original in vars(base).get("__orig_bases__", ()):
                if isinstance(original, type) and original not in cls.__mro__:
                    yield from _lineage(original)


def _hints(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001 - an annotation raises what it likes; pydantic, which has resolved it, tells of it
        return dict.fromkeys(inspect.get_annotations(cls))


def json_name(name: str, info: FieldInfo) -> str:
    """What a field is called in JSON.

    Raises:
        TypeError: its value is looked for along a path only, which no schema can say.
    """
    alias = info.validation_alias or info.alias or name
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    found = next((choice for choice in choices if isinstance(choice, str)), None)
    if found is None:
        raise TypeError(f"the field {name} has a path for its alias; it needs a name, too: AliasChoices(…)")
    return found
