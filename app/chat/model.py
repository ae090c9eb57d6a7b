"""What the chain asks of a model."""

from __future__ import annotations

from typing import Protocol

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
