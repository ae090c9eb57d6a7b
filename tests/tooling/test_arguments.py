"""From what a model wrote as arguments to what a function gets."""

from __future__ import annotations

import datetime as dt
import enum
import json
import typing
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from app.chat import ToolArgumentsInvalid, ToolContext
from app.tooling import ToolCallback, ToolParam
from tests.support.functions import problems_of, result_of, returned_by


class Unit(enum.Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


@dataclass
class Stop:
    pier: int
    note: str = ""
    name: str | None = None


class Harbour(BaseModel):
    name: str
    stops: list[Stop] = []
    owner: str | None


class Position(typing.TypedDict):
    lat: float
    lon: typing.NotRequired[float]
    name: str | None


class Point(NamedTuple):
    x: int
    y: int = 7


class Node(BaseModel):
    label: str
    children: list[Node] = []


class Sail(BaseModel):
    kind: Literal["sail"]
    masts: int


class Motor(BaseModel):
    kind: Literal["motor"]
    power: float


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    day: dt.date
    pair: tuple[int, int]


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def _even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("choose an even number")
        return number


@dataclass
class Crew:
    captain: Annotated[str, ToolParam(required=False)]
    mates: Annotated[int, ToolParam(required=False)] = 2


def taking(annotation: Any, default: Any = ...) -> Callable[..., Any]:
    """A function that returns its one argument, `it`, of a type."""

    def function(it: Any) -> Any:
        return it

    function.__defaults__ = None if default is ... else (default,)
    function.__annotations__["it"] = annotation
    return function


@pytest.mark.parametrize(
    ("annotation", "written", "received"),
    [
        (int, 3, 3),
        (int, "3", 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (bool, True, True),
        (str, "Kiel ⚓", "Kiel ⚓"),
        (str, "", ""),
        (list[str], ["a"], ["a"]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (list[dict[str, int]], [{"a": 1}], [{"a": 1}]),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (set[int], [1, 2, 1], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (Iterable[int], [1, 2], [1, 2]),
        (Literal["a", 2], 2, 2),
        (Unit, "celsius", Unit.CELSIUS),
        (dt.date, "2031-05-02", dt.date(2031, 5, 2)),
        (dt.datetime, "2031-05-02T10:00:00Z", dt.datetime(2031, 5, 2, 10, tzinfo=dt.UTC)),
        (dt.time, "10:30", dt.time(10, 30)),
        (dt.timedelta, "PT90M", dt.timedelta(minutes=90)),
        (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 1.1, Decimal("1.1")),
        (bytes, "w6TigqwK", "ä€\n".encode()),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
        (object, [1], [1]),
        (int | str, "3", "3"),
        (Stop, {"pier": 4}, Stop(4)),
        (Point, {"x": 1}, Point(1, 7)),
        (Position, {"lat": 1, "name": "a"}, {"lat": 1.0, "name": "a"}),
        (Harbour, {"name": "a", "stops": [{"pier": 1}], "owner": None}, Harbour(name="a", stops=[Stop(1)], owner=None)),
        (Sail | Motor, {"kind": "motor", "power": 2}, Motor(kind="motor", power=2)),
        (Node, {"label": "a", "children": [{"label": "b"}]}, Node(label="a", children=[Node(label="b")])),
        (Strict, {"day": "2031-05-02", "pair": [1, 2]}, Strict(day=dt.date(2031, 5, 2), pair=(1, 2))),
        (list[Stop | None], [None, {"pier": 1}], [None, Stop(1)]),
    ],
    ids=repr,
)
@pytest.mark.parity(112, 113, 114, 116, 122)
async def test_arguments_arrive_as_what_the_annotation_says(annotation: Any, written: Any, received: Any) -> None:
    got = await returned_by(taking(annotation), {"it": written})

    assert got == received
    assert type(got) is type(received)


@pytest.mark.parity(112, 114)
async def test_nested_models_dataclasses_and_lists_of_them_are_real_instances() -> None:
    harbour = await returned_by(taking(Harbour), {"it": {"name": "Kiel", "stops": [{"pier": "4"}], "owner": "x"}})

    assert type(harbour) is Harbour
    assert type(harbour.stops[0]) is Stop
    assert harbour.stops[0].pier == 4


# What models leave out, or leave empty.


@pytest.mark.parity(84, 85)
@pytest.mark.parametrize("text", ["", "  \n", "null", " null ", "{}"])
async def test_nothing_is_no_arguments_where_nothing_is_required(text: str) -> None:
    def tide(unit: str = "m") -> str:
        return unit

    assert await result_of(tide, text) == "m"


@pytest.mark.parity(84, 85)
@pytest.mark.parametrize("text", ["", "  ", "null", "{}"])
async def test_nothing_is_an_error_that_names_what_is_missing_where_something_is_required(text: str) -> None:
    def moor(harbour: str, unit: Unit, at: list[int], on: dt.date, depth: float = 1.0) -> None: ...

    assert await problems_of(moor, text) == {
        "harbour": "is missing; it must be a string",
        "unit": 'is missing; it must be one of "celsius", "fahrenheit"',
        "at": "is missing; it must be an array",
        "on": "is missing; it must be a string (date)",
    }


async def test_defaults_are_the_function_s_own_objects() -> None:
    sentinel = object()

    assert await returned_by(taking(Any, sentinel)) is sentinel
    assert await returned_by(taking(int, sentinel)) is sentinel


async def test_defaults_that_field_says_arrive_as_values() -> None:
    def plan(
        a: Annotated[int, Field(default=3)],
        b: int = Field(4),
        c: list[int] = Field(default_factory=lambda: [5]),  # noqa: B008 - what people write
    ) -> list[Any]:
        return [a, b, c]

    assert await returned_by(plan) == [3, 4, [5]]
    assert await returned_by(plan, {"a": 1, "b": 2, "c": []}) == [1, 2, []]


@pytest.mark.parity(139, 149)
@pytest.mark.fault("T09")
async def test_what_may_be_none_and_is_not_given_or_null_arrives_as_none() -> None:
    def find(a: str | None, b: Annotated[int | None, "x"] = None, c: int = None) -> list[Any]:  # type: ignore[assignment]  # noqa: RUF013 - what people write
        return [a, b, c]

    assert await returned_by(find) == [None, None, None]
    assert await returned_by(find, {"a": None, "b": None, "c": None}) == [None, None, None]
    assert await returned_by(find, {"a": "x", "b": 1, "c": 2}) == ["x", 1, 2]


@pytest.mark.parity(149)
async def test_fields_that_may_be_none_need_not_be_given_either() -> None:
    assert (await returned_by(taking(Harbour), {"it": {"name": "Kiel"}})).owner is None
    assert await returned_by(taking(Position), {"it": {"lat": 1}}) == {"lat": 1.0, "name": None}
    assert (await returned_by(taking(list[Harbour] | int), {"it": [{"name": "Kiel"}]}))[0].owner is None


@pytest.mark.parity(137)
async def test_a_parameter_or_field_that_is_said_not_to_be_required_arrives_as_none() -> None:
    def hire(crew: Crew, ship: Annotated[str, ToolParam(required=False)]) -> list[Any]:
        return [crew, ship]

    assert await returned_by(hire, {"crew": {}}) == [Crew(None, 2), None]  # type: ignore[arg-type]  # not given
    assert await returned_by(hire, {"crew": {"captain": None, "mates": None}, "ship": None}) == [
        Crew(None, 2),  # type: ignore[arg-type]  # not given
        None,
    ]


@pytest.mark.parity(137)
async def test_a_parameter_with_a_default_can_be_said_to_be_required() -> None:
    def hire(
        ship: Annotated[str, ToolParam(required=True)] = "Anna",
        crew: Annotated[int | None, ToolParam(required=True)] = None,
    ) -> None: ...

    assert await problems_of(hire, {}) == {
        "ship": "is missing; it must be a string",
        "crew": "is missing; it must be an integer or null",
    }


async def test_null_means_not_given_where_there_is_a_default_and_null_is_no_choice() -> None:
    def sail(knots: int = 5, stop: Stop = Stop(1), unit: str | None = "km") -> list[Any]:  # noqa: B008 - what people write
        return [knots, stop, unit]

    assert await returned_by(sail, {"knots": None, "unit": None}) == [5, Stop(1), None]
    assert await returned_by(sail, {"stop": {"pier": 2, "note": None}}) == [5, Stop(2), "km"]


async def test_null_is_no_value_for_what_is_required() -> None:
    assert await problems_of(taking(int), {"it": None}) == {"it": "should be a valid integer, not null"}


# What does not fit.


@pytest.mark.parity(117, 118)
@pytest.mark.fault("L13")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "must be a JSON object, and this is not JSON: "),
        ("Kiel", "must be a JSON object, and this is not JSON: "),
        ('{"it": 1} {"it": 2}', "must be a JSON object, and this is not JSON: Extra data"),
        ('{"it": "a\nb"}', "must be a JSON object, and this is not JSON: Invalid control character"),
        ("{'it': 1}", "must be a JSON object, and this is not JSON: "),
        ("[1]", "must be a JSON object, not an array"),
        ("3", "must be a JSON object, not an integer"),
        ("true", "must be a JSON object, not a boolean"),
        ('{"it": NaN}', "must be a JSON object, and this is not JSON: JSON has no NaN"),
        ('{"it": -Infinity}', "must be a JSON object, and this is not JSON: JSON has no -Infinity"),
        ('{"it": 1e999}', "must be a JSON object, and this is not JSON: a number is too large"),
        (f'{{"it": {"9" * 5000}}}', "must be a JSON object, and this is not JSON: a number has too many digits"),
        ('{"it": 1, "it": 2}', 'must be a JSON object, and this is not JSON: "it" is given more than once'),
        ('{"it": [{"a": 1, "a": 2}]}', 'must be a JSON object, and this is not JSON: "a" is given more than once'),
        ("[" * 200_000, "must be a JSON object, and it is nested more than 90 deep"),
        ('{"it":' * 100_000 + "1" + "}" * 100_000, "must be a JSON object, and it is nested more than 90 deep"),
        ('{"it":' + "[" * 90 + "]" * 90 + "}", "must be a JSON object, and it is nested more than 90 deep"),
    ],
    ids=lambda value: value[:20],
)
async def test_what_is_not_one_strict_json_object_is_refused(text: str, problem: str) -> None:
    problems = await problems_of(taking(Any), text)

    assert problems.keys() == {"arguments"}
    assert problems["arguments"].startswith(problem)


@pytest.mark.parity(86)
@pytest.mark.parametrize("annotation", [Any, Node, dict[str, Any]])
async def test_deeply_nested_arguments_arrive_unchanged(annotation: Any) -> None:
    value: dict[str, Any] = {"label": "end", "children": []}
    for _ in range(40):
        value = {"label": "a", "children": [value]}

    got = await returned_by(taking(annotation), {"it": value})

    assert (got.model_dump() if isinstance(got, Node) else got) == value


async def test_text_that_is_read_cannot_nest_arguments_deeper_than_plain_ones() -> None:
    value: dict[str, Any] = {"label": "end"}
    for _ in range(30):
        value = {"label": "a", "children": [value]}
    value = {"label": "a", "children": json.dumps([value])}
    for _ in range(30):
        value = {"label": "a", "children": [value]}

    assert await problems_of(taking(Node), {"it": value}) == {"it": "is nested more than 90 deep"}


@pytest.mark.parity(117)
@pytest.mark.parametrize(
    ("annotation", "written", "problem"),
    [
        (int, True, "must be an integer, not a boolean"),
        (float, False, "must be a number, not a boolean"),
        (int | str, True, "must be an integer or a string, not a boolean"),
        (Literal[0, 1], True, "must be one of 0, 1, not a boolean"),
        (float, "NaN", "must be a number, and JSON has no such number"),
        (float, "-inf", "must be a number, and JSON has no such number"),
        (float, "1e999", "must be a number, and JSON has no such number"),
        (dt.datetime, 20310502, "must be a string (date-time), not an integer"),
        (dt.datetime, "20310502", "must be a string (date-time), not a number as text"),
        (dt.date, "1935452400", "must be a string (date), not a number as text"),
        (dt.time, 7.5, "must be a string (time), not a number"),
        (dt.timedelta, 90, "must be a string (duration), not an integer"),
    ],
    ids=repr,
)
async def test_a_value_that_could_only_be_taken_by_guessing_is_refused(
    annotation: Any, written: Any, problem: str
) -> None:
    assert await problems_of(taking(annotation), {"it": written}) == {"it": problem}
    assert await problems_of(taking(list[annotation]), {"it": [written]}) == {"it[0]": problem}


@pytest.mark.parametrize(
    ("annotation", "written"),
    [(int | bool, True), (Any, True), (dt.date | int, 20310502), (dt.date | str, "20310502"), (float | str, "inf")],
    ids=repr,
)
async def test_a_value_that_one_of_the_types_takes_as_it_stands_is_no_guess(annotation: Any, written: Any) -> None:
    got = await returned_by(taking(annotation), {"it": written})

    assert got == written
    assert type(got) is type(written)


@pytest.mark.parity(117)
async def test_every_problem_has_a_line_with_its_place_and_what_is_wanted() -> None:
    def plan(harbour: Harbour, unit: Unit, days: list[int], at: dt.date, to: Literal["a", "b"] = "a") -> None: ...

    problems = await problems_of(
        plan,
        {
            "harbour": {"name": 4, "stops": [{"pier": 1}, {"pier": "four"}, 3]},
            "unit": "kelvin",
            "days": "soon",
            "at": "tomorrow",
            "to": "c",
        },
    )

    assert problems == {
        "harbour.name": "should be a valid string, not an integer",
        "harbour.stops[1].pier": "should be a valid integer, unable to parse string as an integer",
        "harbour.stops[2]": "should be an object, not an integer",
        "unit": "should be 'celsius' or 'fahrenheit'",
        "days": "should be an array, not a string",
        "at": "should be a valid date or datetime, input is too short",
        "to": "should be 'a' or 'b'",
    }


async def test_a_problem_with_a_union_is_one_line_with_the_alternatives() -> None:
    assert await problems_of(taking(int | list[int]), {"it": "x"}) == {
        "it": "should be a valid integer, unable to parse string as an integer or should be an array, not a string"
    }


async def test_a_key_that_does_not_fit_is_told_at_its_value() -> None:
    assert await problems_of(taking(dict[int, str]), {"it": {"x": "a"}}) == {
        "it.x": "should be a valid integer, unable to parse string as an integer"
    }


async def test_a_tuple_that_is_too_short_is_told_at_what_is_missing() -> None:
    assert await problems_of(taking(tuple[int, str]), {"it": [1]}) == {"it[1]": "is missing"}


async def test_the_words_of_a_validator_reach_the_model() -> None:
    assert await problems_of(taking(Even), {"it": {"number": 3}}) == {"it.number": "choose an even number"}


async def test_unknown_names_are_refused_at_every_depth_with_those_that_are_allowed() -> None:
    def plan(harbour: Harbour, motor: Sail | Motor, stop: Stop | None = None) -> None: ...

    problems = await problems_of(
        plan,
        {
            "harbour": {"name": "Kiel", "stops": [{"pier": 1, "peir": 2}], "owner": None},
            "motor": {"kind": "motor", "power": 1, "horses": 3},
            "stop": {"pier": 1, "depth": 2},
            "color": "red",
        },
    )

    assert problems == {
        "harbour.stops[0].peir": "is unknown; allowed are: pier, note, name",
        "motor.horses": "is unknown; allowed are: kind, power",
        "stop.depth": "is unknown; allowed are: pier, note, name",
        "color": "is unknown; allowed are: harbour, motor, stop",
    }


async def test_a_function_that_takes_nothing_says_so() -> None:
    def tide() -> None: ...

    assert await problems_of(tide, {"unit": "m"}) == {"unit": "is unknown; nothing is allowed here"}


async def test_many_problems_are_cut_short() -> None:
    tool = ToolCallback.from_function(taking(list[int]))

    with pytest.raises(ToolArgumentsInvalid) as refused:
        await tool.call(json.dumps({"it": ["x"] * 500}), ToolContext())

    lines = str(refused.value).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "- and 490 more"


async def test_a_long_list_of_choices_is_cut_short() -> None:
    countries = Literal[tuple(f"country {number}" for number in range(300))]  # type: ignore[valid-type]  # made here

    (missing,) = (await problems_of(taking(countries), {})).values()
    (wrong,) = (await problems_of(taking(countries), {"it": "Atlantis"})).values()

    assert missing.endswith('"country 19", 280 more')
    assert len(wrong) <= 501


async def test_an_error_does_not_repeat_what_was_given() -> None:
    secret = "s3cret"

    for annotation in (int, dt.date, Unit, list[int], Stop, Decimal, uuid.UUID, Sail | Motor):
        assert secret not in str(await problems_of(taking(annotation), {"it": secret}))


@pytest.mark.parity(120)
async def test_a_validation_error_raised_by_the_tool_is_not_taken_for_wrong_arguments() -> None:
    def parse(number: int) -> int:
        return Even(number=number).number

    with pytest.raises(ValidationError):
        await result_of(parse, {"number": 3})


# What is put right.


@pytest.mark.fault("T12")
async def test_json_text_is_read_where_the_schema_wants_an_object_or_an_array() -> None:
    def plan(
        stops: list[Stop], harbour: Harbour, marks: dict[str, list[int]], maybe: list[int] | None = None
    ) -> list[Any]:
        return [stops, harbour, marks, maybe]

    got = await returned_by(
        plan,
        {
            "stops": '[{"pier": 4}]',
            "harbour": '{"name": "Kiel", "stops": "[\\"{\\\\\\"pier\\\\\\": 1}\\"]"}',
            "marks": {"a": "[1]"},
            "maybe": "[2]",
        },
    )

    assert got == [[Stop(4)], Harbour(name="Kiel", stops=[Stop(1)], owner=None), {"a": [1]}, [2]]


@pytest.mark.fault("T12")
@pytest.mark.parametrize("text", ["[{", "3", '{"pier": 4}', "pier 4", '"[]"', "[" * 100_000, '[{"a":1,"a":1}]'])
async def test_text_that_is_not_the_json_wanted_is_an_error_that_says_what_is(text: str) -> None:
    assert await problems_of(taking(list[Stop]), {"it": text}) == {"it": "should be an array, not a string"}


@pytest.mark.fault("T13")
@pytest.mark.parametrize("text", ['{"a": 1}', "[1]", "null", '"x"', "3"])
async def test_text_stays_text_wherever_text_is_taken(text: str) -> None:
    def note(  # noqa: PLR0917 - one of each kind
        plain: str, either: str | list[int], nested: Stop, marks: dict[str, str], anything: Any, things: list[Any]
    ) -> list[Any]:
        return [plain, either, nested.note, nested.name, marks["a"], anything, things[0]]

    got = await returned_by(
        note,
        {
            "plain": text,
            "either": text,
            "nested": {"pier": 1, "note": text, "name": text},
            "marks": {"a": text},
            "anything": text,
            "things": [text],
        },
    )

    assert got == [text] * 7


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(JSON_VALUES)
async def test_any_json_arrives_unchanged_where_anything_is_taken(value: Any) -> None:
    assert await returned_by(_anything, {"it": value}) == value


@settings(deadline=None)
@given(JSON_VALUES, st.text())
@pytest.mark.fault("T13")
async def test_no_text_is_ever_read_where_text_is_taken(value: Any, text: str) -> None:
    written = json.dumps(value)

    assert await returned_by(_texts, {"one": written, "many": [text, written], "named": {"a": written}}) == [
        written,
        [text, written],
        {"a": written},
    ]


@settings(deadline=None)
@given(st.lists(st.builds(Stop, st.integers(-(10**9), 10**9), st.text(), st.none() | st.text()), max_size=4))
@pytest.mark.fault("T12")
async def test_what_is_written_as_text_arrives_as_what_is_written_as_json(stops: list[Stop]) -> None:
    plain = [vars(stop) for stop in stops]

    assert await returned_by(_stops, {"it": plain}) == stops
    assert await returned_by(_stops, {"it": json.dumps(plain)}) == stops
    assert await returned_by(_stops, {"it": [json.dumps(stop) for stop in plain]}) == stops


@settings(deadline=None)
@given(st.text())
async def test_no_text_of_arguments_brings_a_tool_down(text: str) -> None:
    with suppress(ToolArgumentsInvalid):
        await result_of(_stops, text)


def _anything(it: Any) -> Any:
    return it


def _texts(one: str, many: list[str], named: dict[str, str]) -> list[Any]:
    return [one, many, named]


def _stops(it: list[Stop]) -> list[Stop]:
    return it


@pytest.mark.fault("T14")
async def test_an_object_written_as_a_json_text_is_unwrapped_once() -> None:
    once = json.dumps(json.dumps({"it": 2}))
    twice = json.dumps(once)

    assert await returned_by(taking(int), once) == 2
    assert await problems_of(taking(int), twice) == {"arguments": "must be a JSON object, not a string"}
    assert await problems_of(taking(int), '"[1]"') == {"arguments": "must be a JSON object, not an array"}
    assert (await problems_of(taking(int), '"Kiel"'))["arguments"].startswith("must be a JSON object")


async def test_lone_surrogates_are_replaced_and_pairs_kept() -> None:
    assert await returned_by(taking(str), '{"it": "\\ud83d"}') == "\ufffd"
    assert await returned_by(taking(str), '{"it": "\\ud83d\\ude80"}') == "\U0001f680"
    assert await returned_by(taking(dict[str, Any]), '{"it": {"\\udc00": ["\udc00"]}}') == {"\ufffd": ["\ufffd"]}


@pytest.mark.fault("T05")
async def test_parameters_of_any_name_arrive_under_it() -> None:
    def store(model_config: str, copy: int, _x: str, source: Annotated[str, Field(alias="from")], json: int = 3) -> Any:
        return [model_config, copy, _x, source, json]

    arguments = {"model_config": "a", "copy": 1, "_x": "b", "from": "c", "json": 4}

    assert await returned_by(store, arguments) == ["a", 1, "b", "c", 4]
    assert "source" in await problems_of(store, {**arguments, "source": "c"})


async def test_positional_only_and_keyword_only_parameters_are_given_as_they_must() -> None:
    def sail(a: int, b: int = 2, c: ToolContext | None = None, /, d: int = 4, *, e: int = 5) -> list[Any]:
        return [a, b, c is None, d, e]

    assert await returned_by(sail, {"a": 1}) == [1, 2, False, 4, 5]
    assert await returned_by(sail, {"a": 1, "b": 9, "d": 8, "e": 7}) == [1, 9, False, 8, 7]


# Schemas in place of the function's own.


async def test_a_given_schema_is_what_the_arguments_have_to_fit() -> None:
    def sail(knots: int = 5) -> int:
        return knots

    schema = {"type": "object", "properties": {"knots": {"type": "integer", "maximum": 30}}, "required": ["knots"]}
    tool = ToolCallback.from_function(sail, input_schema=schema)

    assert tool.definition.input_schema == schema
    assert await tool.call('{"knots": 7}', ToolContext()) == "7"
    for wrong, problem in (("{}", "is missing"), ('{"knots": 31}', "breaks the rule maximum: 30")):
        with pytest.raises(ToolArgumentsInvalid, match=f"knots: {problem}"):
            await tool.call(wrong, ToolContext())


async def test_what_a_given_schema_allows_and_the_function_does_not_know_is_not_passed() -> None:
    def sail(knots: int) -> int:
        return knots

    assert await result_of(sail, {"knots": 1, "why": "fun"}, input_schema={"type": "object"}) == "1"


async def test_a_given_schema_does_not_lift_what_the_function_itself_needs() -> None:
    def sail(knots: int) -> int:
        return knots

    tool = ToolCallback.from_function(sail, input_schema={"type": "object"})

    with pytest.raises(ToolArgumentsInvalid, match="knots: is missing"):
        await tool.call("{}", ToolContext())
