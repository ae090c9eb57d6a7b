"""What a tool is to the model and to the loop. How a function becomes one is `app.tooling`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from app.chat.messages import EMPTY, JsonValue


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """What the model is told of a tool.

    Attributes:
        name: how the model calls it.
        description: when and how to use it.
        input_schema: JSON Schema (2020-12) of its arguments, an object schema.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


@dataclass(frozen=True, slots=True)
class ToolMetadata:
    """How the gateway treats a tool; the model is told nothing of it.

    Attributes:
        return_direct: its result is the answer; the model is not asked again.
        timeout: seconds it may take; None = the gateway's setting.
        sequential: it runs alone; calls asked for before it end first, those after it start after.
        idempotent: running it twice does no more than running it once.
        max_calls: calls per turn; None = the gateway's setting.
        default: offered without being named by the request.
    """

    return_direct: bool = False
    timeout: float | None = None
    sequential: bool = False
    idempotent: bool = False
    max_calls: int | None = None
    default: bool = True


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running tool reports of itself. It reaches the stream and never the model."""

    message: str | None = None
    current: float | None = None
    total: float | None = None
    data: JsonValue = None


ProgressListener: TypeAlias = Callable[[Progress], None]


class ToolContext(Mapping[str, Any]):
    """What a tool may know of the request beyond its arguments: a read-only mapping, injected, never in the schema.

    Args:
        values: the request's tool context over the configured default; copied, so that a tool cannot change it.
        call: the id and name of the call, the conversation and the caller.
        listener: takes progress reports; may be called from any thread.
    """

    __slots__ = ("_listener", "_values", "call_id", "conversation_id", "principal")

    def __init__(
        self,
        values: Mapping[str, Any] = EMPTY,
        *,
        call_id: str = "",
        conversation_id: str | None = None,
        principal: str | None = None,
        listener: ProgressListener | None = None,
    ) -> None:
        self._values = MappingProxyType(dict(values))
        self._listener = listener
        self.call_id = call_id
        self.conversation_id = conversation_id
        self.principal = principal

    def progress(
        self,
        message: str | None = None,
        *,
        current: float | None = None,
        total: float | None = None,
        data: JsonValue = None,
    ) -> None:
        """Report how far the call is; costs nothing where nobody listens. Safe in threads and coroutines."""
        if self._listener is not None:
            self._listener(Progress(message, current, total, data))

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"ToolContext(keys={sorted(self._values)})"  # values may be secrets


@runtime_checkable
class Tool(Protocol):
    """Anything that can be offered to a model and called."""

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""

    @property
    def metadata(self) -> ToolMetadata:
        """How the gateway treats it."""

    async def call(self, arguments: str, context: ToolContext) -> str:
        """Run the tool.

        Args:
            arguments: JSON text as the model wrote it.
            context: the request's tool context.

        Returns:
            The result as text for the model.

        Raises:
            ToolArgumentsInvalid: the arguments do not fit; nothing was run.
            ToolFailed: the tool says why it failed, in words for the model.
        """
