"""The parameters of a tool as places to fill: what each is about, and which of a message's values suits it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from app.providers.embedded.language import Stems, lexicon, name_words, stem, stems, words
from app.providers.embedded.schemas import NOTHING, Schema, Schemas, listed, mapping

Sense: TypeAlias = Literal[
    "any", "place", "person", "zone", "date", "time", "email", "url", "path", "sum", "text", "code"
]
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

    path: tuple[str | int, ...]
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

    path: tuple[str | int, ...]
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
_MOST_MEMBERS = 40


def group_of(schemas: Schemas, said: Stems) -> Group:
    """The places to fill in a tool's arguments.

    Args:
        schemas: the tool's input schema.
        said: stems of the message, which decide between kinds of objects.
    """
    return _group(schemas, schemas.resolve(schemas.root), said, (), needed=True, required=True, in_list=False)


def _group(
    schemas: Schemas,
    schema: Schema,
    said: Stems,
    path: tuple[str | int, ...],
    *,
    needed: bool,
    required: bool,
    in_list: bool,
) -> Group:
    must = {name for name in listed(schema.get("required")) if isinstance(name, str)}
    properties = mapping(schema.get("properties"))
    names = [*properties, *sorted(must - set(properties))][:_MOST_MEMBERS]
    members = (
        _member(schemas, properties.get(name, {}), said, (*path, name), needed=name in must, required=required)
        for name in names
    )
    return Group(path, needed, in_list, tuple(members))


def _member(
    schemas: Schemas, schema: object, said: Stems, path: tuple[str | int, ...], *, needed: bool, required: bool
) -> Slot | Group:
    whole = schemas.resolve(schema)
    branches = tuple(schemas.branches(whole))
    if len(path) < _DEPTH and branches:
        if all(map(_is_record, branches)):
            chosen = _chosen(schemas, branches, said)
            return _group(schemas, chosen, said, path, needed=needed, required=required and needed, in_list=False)
        elements = schemas.branches(branches[0].get("items", {})) if branches[0].get("type") == "array" else []
        if elements and all(map(_is_record, elements)):
            chosen = _chosen(schemas, elements, said)
            within = required and needed
            return _group(schemas, chosen, said, (*path, 0), needed=needed, required=within, in_list=True)
    name = str(next(step for step in reversed(path) if isinstance(step, str)))
    description = whole.get("description")
    told = description if isinstance(description, str) else ""
    own = frozenset(map(stem, name_words(name)))
    sense = _sense(own, stems(words(told)), told, branches)
    return Slot(path, whole, branches, needed, required and needed, own, stems(words(told)), sense, _role(own))


def _is_record(branch: Schema) -> bool:
    return branch.get("type") in {"object", None} and bool(mapping(branch.get("properties")))


def _chosen(schemas: Schemas, branches: tuple[Schema, ...] | list[Schema], said: Stems) -> Schema:
    """The branch whose constants the message names most of; of equals the first."""

    def named(branch: Schema) -> int:
        values = [schemas.resolve(each) for each in mapping(branch.get("properties")).values()]
        constants = [value for each in values for value in (each.get("const"), *listed(each.get("enum")))]
        return len({stem(word) for each in constants if isinstance(each, str) for word in name_words(each)} & said)

    return max(branches, key=named)


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
