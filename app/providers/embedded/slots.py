"""The parameters of a tool as places to fill: what each is about, and which of a message's values suits it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from app.providers.embedded.language import Stems, lexicon, name_words, stem, stems, words
from app.providers.embedded.schemas import NOTHING, Schema, Schemas, listed, mapping

Sense: TypeAlias = Literal[
    "any", "place", "person", "zone", "date", "time", "email", "url", "path", "sum", "text", "code"
]
Path: TypeAlias = tuple[str | int, ...]
Role: TypeAlias = Literal["from", "to", ""]


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter that takes one value, or a list of plain ones.

    Attributes:
        path: where it lies in the arguments; 0 is the one element of a list of objects.
        schema: its schema, resolved.
        branches: what it may be, without null.
        needed: whether the object it lies in must have it.
        required: whether the whole must have it.
        own: stems of its name.
        about: stems of its description.
        sense: what it seems to mean.
        role: whether it is the beginning or the end of something.
    """

    path: Path
    schema: Schema = field(hash=False)
    branches: tuple[Schema, ...] = field(hash=False)
    needed: bool
    required: bool
    own: Stems
    about: Stems
    sense: Sense
    role: Role

    @property
    def name(self) -> str:
        """Its path as a reader would write it."""
        return ".".join(step for step in self.path if isinstance(step, str)) or "value"

    @property
    def items(self) -> object:
        """Schema of the elements where it takes a list, else NOTHING."""
        for branch in self.branches:
            if branch.get("type") == "array":
                return branch.get("items", {})
        return NOTHING

    def takes(self, *types: str) -> bool:
        """Whether one of its branches has one of these types."""
        return any(branch.get("type") in types for branch in self.branches)


@dataclass(frozen=True, slots=True)
class Group:
    """An object with parameters of its own; `in_list` = the one element of a list."""

    path: Path
    needed: bool
    in_list: bool
    members: tuple[Slot | Group, ...]

    def slots(self) -> Iterator[Slot]:
        """All places to fill in it, at any depth."""
        for member in self.members:
            if isinstance(member, Slot):
                yield member
            else:
                yield from member.slots()


_DEPTH = 4
_MOST = 200  # parameters of one tool, at all depths; types that contain themselves have any number


def group_of(schemas: Schemas, said: Stems) -> Group:
    """The places to fill in a tool's arguments.

    Args:
        schemas: the tool's input schema.
        said: stems of the message, which decide between kinds of objects.
    """
    return _Layout(schemas, said).group(schemas.resolve(schemas.root), (), needed=True, required=True)


class _Layout:
    """Lays the schema of a tool's arguments out as places to fill.

    Args:
        schemas: the tool's input schema.
        said: stems of the message.
    """

    def __init__(self, schemas: Schemas, said: Stems) -> None:
        self._schemas = schemas
        self._said = said
        self._left = _MOST

    def group(self, schema: Schema, path: Path, *, needed: bool, required: bool, in_list: bool = False) -> Group:
        """An object: all it must have, and of the rest what there is room for."""
        must = {name for name in listed(schema.get("required")) if isinstance(name, str)}
        properties = mapping(schema.get("properties"))
        names = [name for name in [*properties, *sorted(must - set(properties))] if self._has_room(name in must)]
        members = (self._member(properties.get(name, {}), (*path, name), name in must, required) for name in names)
        return Group(path, needed, in_list, tuple(members))

    def _has_room(self, needed: bool) -> bool:
        self._left -= 1
        return needed or self._left > 0

    def _member(self, schema: object, path: Path, needed: bool, within: bool) -> Slot | Group:
        whole = self._schemas.resolve(schema)
        branches = tuple(self._schemas.branches(whole))
        required = within and needed
        if len(path) < _DEPTH and branches:
            if all(map(_is_record, branches)):
                return self.group(self._chosen(branches), path, needed=needed, required=required)
            elements = self._schemas.branches(branches[0].get("items", {})) if _is_list(branches[0]) else []
            if elements and all(map(_is_record, elements)):
                chosen = self._chosen(elements)
                return self.group(chosen, (*path, 0), needed=needed, required=required, in_list=True)
        name = str(next(step for step in reversed(path) if isinstance(step, str)))
        description = whole.get("description")
        told = description if isinstance(description, str) else ""
        own = frozenset(map(stem, name_words(name)))
        about = stems(words(told))
        return Slot(path, whole, branches, needed, required, own, about, _sense(own, about, told, branches), _role(own))

    def _chosen(self, branches: Sequence[Schema]) -> Schema:
        """The branch whose constants the message names most of; of equals the first."""

        def named(branch: Schema) -> int:
            values = [self._schemas.resolve(each) for each in mapping(branch.get("properties")).values()]
            constants = [value for each in values for value in (each.get("const"), *listed(each.get("enum")))]
            spoken = {stem(word) for each in constants if isinstance(each, str) for word in name_words(each)}
            return len(spoken & self._said)

        return max(branches, key=named)


def _is_list(branch: Schema) -> bool:
    return branch.get("type") == "array"


def _is_record(branch: Schema) -> bool:
    return branch.get("type") in {"object", None} and bool(mapping(branch.get("properties")))


_NAMES: tuple[tuple[Sense, Stems], ...] = (
    ("zone", lexicon("zone timezone tz")),
    ("email", lexicon("email mail recipient recipients mailbox")),
    ("url", lexicon("url uri link website webpage href")),
    ("path", lexicon("path file filename directory folder")),
    ("sum", lexicon("expression formula equation arithmetic")),
    ("place", lexicon("city town place location locality country region capital destination address airport where")),
    ("date", lexicon("date day birthday deadline due when")),
    ("time", lexicon("time hour")),
    (
        "text",
        lexicon(
            """
            text message query question content body note prompt comment q search keyword keywords term topic title
            subject summary description phrase sentence input task todo reminder words
            """
        ),
    ),
    ("code", lexicon("symbol ticker id code sku key reference currency iban isbn")),
    ("person", lexicon("name person user username guest customer contact author attendee assignee member")),
)
_FORMATS: dict[str, Sense] = {
    "date": "date",
    "date-time": "date",
    "time": "time",
    "email": "email",
    "uri": "url",
    "url": "url",
    "uuid": "code",
}
_ROLES: tuple[tuple[Role, Stems], ...] = (
    ("from", lexicon("from start source origin begin departure since min minimum low lower")),
    ("to", lexicon("to end target destination until till max maximum high upper arrival")),
)


def _sense(own: Stems, about: Stems, told: str, branches: tuple[Schema, ...]) -> Sense:
    for branch in branches:
        if isinstance(form := branch.get("format"), str) and form in _FORMATS:
            return _FORMATS[form]
    if "time zone" in told.lower() or "IANA" in told:
        return "zone"
    for evidence in (own, about):
        for sense, named in _NAMES:
            if evidence & named:
                return sense
    return "any"


def _role(own: Stems) -> Role:
    return next((role for role, named in _ROLES if own & named), "")
