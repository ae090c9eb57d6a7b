"""The JSON Schema that a model is told for a function."""
# ruff: noqa: UP007, UP045 - unions and optional types have two spellings, and both are shown to work

from __future__ import annotations

import datetime as dt
import enum
import functools
import json
import typing
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar, Union

import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, WithJsonSchema

from app.chat import ConfigurationError
from app.tooling import ToolCallback, ToolContext, ToolParam, input_schema
from tests.support.functions import returned_by
from tests.support.ids import shown

T = TypeVar("T")
THING = object()


class Unit(enum.Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class Force(enum.IntEnum):
    """Force of the wind."""

    CALM = 0
    GALE = 8


class Shape(enum.Enum):
    SQUARE = (1, 1)


class Rig(enum.StrEnum):
    SAIL = "sail"


class Sails(BaseModel):
    kind: Literal["sail"]
    on_tide: Callable[[], None]


class Rows(BaseModel):
    kind: Literal["row"]


class Fathoms(BaseModel):
    depth: int = Field(0, validation_alias=AliasPath("sounding", "depth"))


@dataclass
class Berth:
    """A place to moor."""

    number: int
    depth: Annotated[float, Field(gt=0, description="in metres")]
    owner: Optional[str]
    free: bool = True
    tags: list[str] = field(default_factory=list)


class Harbour(BaseModel):
    """A harbour."""

    name: str
    berths: list[Berth]


class Node(BaseModel):
    label: str
    children: list[Node] = []


class Left(BaseModel):
    right: Optional[Right] = None


class Right(BaseModel):
    left: Optional[Left] = None


class Position(typing.TypedDict):
    lat: float
    lon: float
    name: typing.NotRequired[str]


class Route(typing.TypedDict, total=False):
    stops: list[Position]
    then: Route


class Buoy(typing_extensions.TypedDict):
    """A buoy."""

    colour: Literal["red", "green"]


class Point(NamedTuple):
    x: int
    y: int = 0


class Sail(BaseModel):
    kind: Literal["sail"]
    masts: int


class Motor(BaseModel):
    kind: Literal["motor"]
    power: float


class Page(BaseModel, Generic[T]):
    items: list[T]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    known: int


class Outer:
    class _Inner(BaseModel):
        depth: int

    def measure(self, inner: _Inner) -> int:
        return inner.depth


class North:
    class Filter(BaseModel):
        text: str
        inner: list[North.Filter] = []


class South:
    class Filter(BaseModel):
        limit: int
        inner: list[South.Filter] = []
        other: Optional[North.Filter] = None


def properties_of(function: Callable[..., Any]) -> dict[str, Any]:
    properties: dict[str, Any] = input_schema(function)["properties"]
    return properties


def type_of(annotation: Any) -> Any:
    """The schema of a parameter of a type."""

    def function(it: Any) -> None: ...

    function.__annotations__["it"] = annotation
    return properties_of(function)["it"]


@pytest.mark.parity(135, 136, 142)
def test_a_function_s_schema_is_a_closed_object_with_a_property_for_each_parameter() -> None:
    def moor(harbour: str, berth: int, depth: float, night: bool) -> None: ...

    assert input_schema(moor) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "harbour": {"type": "string"},
            "berth": {"type": "integer"},
            "depth": {"type": "number"},
            "night": {"type": "boolean"},
        },
        "required": ["harbour", "berth", "depth", "night"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_has_an_object_without_properties() -> None:
    def tide() -> None: ...

    schema = input_schema(tide)

    assert schema["type"] == "object"
    assert schema["properties"] == {}
    assert "required" not in schema


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Any, {}),
        (object, {}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (Literal[1], {"const": 1, "type": "integer"}),
        (dt.date, {"format": "date", "type": "string"}),
        (dt.datetime, {"format": "date-time", "type": "string"}),
        (dt.time, {"format": "time", "type": "string"}),
        (dt.timedelta, {"format": "duration", "type": "string"}),
        (uuid.UUID, {"format": "uuid", "type": "string"}),
        (Decimal, {"anyOf": [{"type": "number"}, {"type": "string"}]}),
        (list[int], {"items": {"type": "integer"}, "type": "array"}),
        (list, {"items": {}, "type": "array"}),
        (Sequence[int], {"items": {"type": "integer"}, "type": "array"}),
        (Iterable[int], {"items": {"type": "integer"}, "type": "array"}),
        (Iterable, {"items": {}, "type": "array"}),
        (dict[str, Iterable[int]], {"additionalProperties": type_of(list[int]), "type": "object"}),
        (list[int] | Iterable[str], {"anyOf": [type_of(list[int]), type_of(list[str])]}),
        (set[str], {"items": {"type": "string"}, "type": "array", "uniqueItems": True}),
        (frozenset[str], {"items": {"type": "string"}, "type": "array", "uniqueItems": True}),
        (tuple[int, ...], {"items": {"type": "integer"}, "type": "array"}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (list[int | None], {"items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "type": "array"}),
    ],
    ids=str,
)
@pytest.mark.parity(112, 113, 114, 140, 142, 143)
def test_a_type_has_the_schema_one_expects(annotation: Any, schema: dict[str, Any]) -> None:
    assert type_of(annotation) == schema


@pytest.mark.parity(140)
def test_a_parameter_of_any_type_or_of_none_has_an_empty_schema_and_is_required() -> None:
    def log(what: Any, how) -> None: ...  # type: ignore[no-untyped-def]  # the point of the test

    schema = input_schema(log)

    assert schema["properties"] == {"what": {}, "how": {}}
    assert schema["required"] == ["what", "how"]


@pytest.mark.parity(148)
def test_enums_go_by_their_values_and_numbers_are_explained_by_their_names() -> None:
    assert type_of(Unit) == {"enum": ["celsius", "fahrenheit"], "type": "string"}
    assert type_of(Force) == {
        "enum": [0, 8],
        "type": "integer",
        "description": "Force of the wind.\n0 = CALM, 8 = GALE",
    }
    assert type_of(Annotated[Force, ToolParam(description="how strong")])["description"] == (
        "how strong\n0 = CALM, 8 = GALE"
    )


@pytest.mark.parity(139, 149)
@pytest.mark.fault("T09")
def test_what_may_be_none_need_not_be_given_and_keeps_its_plain_type() -> None:
    def find(  # noqa: PLR0917 - one of each kind
        name: Optional[str],
        near: str | None = None,
        on: Annotated[Optional[dt.date], "the day"] = None,
        implicit: int = None,  # type: ignore[assignment]  # noqa: RUF013 - what people write
        kinds: int | str | None = None,
        berth: Optional[Berth] = None,
    ) -> None: ...

    schema = input_schema(find)

    assert "required" not in schema
    assert schema["properties"] == {
        "name": {"type": "string"},
        "near": {"type": "string"},
        "on": {"type": "string", "format": "date", "description": "the day"},
        "implicit": {"type": "integer"},
        "kinds": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "berth": type_of(Berth),
    }


@pytest.mark.parity(149)
def test_none_stays_a_choice_where_leaving_out_means_something_else() -> None:
    def find(unit: str | None = "km") -> None: ...

    assert properties_of(find)["unit"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "km"}


@pytest.mark.fault("T11")
@pytest.mark.parametrize("default", [float("nan"), float("inf"), THING, {1: THING}, b"\xff"], ids=shown)
def test_a_default_that_json_cannot_say_is_left_out(default: Any) -> None:
    def mean(it: Any = default) -> None: ...

    assert input_schema(mean)["properties"] == {"it": {}}
    assert "required" not in input_schema(mean)


def test_a_default_is_shown_in_its_json_form() -> None:
    def plan(day: dt.date = dt.date(2031, 5, 2), unit: Unit = Unit.CELSIUS, stops: Sequence[str] = ()) -> None: ...

    shown = {name: schema["default"] for name, schema in properties_of(plan).items()}

    assert shown == {"day": "2031-05-02", "unit": "celsius", "stops": []}


@pytest.mark.parity(141, 150)
@pytest.mark.fault("T03")
def test_nested_types_are_inlined_with_their_own_required_lists_and_descriptions() -> None:
    def survey(harbour: Harbour) -> None: ...

    berth = {
        "type": "object",
        "description": "A place to moor.",
        "properties": {
            "number": {"type": "integer"},
            "depth": {"type": "number", "exclusiveMinimum": 0, "description": "in metres"},
            "owner": {"type": "string"},
            "free": {"type": "boolean", "default": True},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["number", "depth"],
        "additionalProperties": False,
    }
    assert properties_of(survey)["harbour"] == {
        "type": "object",
        "description": "A harbour.",
        "properties": {"name": {"type": "string"}, "berths": {"type": "array", "items": berth}},
        "required": ["name", "berths"],
        "additionalProperties": False,
    }
    assert "$ref" not in json.dumps(input_schema(survey))
    assert "$defs" not in input_schema(survey)


def test_typed_dicts_of_either_kind_named_tuples_and_generic_models_are_objects() -> None:
    assert type_of(Position) == {
        "type": "object",
        "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}, "name": {"type": "string"}},
        "required": ["lat", "lon"],
        "additionalProperties": False,
    }
    assert type_of(Buoy)["properties"] == {"colour": {"enum": ["red", "green"], "type": "string"}}
    assert type_of(Point) == {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert type_of(Page[int])["properties"] == {"items": {"type": "array", "items": {"type": "integer"}}}


def test_a_tagged_union_needs_no_keyword_that_only_openapi_has() -> None:
    schema = type_of(Annotated[Union[Sail, Motor], Field(discriminator="kind")])

    assert [branch["properties"]["kind"]["const"] for branch in schema["anyOf"]] == ["sail", "motor"]
    assert schema.keys() == {"anyOf"}


@pytest.mark.parity(150, 151, 152, 153, 155)
@pytest.mark.fault("T04")
def test_recursive_types_are_defined_once_before_the_properties_and_are_closed() -> None:
    def walk(start: Node, end: Node, loop: Left) -> None: ...

    schema = input_schema(walk)

    assert list(schema)[:4] == ["$schema", "type", "$defs", "properties"]
    assert set(schema["$defs"]) == {"Node", "Left", "Right"}
    assert all(definition["additionalProperties"] is False for definition in schema["$defs"].values())
    assert schema["properties"]["start"] == schema["properties"]["end"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"]["Left"]["properties"]["right"] == {"$ref": "#/$defs/Right"}
    Draft202012Validator(schema).validate(
        {"start": {"label": "a", "children": [{"label": "b"}]}, "end": {"label": "c"}, "loop": {}}
    )


def test_a_recursive_typed_dict_of_the_standard_library_works() -> None:
    def sail(route: Route) -> None: ...

    schema = input_schema(sail)

    assert schema["$defs"]["Route"]["properties"]["then"] == {"$ref": "#/$defs/Route"}
    assert "required" not in schema["$defs"]["Route"]


@pytest.mark.parity(154)
def test_two_types_of_one_name_do_not_collide_and_show_no_module_paths() -> None:
    def search(north: North.Filter, south: South.Filter) -> None: ...

    schema = input_schema(search)

    assert set(schema["$defs"]) == {"Filter", "Filter_2"}
    north, south = (schema["properties"][name]["$ref"].removeprefix("#/$defs/") for name in ("north", "south"))
    assert schema["$defs"][north]["properties"]["text"] == {"type": "string"}
    assert schema["$defs"][north]["properties"]["inner"]["items"] == {"$ref": f"#/$defs/{north}"}
    assert schema["$defs"][south]["properties"]["inner"]["items"] == {"$ref": f"#/$defs/{south}"}
    assert schema["$defs"][south]["properties"]["other"] == {"$ref": f"#/$defs/{north}"}


@pytest.mark.fault("T04")
def test_types_that_would_grow_without_bound_by_inlining_stay_references() -> None:
    shared: Any = int
    for level in range(20):

        class Pair(BaseModel):
            __qualname__ = f"Pair{level}"
            one: shared
            two: shared

        shared = Pair
    schema = {"properties": {"it": type_of(shared)}}

    assert len(json.dumps(schema)) < 200_000


@pytest.mark.parity(147)
def test_a_property_of_dict_type_is_not_closed() -> None:
    def tag(marks: dict[str, int], anything: dict[str, Any], bare: dict, keyed: Mapping[int, str]) -> None: ...  # type: ignore[type-arg]  # what people write

    properties = properties_of(tag)

    assert properties["marks"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert properties["keyed"]["additionalProperties"] == {"type": "string"}
    assert properties["anything"]["additionalProperties"] is not False
    assert properties["bare"]["additionalProperties"] is not False


def test_a_model_that_allows_more_stays_open() -> None:
    assert type_of(Open)["additionalProperties"] is True


@pytest.mark.fault("T05")
def test_parameters_named_like_keywords_of_json_schema_are_whole() -> None:
    def set_meta(  # noqa: PLR0917 - one of each kind
        title: str,
        properties: dict[str, Any],
        default: int,
        type: str,  # noqa: A002 - the point of the test
        description: str,
        required: bool,
        enum: str,
    ) -> None: ...

    schema = input_schema(set_meta)

    names = ["title", "properties", "default", "type", "description", "required", "enum"]
    assert list(schema["properties"]) == names
    assert schema["required"] == names
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["default"] == {"type": "integer"}


def test_parameters_named_like_parts_of_pydantic_or_aliased_work() -> None:
    def store(
        model_config: str, copy: int, _hidden: str, source: Annotated[str, Field(alias="from")], json: int = Field(3)
    ) -> None: ...

    schema = input_schema(store)

    assert schema["required"] == ["model_config", "copy", "_hidden", "from"]
    assert schema["properties"]["json"] == {"type": "integer", "default": 3}


def test_a_name_that_pydantic_itself_would_not_take_arrives() -> None:
    def keywords(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    assert properties_of(keywords) == {"arguments": {"type": "object", "additionalProperties": True}}


@pytest.mark.parity(144)
def test_the_context_is_not_in_the_schema_however_it_is_annotated() -> None:
    def report(
        a: ToolContext,
        name: str,
        b: Optional[ToolContext],
        c: Annotated[ToolContext, "not for the model"],
        *,
        d: Annotated[ToolContext | None, ToolParam(description="no")] = None,
        e: ToolContext | None = None,
    ) -> None: ...

    schema = input_schema(report)

    assert list(schema["properties"]) == ["name"]
    assert schema["required"] == ["name"]


@pytest.mark.fault("T06")
def test_tuples_have_items_and_a_fixed_length() -> None:
    integer, text = {"type": "integer"}, {"type": "string"}

    assert type_of(tuple[int, str]) == {
        "type": "array",
        "prefixItems": [integer, text],
        "items": {"anyOf": [integer, text]},
        "minItems": 2,
        "maxItems": 2,
    }
    assert type_of(tuple[int, int]) == {"type": "array", "items": integer, "minItems": 2, "maxItems": 2}
    assert type_of(tuple[()]) == {"type": "array", "items": {}, "minItems": 0, "maxItems": 0}


@pytest.mark.parity(145)
def test_further_properties_can_be_allowed_at_every_level() -> None:
    def survey(harbour: Harbour, start: Node, marks: dict[str, int]) -> None: ...

    schema = input_schema(survey, additional_properties=True)

    assert json.dumps(schema).count("additionalProperties") == 1
    assert schema["properties"]["marks"]["additionalProperties"] == {"type": "integer"}


@pytest.mark.parity(146)
def test_type_names_can_be_written_in_upper_case() -> None:
    def survey(type: str, berth: Optional[Berth] = None) -> None: ...  # noqa: A002 - a name that is a keyword, too

    schema = input_schema(survey, upper_case_types=True)

    assert schema["type"] == "OBJECT"
    assert schema["properties"]["type"] == {"type": "STRING"}
    assert schema["properties"]["berth"]["properties"]["tags"] == {"type": "ARRAY", "items": {"type": "STRING"}}


@pytest.mark.parity(158)
async def test_a_strict_schema_requires_all_and_null_stands_for_what_is_not_given() -> None:
    def sail(to: str, berth: Optional[Berth] = None, knots: int = 5, via: str | None = "sea") -> list[Any]:
        """Sail.

        Args:
            to: where to
            knots: how fast
        """
        return [to, berth, knots, via]

    strict = input_schema(sail, strict=True)

    assert strict["required"] == ["to", "berth", "knots", "via"]
    assert strict["properties"]["to"] == {"type": "string", "description": "where to"}
    assert strict["properties"]["knots"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "description": "how fast",
    }
    assert strict["properties"]["berth"]["anyOf"][0]["required"] == ["number", "depth", "owner", "free", "tags"]
    assert input_schema(sail)["required"] == ["to"]
    given = {"to": "Kiel", "berth": None, "knots": None, "via": None}
    assert await returned_by(sail, given, input_schema=strict) == ["Kiel", None, 5, None]


@pytest.mark.parity(156)
def test_schemas_can_be_made_in_many_threads_at_once() -> None:
    def survey(at: Position, start: Node) -> None: ...

    expected = input_schema(survey)

    def made(_: int) -> dict[str, Any]:
        def survey(at: Position, start: Node) -> None: ...

        return input_schema(survey)

    with ThreadPoolExecutor(8) as pool:
        assert all(schema == expected for schema in pool.map(made, range(240)))


def test_a_schema_belongs_to_whoever_asked_for_it() -> None:
    def moor(harbour: str) -> None: ...

    input_schema(moor)["properties"].clear()

    assert properties_of(moor) == {"harbour": {"type": "string"}}


@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        (Callable[[int], int], "Callable"),
        (list[Callable[..., Any]], "Callable"),
        (Iterator[int], "Iterator"),
        (typing.Generator[int, None, None], "Generator"),
        (typing.AsyncGenerator[int, None], "AsyncGenerator"),
        (typing.Awaitable[int], "Awaitable"),
        (typing.Coroutine[Any, Any, int], "Coroutine"),
        (Optional[typing.Callable[[], None]], "Callable"),
        (Annotated[type[int], "x"], "type"),
        (ThreadPoolExecutor, "ThreadPoolExecutor"),
        (list[ToolContext], "ToolContext"),
        (Shape, "Shape"),
        (Union[int, Shape], "Shape"),  # and not a schema of the other members
        (Annotated[Sails | Rows, Field(discriminator="kind")], "Callable"),
        (Literal[Unit.CELSIUS], r"Literal[Unit.CELSIUS]"),  # pydantic takes the member only, which JSON has not
        (Fathoms, "path"),
    ],
    ids=str,
)
@pytest.mark.parity(109)
def test_a_parameter_whose_type_has_no_schema_is_refused_by_name_and_place(annotation: Any, named: str) -> None:
    def call_back(number: int, it: Any) -> None: ...

    call_back.__annotations__["it"] = annotation

    with pytest.raises(ConfigurationError, match=r"test_schema\.py:\d+: .*call_back has a parameter 'it'") as refused:
        input_schema(call_back)
    assert named in str(refused.value)


class Waiter(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    on_tide: Callable[[], None]


class Stream(BaseModel):
    model_config = ConfigDict(defer_build=True)

    items: Iterable[int]


@pytest.mark.parametrize("cls", [Waiter, Stream])
def test_a_field_whose_type_has_no_schema_is_refused_with_the_parameter_that_leads_to_it(cls: type) -> None:
    def wait(number: int, waiter: Any) -> None: ...

    wait.__annotations__["waiter"] = cls

    with pytest.raises(ConfigurationError, match=f"wait has a parameter 'waiter' of type {cls.__name__}"):
        input_schema(wait)


def test_an_annotation_that_cannot_be_resolved_is_refused_with_its_text() -> None:
    def find(it: Any) -> None: ...

    find.__annotations__["it"] = "Undefined | None"

    with pytest.raises(ConfigurationError, match=r"parameter 'it' whose type 'Undefined \| None' cannot be resolved"):
        input_schema(find)


def test_a_method_may_use_types_that_its_class_defines_private_and_nested_ones_too() -> None:
    schema = ToolCallback.from_function(Outer().measure).definition.input_schema

    assert schema["properties"]["inner"]["properties"] == {"depth": {"type": "integer"}}


def unreadable() -> None: ...


unreadable.__signature__ = "none"  # type: ignore[attr-defined]  # as builtins have it that hide theirs


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (lambda *names: None, r"takes \*names.*list parameter"),
        (lambda **names: None, r"takes \*\*names.*dict parameter"),
        (unreadable, "no signature that could be read"),
        (Harbour, "is a class"),
        (Outer.measure, "take it from an instance of Outer"),
        (42, "cannot be called"),
        (None, "cannot be called"),
    ],
)
@pytest.mark.parity(157)
def test_what_models_cannot_call_is_refused_with_advice(function: Any, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        input_schema(function)


def test_a_partial_function_s_parameters_are_described_by_the_function_within() -> None:
    def sail(to: str, knots: int) -> None:
        """Sail.

        Args:
            to: where to
        """

    assert properties_of(functools.partial(sail, knots=3)) == {"to": {"type": "string", "description": "where to"}}


def test_two_parameters_under_one_alias_are_refused() -> None:
    def sail(source: Annotated[str, Field(alias="to")], to: str) -> None: ...

    with pytest.raises(ConfigurationError, match="same alias"):
        input_schema(sail)


def made_locally() -> type[BaseModel]:
    class Inner(BaseModel):
        number: int

    @dataclass
    class Middle:
        """Args:
        inner: what is inside
        """

        inner: Inner

    class Local(BaseModel):
        middle: Middle

    return Local


def test_fields_whose_types_only_pydantic_can_resolve_are_described_all_the_same() -> None:
    middle = type_of(made_locally())["properties"]["middle"]

    assert middle["properties"]["inner"]["description"] == "what is inside"
    assert middle["properties"]["inner"]["properties"] == {"number": {"type": "integer"}}


@dataclass
class Implicit:
    tag: str = None  # type: ignore[assignment]  # what people write


def test_a_title_that_an_author_gives_is_as_little_use_to_a_model_as_a_made_one() -> None:
    def use(it: Annotated[Berth, Field(title="The berth")], n: Annotated[int, Field(title="The number")]) -> None: ...

    assert "title" not in json.dumps(input_schema(use))


async def test_a_field_that_is_none_by_default_alone_keeps_its_plain_type_and_takes_null() -> None:
    def use(it: Implicit) -> Any:
        return it.tag

    assert properties_of(use)["it"]["properties"] == {"tag": {"type": "string"}}
    assert await returned_by(use, {"it": {"tag": None}}) is None


def test_schemas_that_authors_write_into_a_type_are_taken_as_they_are() -> None:
    annotation = Annotated[int, WithJsonSchema({"type": ["integer", "string"], "title": "X"})]

    assert type_of(annotation) == {"type": ["integer", "string"]}

    def use(it: Any) -> None: ...

    use.__annotations__["it"] = annotation
    assert input_schema(use, upper_case_types=True)["properties"]["it"] == {"type": ["INTEGER", "STRING"]}


async def test_members_of_an_enum_of_texts_or_numbers_may_stand_in_a_literal() -> None:
    def use(unit: Literal[Rig.SAIL], force: Literal[Force.GALE]) -> str:
        return f"{unit!r} {force!r}"

    assert properties_of(use)["unit"] == {"type": "string", "const": "sail"}
    assert await returned_by(use, {"unit": "sail", "force": 8}) == f"{Rig.SAIL!r} {Force.GALE!r}"


@dataclass
class Voyage:
    miles: int
    days: int = field(init=False, default=1)


async def test_a_field_that_a_dataclass_sets_itself_is_not_the_model_s_to_give() -> None:
    def use(it: Voyage) -> int:
        return it.days

    assert list(properties_of(use)["it"]["properties"]) == ["miles"]
    assert await returned_by(use, {"it": {"miles": 3}}) == 1


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)

    depth: int = Field(alias="theDepth")


async def test_a_field_that_does_not_go_by_its_alias_is_shown_by_its_name() -> None:
    def use(it: ByName) -> int:
        return it.depth

    assert list(properties_of(use)["it"]["properties"]) == ["depth"]
    assert await returned_by(use, {"it": {"depth": 3}}) == 3


class Choice(BaseModel):
    level: int = Field(validation_alias=AliasChoices("depth", "level"))


def test_a_field_with_several_aliases_goes_by_the_first() -> None:
    assert type_of(Choice)["required"] == ["depth"]


SIMPLE = st.sampled_from([int, str, bool, float, dt.date, Unit, Berth, Position, Point, Node, uuid.UUID])
TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),  # type: ignore[valid-type]  # made here
        inner.map(lambda kind: dict[str, kind]),  # type: ignore[valid-type]  # made here
        inner.map(lambda kind: Optional[kind]),
        st.tuples(inner, inner).map(lambda kinds: Union[kinds]),
        st.tuples(inner, inner).map(lambda kinds: tuple[kinds]),  # type: ignore[valid-type]  # made here
    ),
    max_leaves=6,
)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.sampled_from(["title", "a", "type", "properties", "$defs", "items"]), TYPES, max_size=4))
def test_every_schema_is_valid_and_its_references_resolve(types: dict[str, Any]) -> None:
    def function() -> None: ...

    names = {name.strip("$"): annotation for name, annotation in types.items()}
    namespace: dict[str, Any] = {"types": names}
    exec(f"def function({', '.join(names)}): ...", namespace)  # noqa: S102 - parameters of any name
    namespace["function"].__annotations__.update(names)

    schema = input_schema(namespace["function"])

    Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == list(names)
    assert "x-none" not in json.dumps(schema)
    for reference in _references(schema):
        assert reference.removeprefix("#/$defs/") in schema["$defs"]


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
