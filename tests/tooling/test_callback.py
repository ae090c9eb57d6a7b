"""Marking functions with `@tool`, and calling them as tools."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import pytest

from app.chat import (
    ConfigurationError,
    Tool,
    ToolArgumentsInvalid,
    ToolContext,
    ToolDefinition,
    ToolError,
    ToolFailed,
    ToolMetadata,
)
from app.tooling import ToolCallback, ToolThreads, tool
from tests.support.functions import result_of
from tests.support.ids import shown

P = ParamSpec("P")
R = TypeVar("R")

caller: ContextVar[str] = ContextVar("caller", default="nobody")


def logged(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return wrapper


def harbour_tool(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator of one's own that marks."""
    return tool(name=f"harbour_{function.__name__}", sequential=True)(logged(function))


def tide(harbour: str) -> str:
    return f"high in {harbour}"


# Marking.


def test_the_decorator_gives_back_the_same_function() -> None:
    def sync() -> None: ...

    async def coroutine() -> None: ...

    assert tool(sync) is sync
    assert tool(name="other")(coroutine) is coroutine
    assert sync() is None  # type: ignore[func-returns-value]  # what is shown


def test_the_decorator_reads_nothing_so_annotations_may_name_what_comes_later() -> None:
    @tool
    def moor(it: DefinedBelow) -> None: ...

    assert "it" in ToolCallback.from_function(moor).definition.input_schema["properties"]


class DefinedBelow(ToolMetadata):
    """Comes later."""


@pytest.mark.parity(110)
async def test_a_decorator_that_marks_and_wraps_makes_a_tool_with_the_signature_of_what_it_wraps() -> None:
    made = ToolCallback.from_function(harbour_tool(tide))

    assert made.definition.name == "harbour_tide"
    assert made.metadata.sequential
    assert list(made.definition.input_schema["properties"]) == ["harbour"]
    assert await made.call('{"harbour": "Kiel"}', ToolContext()) == "high in Kiel"


@pytest.mark.parity(111)
async def test_a_wrapped_tool_stays_marked_and_the_wrapper_is_called() -> None:
    @logged
    @tool(name="loud")
    def say(word: str) -> str:
        return word

    assert ToolCallback.from_function(say).definition.name == "loud"
    assert await result_of(say, {"word": "ahoy"}) == "ahoy"


def test_a_wrapper_that_hides_what_it_wraps_is_refused_with_advice() -> None:
    def wrapper(*args: Any, **kwargs: Any) -> str:
        return tide(*args, **kwargs)

    with pytest.raises(ConfigurationError, match=r"functools\.wraps"):
        ToolCallback.from_function(wrapper)


@pytest.mark.parametrize(
    ("thing", "advice"),
    [
        ("tide", r"options are given by name: @tool\(name=…\)"),
        (42, "for functions, not for 42"),
        (ToolMetadata, "mark the methods of ToolMetadata, not the class"),
        (len, "use ToolCallback.from_function"),
        (property(lambda self: 1), "for functions"),
    ],
)
def test_what_cannot_be_marked_is_refused_with_advice(thing: Any, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        tool(thing)


def test_the_options_of_the_decorator_become_metadata() -> None:
    @tool(return_direct=True, timeout=2.5, sequential=True, idempotent=True, max_calls=3, default=False)
    def moor() -> None: ...

    assert ToolCallback.from_function(moor).metadata == ToolMetadata(
        return_direct=True, timeout=2.5, sequential=True, idempotent=True, max_calls=3, default=False
    )
    assert ToolCallback.from_function(tide).metadata == ToolMetadata()


def test_options_given_when_the_tool_is_made_go_before_the_decorator_s() -> None:
    @tool(name="a", timeout=1, return_direct=True, default=False)
    def moor() -> None: ...

    made = ToolCallback.from_function(moor, name="b", timeout=2, return_direct=False, max_calls=1)

    assert made.definition.name == "b"
    assert made.metadata == ToolMetadata(timeout=2, return_direct=False, max_calls=1, default=False)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timeout": 0}, "time-out of tide must be above 0"),
        ({"timeout": -1.0}, "time-out of tide must be above 0"),
        ({"timeout": float("nan")}, "time-out of tide must be above 0"),
        ({"max_calls": 0}, "max_calls of tide must be at least 1"),
    ],
)
def test_options_that_cannot_work_are_refused_with_the_place(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"test_callback\.py:\d+: .*{problem}"):
        ToolCallback.from_function(tide, **options)


# Shapes of functions.


class Harbour:
    def __init__(self, name: str = "Kiel") -> None:
        self.name = name

    def of_object(self, berth: int) -> str:
        return f"{self.name} {berth}"

    async def of_object_async(self, berth: int) -> str:
        return f"{self.name} {berth}"

    @classmethod
    def of_class(cls, berth: int) -> str:
        return f"{cls.__name__} {berth}"

    @staticmethod
    def of_nothing(berth: int) -> str:
        return f"harbour {berth}"

    def __call__(self, berth: int) -> str:
        return f"called {self.name} {berth}"


class AsyncHarbour:
    async def __call__(self, berth: int) -> str:
        return f"awaited {berth}"


async def of_coroutine(berth: int) -> str:
    return f"coroutine {berth}"


def gives_coroutine(berth: int) -> Any:
    return of_coroutine(berth)


@pytest.mark.parity(119)
@pytest.mark.parametrize(
    ("function", "result"),
    [
        (Harbour().of_object, "Kiel 3"),
        (Harbour("Bergen").of_object_async, "Bergen 3"),
        (Harbour.of_class, "Harbour 3"),
        (Harbour().of_class, "Harbour 3"),
        (Harbour.of_nothing, "harbour 3"),
        (Harbour(), "called Kiel 3"),
        (AsyncHarbour(), "awaited 3"),
        (functools.partial(Harbour().of_object), "Kiel 3"),
        (functools.partial(of_coroutine), "coroutine 3"),
        (of_coroutine, "coroutine 3"),
        (logged(of_coroutine), "coroutine 3"),
        (gives_coroutine, "coroutine 3"),
        (functools.lru_cache(Harbour.of_nothing), "harbour 3"),
        (lambda berth: f"lambda {berth}", "lambda 3"),
    ],
    ids=shown,
)
async def test_every_shape_of_function_can_be_called(function: Callable[..., Any], result: str) -> None:
    assert await result_of(function, {"berth": 3}, name="shape") == result


@pytest.mark.parity(119, 123, 124)
async def test_functions_without_input_or_without_output_do_a_whole_round_trip() -> None:
    heard: list[str] = []

    def supplier() -> list[int]:
        return [1, 2]

    def consumer(word: str) -> None:
        heard.append(word)

    def action() -> None:
        heard.append("action")

    assert await result_of(supplier) == "[1,2]"
    assert await result_of(consumer, {"word": "ahoy"}) == "Done"
    assert await result_of(action, "") == "Done"
    assert heard == ["ahoy", "action"]


async def test_what_a_partial_function_has_bound_is_not_the_model_s_to_give() -> None:
    def fetch(path: str, key: str, unit: str) -> str:
        return f"{path} {key} {unit}"

    made = ToolCallback.from_function(functools.partial(functools.partial(fetch, key="s3cret"), unit="m"))

    assert made.definition.name == "fetch"
    assert list(made.definition.input_schema["properties"]) == ["path"]
    assert await made.call('{"path": "a"}', ToolContext()) == "a s3cret m"
    with pytest.raises(ToolArgumentsInvalid, match="key: is unknown"):
        await made.call('{"path": "a", "key": "mine"}', ToolContext())


@pytest.mark.parametrize(
    ("thing", "advice"),
    [
        (Harbour.of_object, "take it from an instance of Harbour"),
        (vars(Harbour)["of_class"], "take it from its class"),
        (Harbour, "is a class"),
    ],
)
def test_what_is_not_bound_is_refused_with_advice(thing: Any, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        ToolCallback.from_function(thing)


# The context.


@pytest.mark.parity(73, 115)
async def test_the_context_is_injected_by_its_annotation_whatever_the_parameter_is_called() -> None:
    def report(subject: str, about: ToolContext) -> str:
        return f"{subject} by {about['user']}"

    async def report_async(about: ToolContext | None = None, *, subject: str) -> str:
        return f"{subject} by {about['user'] if about else None}"

    context = ToolContext({"user": "Ada"})
    for function in (report, report_async):
        assert await result_of(function, {"subject": "tide"}, context=context) == "tide by Ada"


@pytest.mark.parity(115)
async def test_the_model_cannot_pass_a_context() -> None:
    def report(about: ToolContext) -> str:
        return str(dict(about))

    with pytest.raises(ToolArgumentsInvalid, match="about: is unknown"):
        await result_of(report, {"about": {"user": "root"}})


# Where functions run.


@pytest.mark.fault("K03", "K04")
async def test_sync_functions_run_in_threads_with_the_caller_s_context_variables() -> None:
    def who() -> list[Any]:
        return [caller.get(), threading.current_thread() is threading.main_thread()]

    async def asked_by(name: str) -> str:
        caller.set(name)
        return await result_of(who, threads=threads)

    threads = ToolThreads(2)
    results = await asyncio.gather(*(asyncio.create_task(asked_by(name)) for name in "abcdef"))

    assert results == [f'["{name}",false]' for name in "abcdef"]
    assert caller.get() == "nobody"


async def test_what_a_sync_function_sets_in_its_context_stays_in_it() -> None:
    def become(name: str) -> str:
        before = caller.get()
        caller.set(name)
        return before

    threads = ToolThreads(1)

    assert [await result_of(become, {"name": name}, threads=threads) for name in "ab"] == ["nobody", "nobody"]


async def test_coroutine_functions_run_in_the_event_loop() -> None:
    async def where() -> bool:
        return asyncio.get_running_loop() is loop and threading.current_thread() is threading.main_thread()

    loop = asyncio.get_running_loop()

    assert await result_of(where) == "true"


async def test_a_result_is_written_in_the_thread_of_the_function() -> None:
    written_in: list[threading.Thread] = []

    def convert(value: Any) -> str:
        written_in.append(threading.current_thread())
        return str(value)

    await result_of(tide, {"harbour": "Kiel"}, result_converter=convert)

    assert written_in[0] is not threading.main_thread()


def test_one_tool_serves_several_event_loops() -> None:
    made = ToolCallback.from_function(tide)

    texts = [asyncio.run(made.call('{"harbour": "Kiel"}', ToolContext())) for _ in range(2)]

    assert texts == ["high in Kiel"] * 2


# What functions raise.


@pytest.mark.parity(120, 121)
@pytest.mark.parametrize("error", [ToolFailed("no such harbour"), KeyError("Kiel"), StopIteration("x")])
async def test_what_a_function_raises_leaves_the_tool_as_it_is(error: Exception) -> None:
    async def coroutine() -> None:
        raise error

    def sync() -> None:
        raise error

    if isinstance(error, StopIteration):
        with pytest.raises(RuntimeError) as raised:
            await result_of(coroutine)
        assert raised.value.__cause__ is error
        return
    for function in (coroutine, sync):
        with pytest.raises(type(error)) as failed:
            await result_of(function)
        assert failed.value is error


@pytest.mark.parity(134)
async def test_a_cancelled_call_cancels_the_coroutine() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(result_of(wait))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()


# What a callback shows of itself.


def test_a_callback_is_a_tool_and_says_where_it_comes_from() -> None:
    made = ToolCallback.from_function(tide)

    assert isinstance(made, Tool)
    assert made.function is tide
    assert made.source.endswith(f"test_callback.py:{tide.__code__.co_firstlineno}")
    assert repr(made) == f"<ToolCallback tide from {made.source}>"


def test_a_source_below_the_working_directory_is_told_relative_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(__file__.rpartition("/tests/")[0])

    assert ToolCallback.from_function(tide).source.startswith("tests/tooling/test_callback.py:")


def test_what_has_no_source_is_told_by_its_module() -> None:
    assert ToolCallback.from_function(functools.partial(len), name="length").source == "module builtins"


# Definitions written by hand.


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to-harbour": {"type": "string", "minLength": 2, "pattern": "^[A-Z]"},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}},
        "kind": {"enum": ["sail", "motor"]},
        "crew": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "flag": {"const": "red"},
        "sister": {"$ref": "#/$defs/a~1b%20c"},
    },
    "patternProperties": {"^x-": {"type": "integer"}},
    "additionalProperties": False,
    "required": ["to-harbour"],
    "$defs": {
        "stop": {
            "type": "object",
            "properties": {"pier": {"type": "integer"}},
            "required": ["pier"],
            "additionalProperties": False,
        },
        "a/b c": {"type": ["object", "null"], "properties": {"name": {"type": "string"}}},
    },
}


def by_hand(handler: Callable[..., Any], schema: Mapping[str, Any] = SCHEMA, **options: Any) -> ToolCallback:
    return ToolCallback.from_definition(ToolDefinition("sail", "Sail somewhere.", schema), handler, **options)


async def test_a_definition_written_by_hand_is_shown_as_it_is_and_its_handler_gets_the_arguments() -> None:
    async def handler(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return [arguments, context["user"]]

    made = by_hand(handler, metadata=ToolMetadata(return_direct=True))

    assert made.definition.input_schema is SCHEMA
    assert made.metadata.return_direct
    text = await made.call(
        '{"to-harbour": "Kiel", "stops": "[{\\"pier\\": 1}]", "x-a": 1}', ToolContext({"user": "Ada"})
    )
    assert text == '[{"to-harbour":"Kiel","stops":[{"pier":1}],"x-a":1},"Ada"]'


async def test_a_handler_may_be_sync_without_context_and_have_a_converter() -> None:
    def handler(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        return arguments

    made = by_hand(handler, {"type": "object"}, result_converter=",".join)

    assert await made.call('{"a": 1, "b": "\\ud83d"}', ToolContext()) == "a,b"
    assert await by_hand(handler, {"type": "object"}).call('{"b": "\\ud83d"}', ToolContext()) == '{"b":"\ufffd"}'


async def test_a_handler_that_returns_nothing_is_done() -> None:
    def handler(arguments: Mapping[str, Any]) -> None: ...

    assert await by_hand(handler, {"type": "object"}).call("", ToolContext()) == "Done"


@pytest.mark.parity(117, 118)
@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ("", ["to-harbour: is missing; it must be a string"]),
        ('{"to-harbour": 3}', ["to-harbour: must be a string, not an integer"]),
        ('{"to-harbour": "K"}', ["to-harbour: breaks the rule minLength: 2"]),
        ('{"to-harbour": "k"}', ['to-harbour: breaks the rule minLength: 2 and breaks the rule pattern: "^[A-Z]"']),
        ('{"to-harbour": "Kiel", "kind": "oar"}', ['kind: must be one of "sail", "motor"']),
        ('{"to-harbour": "Kiel", "crew": "x"}', ["crew: must be an integer or a boolean"]),
        ('{"to-harbour": "Kiel", "stops": [{"pier": "x"}]}', ["stops[0].pier: must be an integer, not a string"]),
        ('{"to-harbour": "Kiel", "stops": [{}]}', ["stops[0].pier: is missing; it must be an integer"]),
        ('{"to-harbour": "Kiel", "x-a": "x"}', ["x-a: must be an integer, not a string"]),
        ('{"to-harbour": "Kiel", "flag": "green"}', ['flag: must be "red"']),
        ('{"to-harbour": "Kiel", "sister": 3}', ["sister: must be an object or null, not an integer"]),
        ('{"to-harbour": "Kiel", "sister": "{\\"name\\": 3}"}', ["sister.name: must be a string, not an integer"]),
        ("[]", ["arguments: must be a JSON object, not an array"]),
    ],
)
async def test_arguments_are_validated_by_the_schema_written_by_hand(arguments: str, problems: list[str]) -> None:
    def handler(arguments: Mapping[str, Any]) -> str:
        raise AssertionError("it ran")

    with pytest.raises(ToolArgumentsInvalid) as refused:
        await by_hand(handler).call(arguments, ToolContext())

    assert str(refused.value).splitlines()[1:] == [f"- {problem}" for problem in problems]


async def test_what_a_schema_written_by_hand_requires_deep_in_alternatives_is_told() -> None:
    schema = {
        "type": "object",
        "properties": {"it": {"allOf": [{"type": "object", "required": ["a"]}]}, "no": False},
    }

    with pytest.raises(ToolArgumentsInvalid) as refused:
        await by_hand(lambda arguments: arguments, schema).call('{"it": {}, "no": 1}', ToolContext())

    assert str(refused.value).splitlines()[1:] == [
        "- it.a: is missing",
        "- arguments: has a part that is never allowed",
    ]


async def test_absurdly_nested_arguments_are_refused_by_a_schema_written_by_hand_too() -> None:
    link: dict[str, Any] = {"$ref": "#"}
    for _ in range(8):
        link = {"allOf": [link]}
    recursive = {"type": "object", "properties": {"a": link}}

    for levels, problem in ((900, "it is nested more than 90 deep"), (80, "nested too deeply for their schema")):
        with pytest.raises(ToolArgumentsInvalid, match=problem):
            await by_hand(lambda arguments: arguments, recursive).call(
                '{"a":' * levels + "{}" + "}" * levels, ToolContext()
            )


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object", "properties": 3}, "the input schema is not valid"),
        ({"type": "strin"}, "the input schema is not valid"),
        ({"type": "array"}, 'must have "type": "object"'),
        ({}, 'must have "type": "object"'),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, "refers to what is not in it"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.org/s"}}}, "is not a path within"),
        ({"type": "object", "properties": {"a": {"$ref": "#anchor"}}}, "is not a path within"),
        ({"type": "object", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "leads back to itself"),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/b"}},
                "$defs": {"b": {"anyOf": [{"$ref": "#/$defs/b"}]}},
            },
            "refers to what is not in it",
        ),
    ],
)
def test_a_schema_that_cannot_work_is_refused_with_the_place(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"test_callback\.py:\d+: .*{problem}"):
        by_hand(lambda arguments: arguments, schema)


def needs_two(a: Mapping[str, Any], b: int) -> None: ...


def context_first(context: ToolContext, arguments: Mapping[str, Any]) -> None: ...


def takes_nothing(context: ToolContext) -> None: ...


@pytest.mark.parametrize("handler", [needs_two, context_first, takes_nothing])
def test_a_handler_that_does_not_take_one_mapping_is_refused(handler: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match="take the arguments as one mapping, first"):
        by_hand(handler)


def test_a_handler_that_generates_is_refused() -> None:
    async def handler(arguments: Mapping[str, Any]) -> Any:
        yield arguments

    with pytest.raises(ConfigurationError, match="is a generator"):
        by_hand(handler)


@pytest.mark.parity(104)
def test_a_definition_written_by_hand_needs_a_name_that_servers_take_too() -> None:
    with pytest.raises(ConfigurationError, match="model servers refuse 'set sail'"):
        ToolCallback.from_definition(ToolDefinition("set sail", ""), lambda arguments: arguments)


@pytest.mark.fault("D12")
async def test_a_call_that_finds_no_thread_is_a_tool_error() -> None:
    threads, running, release = ToolThreads(1, max_wait=0), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        loop.call_soon_threadsafe(running.set)
        release.wait()

    held = asyncio.create_task(result_of(hold, threads=threads))
    await running.wait()
    with pytest.raises(ToolError, match="threads for tools are busy"):
        await result_of(tide, {"harbour": "Kiel"}, threads=threads)
    release.set()
    await held
