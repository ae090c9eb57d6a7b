"""From objects, classes, functions and providers to a flat tuple of tools."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.chat import ConfigurationError, ToolContext
from app.tooling import ToolCallback, ToolThreads, flatten_tools, tool
from tests.support.ids import shown
from tests.support.tools import echo


@tool
def tide() -> str:
    """The tide."""
    return "high"


@tool
def wind() -> str:
    return "fresh"


def unmarked(place: str) -> str:
    return place


def with_log(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Harbour:
    """Every way to mark a method."""

    def __init__(self, name: str = "Kiel") -> None:
        self.name = name

    @tool
    def plain(self) -> str:
        return self.name

    @tool(name="renamed")
    async def with_options(self) -> str:
        return self.name

    @tool
    @staticmethod
    def static_above() -> str:
        return "static"

    @staticmethod
    @tool
    def static_below() -> str:
        return "static"

    @tool
    @classmethod
    def class_above(cls) -> str:
        return cls.__name__

    @classmethod
    @tool
    def class_below(cls) -> str:
        return cls.__name__

    @with_log
    @tool
    def wrapped(self) -> str:
        return self.name

    @tool
    def _private(self) -> str:
        return self.name

    @tool
    def __secret(self) -> str:
        return self.name

    def no_tool(self) -> str:
        return self.name

    @property
    def broken(self) -> str:
        raise AssertionError("properties are not asked")


class Marina(Harbour):
    def plain(self) -> str:
        """Overridden."""
        return f"marina {self.name}"

    @tool(name="again")
    async def with_options(self) -> str:
        return f"marina {self.name}"

    wrapped = None  # type: ignore[assignment]  # no tool any more

    @tool
    def added(self) -> str:
        return "added"


class Signals:
    @tool
    @staticmethod
    def flag() -> str:
        return "red"

    @tool
    @classmethod
    def horn(cls) -> str:
        return cls.__name__


class Empty:
    def no_tool(self) -> None: ...


class Holder:
    """Holds tools in an iterable and has none itself."""

    def __iter__(self) -> Iterator[Any]:
        return iter([tide, wind])


async def results(*things: Any) -> dict[str, str]:
    return {made.definition.name: await made.call("{}", ToolContext()) for made in flatten_tools(*things)}


def names(*things: Any) -> list[str]:
    return [made.definition.name for made in flatten_tools(*things)]


async def test_all_marked_methods_of_an_object_are_tools_bound_to_it() -> None:
    assert await results(Harbour("Bergen")) == {
        "plain": "Bergen",
        "renamed": "Bergen",
        "static_above": "static",
        "static_below": "static",
        "class_above": "Harbour",
        "class_below": "Harbour",
        "wrapped": "Bergen",
        "_private": "Bergen",
        "__secret": "Bergen",
    }


@pytest.mark.parity(110, 111)
async def test_overridden_methods_are_there_once_and_stay_tools_unless_set_to_none() -> None:
    assert await results(Marina("Bergen")) == {
        "plain": "marina Bergen",
        "again": "marina Bergen",
        "static_above": "static",
        "static_below": "static",
        "class_above": "Marina",
        "class_below": "Marina",
        "_private": "Bergen",
        "__secret": "Bergen",
        "added": "added",
    }
    assert flatten_tools(Marina())[0].definition.description == "Overridden."


async def test_a_class_whose_tools_need_no_object_is_a_toolset() -> None:
    assert await results(Signals) == {"flag": "red", "horn": "Signals"}


def test_a_class_whose_tools_need_an_object_is_refused_with_advice() -> None:
    with pytest.raises(
        ConfigurationError, match=r"test_toolsets\.py:\d+: Harbour\.plain needs an object: give Harbour"
    ):
        flatten_tools(Harbour)


@pytest.mark.parity(55)
async def test_tools_functions_methods_toolsets_providers_and_iterables_are_flattened_in_order() -> None:
    one, two = echo("one"), ToolCallback.from_function(unmarked, name="two")

    assert names(
        one, [two, (tide, {wind})], Signals(), iter([Harbour("x").plain]), lambda: [echo("late"), lambda: echo("later")]
    ) == ["one", "two", "tide", "wind", "flag", "horn", "plain", "late", "later"]
    assert names(Holder()) == ["tide", "wind"]
    assert names() == names([], (), lambda: ()) == []


@pytest.mark.parity(52, 53, 54)
def test_providers_are_asked_each_time_and_not_before() -> None:
    asked: list[int] = []

    def provider() -> list[Any]:
        asked.append(1)
        return [tide]

    things = [provider, provider, wind]

    assert asked == []
    assert names(*things) == names(*things) == ["tide", "wind"]
    assert len(asked) == 4


@pytest.mark.parity(68)
def test_the_same_tool_given_twice_is_there_once() -> None:
    harbour, one = Harbour(), echo("one")

    assert names(tide, tide, [tide], one, one, lambda: one) == ["tide", "one"]
    assert names(harbour, harbour.plain) == names(harbour)
    assert names(ToolCallback.from_function(tide), tide) == ["tide"]


@pytest.mark.parity(101, 107)
@pytest.mark.fault("T16")
def test_two_tools_of_one_name_are_refused_with_both_places() -> None:
    def other() -> None: ...

    clash = ToolCallback.from_function(other, name="tide")

    with pytest.raises(ConfigurationError) as refused:
        flatten_tools(tide, wind, clash, echo("tide"), echo("wind"))

    lines = str(refused.value).splitlines()
    assert len(lines) == 2
    assert "3 tools are called 'tide'" in lines[0]
    assert clash.source in lines[0]
    assert ToolCallback.from_function(tide).source in lines[0]
    assert "2 tools are called 'wind'" in lines[1]
    assert "HandWrittenTool object" in lines[1]


@pytest.mark.parity(101)
@pytest.mark.fault("T16")
def test_one_function_twice_with_different_options_is_a_clash() -> None:
    with pytest.raises(ConfigurationError, match="2 tools are called 'tide'"):
        flatten_tools(tide, ToolCallback.from_function(tide, return_direct=True))


def test_two_objects_of_one_toolset_clash() -> None:
    with pytest.raises(ConfigurationError, match="2 tools are called 'plain'"):
        flatten_tools(Harbour("a"), Harbour("b"))


@pytest.mark.parity(56, 108)
@pytest.mark.parametrize(
    ("thing", "problem"),
    [
        (None, "NoneType object holds no tools"),
        ([tide, None], "NoneType object holds no tools"),
        (Empty(), "Empty object holds no tools: mark methods or functions with @tool"),
        (Empty, "the class Empty holds no tools"),
        ("tide", "str object holds no tools"),
        (b"tide", "bytes object holds no tools"),
        ({"tide": tide}, "dict object holds no tools"),
        (3, "int object holds no tools"),
        (unmarked, r"test_toolsets\.py:\d+: unmarked is neither marked with @tool nor a provider"),
        (lambda: None, r"NoneType object holds no tools.* \(from the provider .*lambda.* at .*test_toolsets\.py:\d+\)"),
        (lambda: "tide", "str object holds no tools"),
    ],
    ids=shown,
)
def test_what_holds_no_tools_is_refused(thing: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        flatten_tools(thing)


@pytest.mark.parity(109)
def test_a_method_that_returns_a_function_is_refused_by_name() -> None:
    class Makers:
        @tool
        def make(self) -> Callable[[], int]:
            raise NotImplementedError

    with pytest.raises(ConfigurationError, match=r"Makers\.make returns .*Callable.*, which has no JSON form"):
        flatten_tools(Makers())


async def test_functions_run_in_the_threads_given() -> None:
    threads = ToolThreads(1)

    @tool
    def busy() -> int:
        return threads.busy

    (made,) = flatten_tools(busy, threads=threads)

    assert await made.call("", ToolContext()) == "1"


async def test_a_toolset_that_caches_its_methods_works() -> None:
    class Cached:
        @tool
        @functools.cache  # noqa: B019 - what people write
        def slow(self, number: int) -> int:
            return number

    (made,) = flatten_tools(Cached())

    assert list(made.definition.input_schema["properties"]) == ["number"]
    assert await made.call('{"number": 3}', ToolContext()) == "3"
    with pytest.raises(ConfigurationError, match="needs an object"):
        flatten_tools(Cached)
