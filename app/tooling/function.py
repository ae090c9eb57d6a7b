"""A function as a tool: `ToolCallback`.

Differs from Spring AI:

1. Names that model servers refuse are refused here as well, non-Latin ones included (parity 104, 105).
2. An exception of the function leaves the tool as it is; what the model gets to read of it is decided where calls are
   executed (parity 120, 121, 130).
3. A callback for a schema written by hand takes the arguments as one mapping, for names in JSON need not be names in
   Python.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from types import NoneType
from typing import Any

from app.chat import ConfigurationError, ToolContext, ToolDefinition, ToolError, ToolMetadata
from app.tooling.binding import Binding, FunctionBinding, OverriddenBinding
from app.tooling.decorator import ResultConverter, ToolOptions, options_of
from app.tooling.handwritten import SchemaBinding, SchemaCheck
from app.tooling.results import DONE, to_text
from app.tooling.signature import (
    Function,
    documentation_of,
    is_coroutine_function,
    place_of,
    read_signature,
    refuse_result,
)
from app.tooling.threads import ToolThreads

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolCallback:
    """A function that a model can call; made by `from_function` or `from_definition`.

    Functions run in a thread with a copy of the context variables, coroutine functions in the event loop.

    Attributes:
        definition: what the model is told.
        metadata: how the gateway treats the tool.
        function: what is called in the end.
        source: where that is defined, as `file:line`.
    """

    def __init__(
        self,
        definition: ToolDefinition,
        metadata: ToolMetadata,
        function: Function,
        binding: Binding,
        *,
        returns_nothing: bool = False,
        result_converter: ResultConverter | None = None,
        threads: ToolThreads | None = None,
    ) -> None:
        self.definition = definition
        self.metadata = metadata
        self.function = function
        self.source = place_of(function)
        self._binding = binding
        self._convert = result_converter or (_done_or_text if returns_nothing else to_text)
        self._threads = threads
        self._is_async = is_coroutine_function(function)
        _check(definition, metadata, self.source)

    @classmethod
    def from_function(
        cls,
        function: Function,
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
        return_direct: bool | None = None,
        result_converter: ResultConverter | None = None,
        timeout: float | None = None,
        sequential: bool | None = None,
        idempotent: bool | None = None,
        max_calls: int | None = None,
        default: bool | None = None,
        threads: ToolThreads | None = None,
    ) -> ToolCallback:
        """A tool from a function, a bound method, a partial function or a callable object.

        What is None here is as the function's `@tool` says, if it has one, and else as `tool` documents.

        Args:
            function: sync or async. A parameter annotated with `ToolContext` gets the context; what
                `functools.partial` has bound by name is not the model's to give.
            name: how the model calls it.
            description: when and how to use it.
            input_schema: a JSON Schema that the model is told in place of the function's own. Arguments have to fit
                both; what the schema allows and the function does not know is not passed.
            return_direct: see `tool`, as with all that follow.
            result_converter: see `tool`.
            timeout: see `tool`.
            sequential: see `tool`.
            idempotent: see `tool`.
            max_calls: see `tool`.
            default: see `tool`.
            threads: where it runs if it is no coroutine function; None = threads that all such tools share.

        Raises:
            ConfigurationError: it cannot be a tool; the message names file, function and parameter.
        """
        given: dict[str, Any] = {
            "name": name, "description": description, "return_direct": return_direct,
            "result_converter": result_converter, "timeout": timeout, "sequential": sequential,
            "idempotent": idempotent, "max_calls": max_calls, "default": default,
        }  # fmt: skip
        options = replace(
            options_of(function) or ToolOptions(), **{key: value for key, value in given.items() if value is not None}
        )
        signature = read_signature(function)
        if options.result_converter is None:
            refuse_result(function, signature.returns)
        documentation = documentation_of(function)
        named = (options.name or "").strip() or _own_name(function)
        own = FunctionBinding(function, signature, documentation.parameters)
        binding: Binding = own
        if input_schema is not None:
            binding = OverriddenBinding(SchemaCheck(input_schema, place_of(function)), own)
        definition = ToolDefinition(
            named, options.description or documentation.description or _words(named), binding.schema
        )
        return cls(
            definition,
            _metadata(options),
            function,
            binding,
            returns_nothing=signature.returns is NoneType,
            result_converter=options.result_converter,
            threads=threads,
        )

    @classmethod
    def from_definition(
        cls,
        definition: ToolDefinition,
        handler: Function,
        *,
        metadata: ToolMetadata | None = None,
        result_converter: ResultConverter | None = None,
        threads: ToolThreads | None = None,
    ) -> ToolCallback:
        """A tool from a definition that was written by hand.

        Args:
            definition: its schema is what the arguments are validated by. References must point into itself.
            handler: sync or async; takes the arguments as one mapping of decoded JSON. A parameter annotated with
                `ToolContext` gets the context.
            metadata: how the gateway treats the tool.
            result_converter: see `tool`.
            threads: as in `from_function`.

        Raises:
            ConfigurationError: the schema is no object schema, or the handler does not take one mapping.
        """
        binding = SchemaBinding(definition.input_schema, handler, place_of(handler))
        returns = read_signature(handler).returns
        if result_converter is None:
            refuse_result(handler, returns)
        return cls(
            definition,
            metadata or ToolMetadata(),
            handler,
            binding,
            returns_nothing=returns is NoneType,
            result_converter=result_converter,
            threads=threads,
        )

    async def call(self, arguments: str, context: ToolContext) -> str:
        """Run the tool.

        Args:
            arguments: JSON text as the model wrote it.
            context: passed to the parameters that want it, and never to the model.

        Returns:
            The result as text for the model.

        Raises:
            ToolArgumentsInvalid: the arguments do not fit; nothing was run.
            ToolError: the result has no JSON form, or there was no thread to run in.
            Exception: whatever the function raised.
        """
        invoke = self._binding.bind(arguments, context, self.definition.name)
        if self._is_async:
            text: object = self._convert(await invoke())
        else:
            is_text, outcome = await (self._threads or _shared_threads()).run(partial(self._run, invoke))
            text = outcome if is_text else self._convert(await outcome)
        if isinstance(text, str):
            return text
        if inspect.isawaitable(text) and isinstance(text := await text, str):
            return text
        kind = type(text).__name__
        raise ToolError(f"The tool ran, but its result converter gave a result of type {kind}, not text.")

    def _run(self, invoke: Callable[[], Any]) -> tuple[bool, Any]:
        """Call a function in a thread, and write its result there too, for that may be work and need what it holds.

        Returns:
            True and the text, which may have to be awaited; or False and an awaitable result, as wrapped coroutine
            functions give.
        """
        value = invoke()
        return (False, value) if inspect.isawaitable(value) else (True, self._convert(value))

    def __repr__(self) -> str:
        return f"<ToolCallback {self.definition.name} from {self.source}>"


@lru_cache(maxsize=1)
def _shared_threads() -> ToolThreads:
    return ToolThreads()


def _done_or_text(value: object) -> str:
    return DONE if value is None else to_text(value)


def _check(definition: ToolDefinition, metadata: ToolMetadata, source: str) -> None:
    name, timeout, max_calls = definition.name, metadata.timeout, metadata.max_calls
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{source}: model servers refuse {name!r} as a tool's name: it needs one of 1 to 64 letters (A to Z), "
            "digits, _ and -"
        )
    if timeout is not None and not 0 < timeout < math.inf:
        raise ConfigurationError(f"{source}: the time-out of {name} must be above 0 seconds, or None; it is {timeout}")
    if max_calls is not None and max_calls < 1:
        raise ConfigurationError(f"{source}: max_calls of {name} must be at least 1, or None; it is {max_calls}")


def _metadata(options: ToolOptions) -> ToolMetadata:
    return ToolMetadata(
        return_direct=options.return_direct,
        timeout=options.timeout,
        sequential=options.sequential,
        idempotent=options.idempotent,
        max_calls=options.max_calls,
        default=options.default,
    )


def _own_name(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _words(name: str) -> str:
    """`getWeather_now` as "get weather now"."""
    return " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").replace("-", " ").split()).lower()
