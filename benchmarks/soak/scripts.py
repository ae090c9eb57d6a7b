"""What a run is to do, said by its caller in the message, and done by the model server."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, Self, TypeAlias

ToolName: TypeAlias = Literal["wait", "block"]


@dataclass(frozen=True, slots=True)
class Script:
    """One run.

    Attributes:
        run: its number, which makes it different from all others.
        words: of the answer, each an event of its own.
        quickest: seconds between two of them at least.
        slowest: seconds between two of them at most.
        silence: seconds before the first one.
        tool: what the model asks for first.
        seconds: how long that takes.
    """

    run: int
    words: int
    quickest: float
    slowest: float
    silence: float = 0.0
    tool: ToolName | None = None
    seconds: float = 0.0

    def message(self) -> str:
        """The message that begins it."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, message: str) -> Self:
        """The script of a message."""
        return cls(**json.loads(message))

    @property
    def result(self) -> str:
        """What the tool returns."""
        return f"{self.tool} {self.seconds}"
