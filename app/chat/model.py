"""What the chain asks of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from app.chat.events import ChatEvents
from app.chat.prompt import ChatOptions, Prompt
from app.chat.response import ChatResponse


class ChatModel(Protocol):
    """A model that answers prompts. Called by itself it returns the calls it asks for and runs nothing."""

    @property
    def name(self) -> str:
        """What answers of this model are labelled with where the server names none."""

    @property
    def default_options(self) -> ChatOptions:
        """What holds where neither request nor client say otherwise."""

    async def call(self, prompt: Prompt) -> ChatResponse:
        """The answer, whole.

        Raises:
            ModelError: the call failed; nothing of it may be used.
        """

    def stream(self, prompt: Prompt) -> ChatEvents:
        """The answer in pieces, then `Completed` with the whole.

        Raises:
            ModelError: while iterating: the call failed; nothing of it may be kept.
        """

    async def aclose(self) -> None:
        """Give back connections. Harmless when called twice."""


class BatchingModel(Protocol):
    """A model that can give deltas together, as they came."""

    def stream_batches(self, prompt: Prompt) -> ChatEvents:
        """The events of `ChatModel.stream`, with `Deltas` in place of those that came together."""


def batches_of(model: ChatModel, prompt: Prompt) -> ChatEvents:
    """A model's stream, its deltas together where it can give them so."""
    # Not by `isinstance`: with a protocol it costs as much as reading ten chunks.
    stream: Callable[[Prompt], ChatEvents] = getattr(model, "stream_batches", model.stream)
    return stream(prompt)


BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True)
class TargetState:
    """How one of the servers behind a model is.

    Attributes:
        alias: the alias it serves.
        name: its own name; None where it needs none.
        breaker: `closed`: it is asked; `open`: it failed and is left alone; `half_open`: one call may try it.
        active: calls that it is answering.
        waiting: calls that wait until it has room.
    """

    alias: str
    name: str | None
    breaker: BreakerState
    active: int
    waiting: int


@runtime_checkable
class RoutingModel(Protocol):
    """A model that stands for several, which `ChatOptions.model` chooses from by their aliases."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names there are, the default first."""

    @property
    def targets(self) -> tuple[TargetState, ...]:
        """The servers behind them as they are now. None of them is asked."""
