"""One answer put together from chunks: a stream's, or a whole completion as the only one.

Pure: decoded JSON in, deltas and the answer out. Choice 0 is the answer. What could be text or a call and cannot be
read is an error; what is neither is let by.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from app.chat import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from app.chat.events import Delta
from app.chat.messages import EMPTY
from app.chat.text import bytes_of, well_formed_text
from app.providers.openai.calls import ToolCallAssembly
from app.providers.openai.errors import Scrub, error_in_answer, protocol_error, tells_of_an_error
from app.providers.openai.parts import PartKind, parts_of
from app.providers.openai.plain_chunk import DELTA_FIELDS, PlainChunk
from app.providers.openai.text_channel import TextChannel
from app.providers.openai.think_tags import ThinkTags
from app.providers.openai.usage import later_usage, usage_of
from app.providers.profile import Profile
from app.providers.scrubbing import masked

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Names under which servers send reasoning apart from text. Of one delta the first that says something counts."""

_FINISH_REASONS = {
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "max_output_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
}
"""Reasons that stay what they are. Every other one is an end of the model's own: `tool_calls` with calls, or `stop`."""

_FAILURES = frozenset({"error", "abort", "aborted", "cancelled", "network_error", "insufficient_system_resource"})
"""Finish reasons by which a server says that it did not finish."""


_DELTAS: Mapping[PartKind, type[TextDelta | ReasoningDelta]] = {"text": TextDelta, "reasoning": ReasoningDelta}


class AnswerAssembly:
    """Takes chunks, tells the deltas they make, and gives in the end the whole answer.

    Args:
        profile: the server's dialect.
        scrub: masks secrets in messages.
        secrets: masked in the answer, see `StreamMask`.
        max_answer: bytes the whole answer may have, as UTF-8.
        extra: what is told beside the answer, see `ChatResponse.extra`.
    """

    def __init__(
        self,
        profile: Profile,
        scrub: Scrub,
        *,
        secrets: Collection[str] = (),
        max_answer: int,
        extra: Mapping[str, Any] = EMPTY,
    ) -> None:
        self._profile = profile
        self._scrub = scrub
        self._secrets = secrets
        self._max_answer = max_answer
        self._extra = extra
        self._channels: dict[PartKind, TextChannel] = {}
        self._tags = ThinkTags() if profile.think_tags else None
        self._calls = ToolCallAssembly(secrets)
        self._kept: dict[str, Any] = {}
        self._reasoning_field: str | None = None
        self._finish = ""
        self._told_id: Any = None
        self._told_model: Any = None
        self._id: str | None = None
        self._model: str | None = None
        self.size = 0
        """How much has come, in bytes. Grows with content only."""
        self.usage: Usage | None = None
        """What the server has told of it so far."""
        self.finished = False
        """Whether the server has said why the answer ended."""
        self.begun = False
        """Whether anything of the answer's choice came, be it empty."""
        self.ends_in_usage = False
        """Whether the last chunk was one of usage only, which comes after the end of an answer."""

    @property
    def takes_plain(self) -> bool:
        """Whether `add_plain` may be used: nothing that a plain chunk has is to be kept as it is."""
        return self._profile.kept_fields.isdisjoint(DELTA_FIELDS)

    @property
    def is_whole(self) -> bool:
        """Whether what came can be an answer that ended without a word: something came, and no call is cut."""
        return bool(self.size) and self._calls.complete()

    def add(self, chunk: Mapping[str, Any], told: list[Delta]) -> None:
        """Take one chunk, or a whole completion.

        Args:
            chunk: the chunk.
            told: gets the events that it makes, also where what follows in it is an error.

        Raises:
            ModelError: the chunk tells of an error, cannot be read, or is one too many.
        """
        if tells_of_an_error(chunk):
            self._take_usage(chunk, [])
            raise error_in_answer(chunk, self._scrub)
        answer_id, model = chunk.get("id"), chunk.get("model")
        if answer_id != self._told_id or model != self._told_model:
            self._name(answer_id, model)
        choices = chunk.get("choices")
        choices = choices if isinstance(choices, list) else []
        own = [choice for choice in choices if isinstance(choice, dict) and choice.get("index") in (0, "0", None)]
        if self._take_usage(chunk, own) and not choices:
            self.ends_in_usage = True
        elif own:
            self.ends_in_usage = False
        for choice in own:
            self._choose(choice, chunk, told)
        if self.size > self._max_answer:
            self._refuse()

    def add_plain(self, chunk: PlainChunk, told: list[Delta]) -> None:
        """Take a chunk that holds a piece of text, of reasoning or of a call, or the end of them. See `add`."""
        if chunk.id != self._told_id or chunk.model != self._told_model:  # nearly every chunk says the same
            self._name(chunk.id, chunk.model)
        self.ends_in_usage = False
        self.begun = True
        [choice] = chunk.choices
        delta = choice.delta
        if thought := delta.reasoning_content or delta.reasoning:
            self._reasoning_field = self._reasoning_field or REASONING_FIELDS[0 if delta.reasoning_content else 1]
            self._say_text(thought, "reasoning", told)
        if delta.content:
            self._say_text(delta.content, "text", told)
        if delta.tool_calls:
            self._call(delta.tool_calls, told)
        if choice.finish_reason:
            self._finish, self.finished = choice.finish_reason, True
        if self.size > self._max_answer:
            self._refuse()

    def close(self, told: list[Delta]) -> ChatResponse:
        """The answer has ended.

        Args:
            told: gets the events that are still due.

        Returns:
            The whole answer.

        Raises:
            ModelProtocolError: a tool call has no name.
        """
        if self._tags:
            for kind, text in self._tags.close():
                self._tell(kind, text, told)
        reasoning = self._ended("reasoning", told)
        text = self._ended("text", told)
        refusal = self._ended("refusal", told)
        reason = _FINISH_REASONS.get(self._finish.lower(), FinishReason.STOP)
        calls = self._calls.close(told, cut=reason is not FinishReason.STOP)
        if reason is FinishReason.STOP and calls:
            reason = FinishReason.TOOL_CALLS
        if reasoning and self._reasoning_field:
            self._kept[self._reasoning_field] = reasoning
        message = AssistantMessage(text, calls, reasoning or None, refusal or None, self._kept or EMPTY)
        model = self._model and masked(self._model, self._secrets)
        answer_id = self._id and masked(self._id, self._secrets)
        return ChatResponse.of_call(message, reason, self.usage, model=model, id=answer_id, extra=self._extra)

    def _name(self, answer_id: Any, model: Any) -> None:
        self._told_id, self._told_model = answer_id, model
        self._id = _said(answer_id) or self._id
        self._model = _said(model) or self._model

    def _refuse(self) -> NoReturn:
        raise protocol_error(f"an answer larger than the {self._max_answer} bytes allowed", "too_large")

    def _choose(self, choice: Mapping[str, Any], chunk: Mapping[str, Any], told: list[Delta]) -> None:
        finish = choice.get("finish_reason")
        if choice.get("error") or (isinstance(finish, str) and finish.lower() in _FAILURES):
            raise error_in_answer(choice.get("error") or {"code": finish, **chunk}, self._scrub)
        delta = choice.get("delta")
        if not delta and not self.size and "message" in choice:  # at the end of a stream it only says all again
            delta = _as_delta(choice["message"])
        self.begun = True
        if delta is not None and not isinstance(delta, dict):
            raise protocol_error(f"a delta that is a {type(delta).__name__}")
        if delta:
            self._read(delta, told)
        if finish and isinstance(finish, str):
            self._finish, self.finished = finish, True

    def _read(self, delta: Mapping[str, Any], told: list[Delta]) -> None:
        for field in REASONING_FIELDS:
            if said := delta.get(field):
                self._reasoning_field = self._reasoning_field or field
                self._say(said, "reasoning", told)
                break
        if content := delta.get("content"):
            self._say(content, "text", told)
        if refusal := delta.get("refusal"):
            self._say(refusal, "refusal", told)
        if calls := delta.get("tool_calls"):
            self._call(calls, told)
        if old := delta.get("function_call"):  # as it was before there were several
            self._call({"function": old}, told)
        if not self._profile.kept_fields.isdisjoint(delta):
            for field in self._profile.kept_fields & delta.keys():
                self._keep(field, delta[field])

    def _say(self, content: Any, kind: PartKind, told: list[Delta]) -> None:
        if isinstance(content, str):
            self._say_text(content, kind, told)
        else:
            for part_kind, text in parts_of(content, kind):
                self._say_text(text, part_kind, told)

    def _say_text(self, text: str, kind: PartKind, told: list[Delta]) -> None:
        self.size += bytes_of(text)
        if self._tags and kind == "text":
            for side, piece in self._tags.feed(text):
                self._tell(side, piece, told)
        else:
            self._tell(kind, text, told)

    def _tell(self, kind: PartKind, text: str, told: list[Delta]) -> None:
        channel = self._channels.get(kind)
        if channel is None:
            channel = self._channels[kind] = TextChannel(self._secrets)
        if (passed := channel.feed(text)) and kind != "refusal":
            told.append(_DELTAS[kind](passed))

    def _ended(self, kind: PartKind, told: list[Delta]) -> str:
        """A text as it is in the end."""
        channel = self._channels.get(kind)
        if channel is None:
            return ""
        if (rest := channel.close()) and kind != "refusal":
            told.append(_DELTAS[kind](rest))
        return channel.text

    def _call(self, fragments: Any, told: list[Delta]) -> None:
        if not isinstance(fragments, list):
            fragments = [fragments]
        for fragment in fragments:
            if not isinstance(fragment, dict):
                raise protocol_error(f"a tool call that is a {type(fragment).__name__}")
            self.size += self._calls.add(fragment, told)

    def _take_usage(self, chunk: Mapping[str, Any], own: list[dict[str, Any]]) -> bool:
        usage = None
        for place in (chunk, *own, chunk.get("x_groq")):
            told = place.get("usage") if isinstance(place, dict) else None
            if told and (usage := usage_of(told, chunk.get("timings"))):
                break
        if usage and (self.usage is None or usage.input_tokens or usage.output_tokens or usage.total_tokens):
            self.usage = usage if self.usage is None else later_usage(self.usage, usage)
        return usage is not None

    def _keep(self, field: str, value: Any) -> None:
        kept = self._kept.get(field)
        if value is None:
            return
        self.size += bytes_of(str(value))
        if isinstance(kept, list) and isinstance(value, list):
            kept.extend(value)
        elif isinstance(kept, dict) and isinstance(value, dict):
            kept.update(value)
        else:
            self._kept[field] = value


def _as_delta(message: Any) -> Any:
    """The message of a whole completion as the one delta of a stream: each of its calls is a call of its own."""
    if not isinstance(message, dict) or not isinstance(message.get("tool_calls"), list):
        return message
    calls = enumerate(message["tool_calls"])
    return {**message, "tool_calls": [{**call, "index": n} if isinstance(call, dict) else call for n, call in calls]}


def _said(value: Any) -> str | None:
    return well_formed_text(value).strip() or None if isinstance(value, str) else None
