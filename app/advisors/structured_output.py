"""Answers in a given structure: asked for by schema, checked, and asked for again where they do not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Generic, TypeVar

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from app.advisors.rounds import continued, swallowed
from app.chat import (
    CallNext,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    ConfigurationError,
    FinishReason,
    Message,
    ModelProtocolError,
    SystemMessage,
    UserMessage,
    passes_deltas,
)

T = TypeVar("T")

_FENCED = re.compile(r"```(?i:json)?\s*(?P<inside>.*?)\s*```", re.DOTALL)
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_CHECKED = frozenset({FinishReason.STOP, FinishReason.LENGTH})


class StructuredOutputAdvisor(Generic[T]):
    """Holds the final answer to a structure.

    An answer that fits is passed on with its content reduced to the JSON text, without a code fence around it.
    One that does not is shown to the model with what is wrong, and the model is called again. In a stream the
    text of a failed attempt has been passed on by then, as the deltas of a round of its own; only the last round's
    text is the answer. Usage, rounds and tool runs of all attempts are added up; failed answers are left out of
    `generated`, so that no memory keeps them.

    What is not meant to be the answer is not checked: tool calls, a refusal, and every finish reason but `stop`
    and `length`; a tool that returns directly therefore gives what it gives.

    Args:
        schema: JSON Schema of the answer.
        validate: makes the value from JSON text. Raises ValueError, in words that tell the model what is wrong.
        name: of the schema, for the model server: letters, digits, `_` and `-`.
        max_attempts: how often the chain may be called.
        in_prompt: whether the schema stands in the system message instead of the option `response_format`, for
            model servers that do not know `json_schema` or cannot join it with tools.
        order: the default is outside of the tool loop, where an answer is the end of a turn, and inside of memory.

    Raises:
        ConfigurationError: `max_attempts` is not positive, or the name is not one that model servers take.
    """

    DEFAULT_ORDER = 250

    def __init__(
        self,
        schema: Mapping[str, Any],
        validate: Callable[[str], T],
        *,
        name: str = "answer",
        max_attempts: int = 3,
        in_prompt: bool = False,
        order: int = DEFAULT_ORDER,
    ) -> None:
        if max_attempts < 1:
            raise ConfigurationError(f"max_attempts must be positive, got {max_attempts}")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise ConfigurationError(f"the name of a schema is up to 64 letters, digits, '_' or '-', got {name!r}")
        self._schema = schema
        self._validate = validate
        self._name = name
        self._max_attempts = max_attempts
        self._in_prompt = in_prompt
        self.order = order

    @classmethod
    def for_type(
        cls, type_: type[T], *, max_attempts: int = 3, in_prompt: bool = False, order: int = DEFAULT_ORDER
    ) -> StructuredOutputAdvisor[T]:
        """An advisor for answers of a type.

        Args:
            type_: what pydantic can read from JSON: a model, a dataclass, a TypedDict (on Python 3.11 that of
                typing_extensions). Many model servers take only schemas of objects.
            max_attempts: see the class.
            in_prompt: see the class.
            order: see the class.

        Raises:
            ConfigurationError: the type has no JSON form.
        """
        try:
            adapter: TypeAdapter[T] = TypeAdapter(type_)
            schema = adapter.json_schema()
        except PydanticUserError as error:
            raise ConfigurationError(f"{type_!r} cannot be read from JSON: {error.message}") from error

        def validate(text: str) -> T:
            try:
                return adapter.validate_json(text)
            except ValidationError as error:
                raise ValueError(_problems(error)) from None

        return cls(
            schema,
            validate,
            name=_NOT_IN_A_NAME.sub("_", getattr(type_, "__name__", "answer"))[:64],
            max_attempts=max_attempts,
            in_prompt=in_prompt,
            order=order,
        )

    def value(self, response: ChatResponse) -> T:
        """What an answer says.

        Raises:
            ValueError: it does not fit; it is one that was not checked, such as a refusal.
        """
        return self._validate(_unfenced(response.content))

    @passes_deltas
    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Call on until the answer fits. See `Advisor.advise`.

        Raises:
            ModelProtocolError: while iterating: the last attempt did not fit either.
        """
        request = self._asking(request)
        so_far: ChatResponse | None = None
        for _ in range(self._max_attempts):
            answer: ChatResponse | None = None
            async with aclosing(call_next(request)) as events:
                async for event in events:
                    if isinstance(event, Completed):
                        answer = event.response
                    else:
                        yield event
            if answer is None:
                raise RuntimeError("the chain below the structured output ended without Completed")
            so_far = _joined(so_far, answer)
            problem = self._problem_of(answer)
            if problem is None:
                yield Completed(_bare(so_far) if _is_checked(so_far) else so_far)
                return
            for told in swallowed(request, answer):
                yield told
            request = continued(_corrected(request, answer, problem), answer)
        # Neither the answer nor what is wrong with it, as both may quote what was said.
        raise ModelProtocolError(
            f"the model's answer does not fit the structure asked for, after {self._max_attempts} attempts"
        )

    def _asking(self, request: ChatRequest) -> ChatRequest:
        if not self._in_prompt:
            asked = {"name": self._name, "schema": self._schema}
            return request.with_options(response_format={"type": "json_schema", "json_schema": asked})
        schema = json.dumps(self._schema, ensure_ascii=False)
        text = f"Give your final answer as JSON that fits this JSON Schema, and nothing else:\n{schema}"
        match request.messages:
            case (SystemMessage(given), *others):
                return request.with_messages((SystemMessage(f"{given}\n\n{text}"), *others))
            case messages:
                return request.with_messages((SystemMessage(text), *messages))

    def _problem_of(self, answer: ChatResponse) -> str | None:
        if _is_checked(answer):
            try:
                self._validate(_unfenced(answer.content))
            except ValueError as error:
                return str(error)
        return None


def _is_checked(answer: ChatResponse) -> bool:
    return answer.finish_reason in _CHECKED and not answer.tool_calls and not answer.message.refusal


def _joined(earlier: ChatResponse | None, answer: ChatResponse) -> ChatResponse:
    """An attempt added to those before. What these called and ran stays in `generated`, their answers do not."""
    if earlier is None:
        return answer
    return replace(answer.after(earlier), generated=(*earlier.generated[:-1], *answer.generated))


def _bare(answer: ChatResponse) -> ChatResponse:
    return answer.with_message(replace(answer.message, content=_unfenced(answer.content)))


def _corrected(request: ChatRequest, answer: ChatResponse, problem: str) -> ChatRequest:
    """The request with a failed answer and what is wrong with it."""
    failed = (answer.message,) if answer.content.strip() else ()
    complaint = UserMessage(
        f"Your answer does not fit the structure asked for: {problem}\n"
        "Answer again with the corrected JSON and nothing else."
    )
    added: tuple[Message, ...] = (*answer.generated[:-1], *failed, complaint)
    # A memory inside of the tool loop makes its prompt of the turn.
    turn = (*request.turn, *added) if request.turn else ()
    return replace(request.without_forced_tool().with_messages((*request.messages, *added)), turn=turn)


def _unfenced(content: str) -> str:
    text = content.strip()
    fenced = _FENCED.fullmatch(text)
    return fenced["inside"] if fenced else text


def _problems(error: ValidationError) -> str:
    told = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(map(str, problem["loc"]))
        told.append(f"{place}: {problem['msg']}" if place else problem["msg"])
    return "; ".join(told)
