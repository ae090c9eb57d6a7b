"""From what a tool returns to the text that the model reads."""

from __future__ import annotations

import array
import base64
import collections
import datetime as dt
import enum
import io
import ipaddress
import json
import pathlib
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_serializer

from app.chat import ConfigurationError, ToolError
from app.tooling import ToolCallback
from app.tooling.results import to_text
from tests.support.functions import result_of
from tests.support.ids import shown


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    YES = "yes"


@dataclass
class Berth:
    number: int
    depth: float = float("nan")


@dataclass(slots=True, frozen=True)
class Slotted:
    at: dt.date


@pydantic.dataclasses.dataclass
class Checked:
    at: dt.date


class Harbour(BaseModel):
    name: str
    at: dt.date
    depth: float = float("nan")
    berth: Berth | None = None


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    harbour_name: str = Field(serialization_alias="harbourName")

    @field_serializer("harbour_name")
    def _loud(self, name: str) -> str:
        return name.upper()


class Blob(BaseModel):
    data: bytes


class Point(NamedTuple):
    x: int
    y: int


class Wrapped(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Picture:
    """Has what PIL's images have."""

    mode = "RGB"
    size = (2, 1)
    format = None

    def save(self, file: io.BytesIO, format: str) -> None:  # noqa: A002 - PIL's name
        file.write(b"\x89" + format.encode())


class Broken(Picture):
    def save(self, file: io.BytesIO, format: str) -> None:  # noqa: A002 - PIL's name
        raise OSError(f"cannot write mode {self.mode} as {format}")


class Scalar:
    """Has what numpy's scalars have."""

    def tolist(self) -> float:
        return float("nan")


class Table(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return {"a": 1}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


def giving(value: object, returns: Any = Any) -> Callable[[], Any]:
    def function() -> Any:
        return value

    function.__annotations__["return"] = returns
    return function


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", ""),
        ("Kiel", "Kiel"),
        ('{"a": "ä\n"}', '{"a": "ä\n"}'),
        ("\ud83d!", "\ufffd!"),
        (Word.YES, "yes"),
        (Wrapped("itself"), "itself"),
    ],
)
@pytest.mark.parity(127)
async def test_text_goes_as_it_is(value: str, text: str) -> None:
    assert await result_of(giving(value)) == text


@pytest.mark.parity(88, 119, 123, 125)
@pytest.mark.parametrize("returns", [None, "None"])
async def test_a_function_that_returns_nothing_by_its_annotation_is_done(returns: Any) -> None:
    assert await result_of(giving(None, returns)) == "Done"


@pytest.mark.parity(88, 126)
@pytest.mark.parametrize("returns", [str | None, Any, "Undefined"])
async def test_none_from_a_function_that_could_have_returned_something_is_null(returns: Any) -> None:
    assert await result_of(giving(None, returns)) == "null"


async def test_none_from_a_function_without_annotation_is_null() -> None:
    assert await result_of(lambda: None, name="nothing") == "null"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        (True, True),
        (1.5, 1.5),
        (Level.HIGH, 3),
        (Colour.RED, "red"),
        (dt.date(2031, 5, 2), "2031-05-02"),
        (dt.datetime(2031, 5, 2, 10, tzinfo=dt.UTC), "2031-05-02T10:00:00Z"),
        (dt.time(10, 30), "10:30:00"),
        (dt.timedelta(minutes=90), "PT1H30M"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (b"\xff\xfe?", "//4/"),
        (bytearray(b"a"), "YQ=="),
        (memoryview(b"a"), "YQ=="),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
        ([], []),
        ({}, {}),
        ((1, "a"), [1, "a"]),
        (range(3), [0, 1, 2]),
        ({"b", "a"}, ["a", "b"]),
        (frozenset({2, 1}), [1, 2]),
        (collections.deque([1]), [1]),
        ({"a": 1}.values(), [1]),
        ({"a": 1}.keys(), ["a"]),
        (Table(), {"a": 1}),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}),
        ({2.5: "a", Colour.RED: "b", dt.date(2031, 5, 2): "c"}, {"2.5": "a", "red": "b", "2031-05-02": "c"}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Berth(1), {"number": 1, "depth": None}),
        (Slotted(dt.date(2031, 5, 2)), {"at": "2031-05-02"}),
        (Checked(dt.date(2031, 5, 2)), {"at": "2031-05-02"}),
        (
            Harbour(name="Kiel", at=dt.date(2031, 5, 2), berth=Berth(1)),
            {"name": "Kiel", "at": "2031-05-02", "depth": None, "berth": {"number": 1, "depth": None}},
        ),
        (Aliased(harbour_name="Kiel"), {"harbourName": "KIEL"}),
        ([{"a": {Berth(1, 2.0).number: Harbour(name="x", at=dt.date(1, 1, 1))}}], None),
        (array.array("i", [1, 2]), [1, 2]),
        ([Scalar()], [None]),
        (Picture(), {"mimeType": "image/png", "data": base64.b64encode(b"\x89PNG").decode()}),
    ],
    ids=shown,
)
@pytest.mark.parity(124, 128, 129)
async def test_everything_else_is_strict_json(value: Any, expected: Any) -> None:
    text = await result_of(giving(value))

    if expected is not None:
        assert json.loads(text) == expected
    json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.fault("T11")
async def test_nan_and_infinities_are_null_at_any_depth() -> None:
    value = {"mean": float("nan"), "deep": [[-float("inf")], {"d": Decimal("NaN")}, (float("inf"),)]}

    assert await result_of(giving(value)) == '{"mean":null,"deep":[[null],{"d":null},[null]]}'
    assert await result_of(giving(float("nan"))) == "null"


async def test_other_alphabets_are_written_as_they_are_and_broken_text_is_mended() -> None:
    assert await result_of(giving({"grüße": ["東京", "\ud83d"]})) == '{"grüße":["東京","\ufffd"]}'


async def test_a_string_within_json_is_quoted_and_escaped() -> None:
    assert await result_of(giving(['"a"\n\t\\'])) == '["\\"a\\"\\n\\t\\\\"]'


LOOP: list[Any] = [1]
LOOP.append({"again": LOOP})
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]


class Chained(BaseModel):
    next: Chained | None = None


CHAIN = Chained()
CHAIN.next = CHAIN


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "it is of type object"),
        ({"rows": [1, {"handle": socket}]}, "rows[1].handle is of type module"),
        ([lambda: None], "[0] is of type function"),
        (iter([1]), "it is a list_iterator, which gives its items only once"),
        ({"a": (number for number in [1])}, "a is a generator, which gives its items only once"),
        (LOOP, "[1].again contains itself"),
        (DEEP, "is nested too deeply"),
        (CHAIN, "it is of type Chained"),
        ({(1, 2): 3}, "it has a key of type tuple"),
        ({1: "a", "1": "b"}, "it has two keys that are both '1' in JSON"),
        (10**5000, "it has an integer with too many digits"),
        (Broken(), "it is an image that cannot be written as PNG"),
        (Blob(data=b"\xff"), "it is of type Blob"),
        (int, "it is of type type"),
        (Scalar, "it is of type type"),
        (Berth, "it is of type type"),
        (ValueError("x"), "it is of type ValueError"),
        (Berth(object()), "number is of type object"),  # type: ignore[arg-type]  # what is shown
    ],
    ids=lambda value: str(type(value)),
)
@pytest.mark.parity(128)
async def test_what_has_no_json_form_is_a_tool_error_that_names_the_part(value: Any, problem: str) -> None:
    with pytest.raises(ToolError, match="The tool ran, but its result has no JSON form: ") as failed:
        await result_of(giving(value))

    assert problem in str(failed.value)


async def test_a_value_may_be_there_twice_as_long_as_it_does_not_contain_itself() -> None:
    part = [1]

    assert await result_of(giving([part, part])) == "[[1],[1]]"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.decimals(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(PLAIN, max_size=4))
def test_every_plain_value_is_strict_json_that_utf8_can_encode(value: list[Any]) -> None:
    text = to_text(value)

    text.encode()
    assert len(json.loads(text, parse_constant=_refuse)) == len(value)


# Converters of the user's own.


async def shout(value: Any) -> str:
    return f"{value}!"


@pytest.mark.parametrize("converter", [str, repr, shout])
async def test_a_result_converter_writes_the_text_sync_or_async(
    converter: Callable[[Any], str | Awaitable[str]],
) -> None:
    value = object()
    expected = await shout(value) if converter is shout else repr(value)

    def sync() -> object:
        return value

    async def coroutine() -> object:
        return value

    assert await result_of(sync, result_converter=converter) == expected
    assert await result_of(coroutine, result_converter=converter) == expected


async def test_a_result_converter_gets_none_too() -> None:
    assert await result_of(giving(None, None), result_converter=repr) == "None"


async def test_a_result_converter_that_gives_no_text_is_a_tool_error() -> None:
    with pytest.raises(ToolError, match="result converter gave a result of type int"):
        await result_of(giving(1), result_converter=lambda value: value)


async def test_what_a_result_converter_raises_is_as_if_the_tool_had_raised_it() -> None:
    with pytest.raises(ZeroDivisionError):
        await result_of(giving(0), result_converter=lambda value: str(1 / value))


# Results that stop the start.


def counting() -> Iterator[int]:
    yield 1


async def streaming() -> Any:
    yield 1


@pytest.mark.parity(109)
@pytest.mark.parametrize(
    ("returns", "named"),
    [
        (Callable[[], int], "Callable"),
        (list[Callable[[], int]], "Callable"),
        (Iterator[int] | None, "Iterator"),
        (Awaitable[int], "Awaitable"),
        ("collections.abc.AsyncIterator[int]", "AsyncIterator"),
        (type, "type"),
    ],
    ids=str,
)
def test_a_result_that_has_no_json_form_is_refused_by_name_and_place(returns: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"test_results\.py:\d+: .*function returns .*{named}.*no JSON form"):
        ToolCallback.from_function(giving(1, returns))


@pytest.mark.parity(109)
@pytest.mark.parametrize("function", [counting, streaming])
def test_a_generator_is_refused_unless_a_converter_knows_what_to_do_with_it(function: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError, match="is a generator"):
        ToolCallback.from_function(function)

    assert ToolCallback.from_function(function, result_converter=str).definition.name == function.__name__
