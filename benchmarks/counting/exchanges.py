"""What the gateway is asked, and what it has to answer: anything else is not counted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from benchmarks.counting.answers import WORD, ModelAnswer

_EVENT = re.compile(rb"id: ([0-9]+)\nevent: ([a-z_.]+)\ndata: ([^\n]+)\n\n")


class WrongAnswer(Exception):
    """What was answered is not what was to be counted."""


@dataclass(frozen=True, slots=True, order=True)
class Setup:
    """What a gateway has.

    Attributes:
        tools: how many it offers.
        advisors: how many of an operator's own stand in its chain.
        in_threads: whether its tools are plain functions, which run in threads.
    """

    tools: int = 1
    advisors: int = 0
    in_threads: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request to the gateway, and all that comes of it.

    Attributes:
        setup: what the gateway has.
        stream: whether the answer is streamed, by the model server, too.
        words: tokens of the answer.
        is_paced: whether they come one by one.
        rounds: rounds of tool calls before the answer.
        history: messages before the question.
        is_remembered: whether it is the first turn of a conversation. The memory is a file, as it is by default.
    """

    setup: Setup = Setup()
    stream: bool = False
    words: int = 1
    is_paced: bool = False
    rounds: int = 0
    history: int = 0
    is_remembered: bool = False

    @property
    def path(self) -> str:
        """Where the gateway is asked."""
        return "/chat/stream" if self.stream else "/chat"

    def body(self, time: int) -> bytes:
        """What it is asked when it is asked for this time."""
        said = [{"role": ("user", "assistant")[at % 2], "content": f"message {at}"} for at in range(self.history)]
        conversation = {"conversation_id": f"conversation {time}"} if self.is_remembered else {}
        return json.dumps(
            {"messages": [*said, {"role": "user", "content": "What is kept there?"}], **conversation}
        ).encode()

    @property
    def model_answers(self) -> Sequence[ModelAnswer]:
        """What the model server answers, request by request."""
        calls = [ModelAnswer.tool_call(number, stream=self.stream) for number in range(1, self.rounds + 1)]
        return [*calls, ModelAnswer.text(self.words, stream=self.stream, is_paced=self.is_paced)]

    def check(self, status: int, body: bytes, model_requests: Sequence[bytes]) -> None:
        """Hold the answer, and what the model server was asked, to what they have to be.

        Raises:
            WrongAnswer: they are something else.
        """
        answer = self._end_of(body) if status == HTTPStatus.OK and self.stream else json.loads(body)
        found = (
            status,
            answer.get("content"),
            answer.get("finish_reason"),
            [run.get("result") for run in answer.get("tool_runs", ())],
            [_asked(json.loads(request)) for request in model_requests],
        )
        wanted = (
            HTTPStatus.OK,
            WORD * self.words,
            "stop",
            [f"what is kept under key {number}" for number in range(1, self.rounds + 1)],
            [(self.stream, self.setup.tools, self.history + 1 + 2 * done) for done in range(self.rounds + 1)],
        )
        if found != wanted:
            raise WrongAnswer(f"{self} came to {found} instead of {wanted}")

    def _end_of(self, body: bytes) -> Mapping[str, Any]:
        """The last event's data, of a stream that is whole."""
        events = list(_EVENT.finditer(body))
        numbers = [int(event[1]) for event in events]
        words = [json.loads(event[3])["text"] for event in events if event[2] == b"text.delta"]
        is_whole = b"".join(event[0] for event in events) == body
        if not is_whole or numbers != list(range(1, len(events) + 1)) or words != [WORD] * self.words:
            raise WrongAnswer(f"{self} came to the events {body[:2000]!r}")
        end: dict[str, Any] = json.loads(events[-1][3])
        return end


def _asked(request: Mapping[str, Any]) -> tuple[bool, int, int]:
    """Whether a stream was asked for, and how many tools and messages were sent."""
    return request["stream"], len(request.get("tools", ())), len(request["messages"])
