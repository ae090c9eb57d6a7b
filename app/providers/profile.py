"""What one model server wants that others do not: flags, read where requests are written and answers put together.

The default is what every server takes: nothing in it is refused anywhere that is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from app.chat.messages import EMPTY

OPTION_FIELDS = frozenset({"temperature", "top_p", "stop", "seed", "response_format"})
"""Fields of a request that a profile may leave out."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Flags of some of a server's models.

    Attributes:
        models: a regular expression that is searched in the model's name, whatever the case.
        flags: what differs from the server's profile.
    """

    models: str
    flags: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class Profile:
    """The dialect of one kind of server.

    Attributes:
        system_role: the role of system texts.
        system_messages: one, in the first place, with all system texts joined by a blank line, as many chat templates
            demand; or many, where they stand.
        strict_tools: tools are offered with `strict`: the server holds the model to the schema. Every property is
            required then, and null stands for what was left out. A schema that has no such form is offered as it is.
        refused_keywords: keywords of JSON Schema that the server refuses a request for; they are left out.
        parallel_tool_calls: whether the field of this name is sent.
        tool_choice: forms that the server takes: all; words, so that a certain tool is forced by offering it alone;
            or auto, which leaves every choice to the model that is not `none`.
        max_tokens_field: the field that limits the answer's tokens.
        seed_field: the field for repeatable answers.
        unsent_options: options that are not sent, of `OPTION_FIELDS`.
        stream_usage: whether a stream is asked for its usage by `stream_options`, which some servers refuse.
        tool_results: whether results are written as text, or as a list of one text part.
        tool_names: whether results carry their tool's name.
        call_ids: ids of calls as they come; of 40 characters at most; or of exactly 9 letters and digits. Others are
            replaced by a digest, in the call and in its result.
        empty_content: how the content of an assistant message that holds calls only is written: as null, as an empty
            text, or not at all.
        reasoning_back: whether reasoning is sent back with the assistant message it came with, under the name it came
            under: within the turn only (thinking models want it while they call tools), always, or never.
        reasoning_field: the name for reasoning whose name is not known, as in a history that a caller sends; None
            sends none of that.
        extra_back: whether fields that the server added to its messages and calls are sent back, and refusals. Servers
            with closed schemas refuse them, and those of other servers above all.
        think_tags: whether `<think>…</think>` at the beginning of a text is reasoning; else it stays text.
        kept_fields: fields of an answer's message that the server wants back unchanged. Lists in them grow with the
            deltas, objects are united.
        variants: models that differ; the first that fits counts.
    """

    system_role: Literal["system", "developer"] = "system"
    system_messages: Literal["one", "many"] = "one"
    strict_tools: bool = False
    refused_keywords: frozenset[str] = frozenset()
    parallel_tool_calls: bool = True
    tool_choice: Literal["all", "words", "auto"] = "all"
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    seed_field: Literal["seed", "random_seed"] = "seed"
    unsent_options: frozenset[str] = frozenset()
    stream_usage: bool = True
    tool_results: Literal["text", "parts"] = "text"
    tool_names: bool = False
    call_ids: Literal["any", "at_most_40", "exactly_9"] = "any"
    empty_content: Literal["null", "empty", "omit"] = "null"
    reasoning_back: Literal["turn", "always", "never"] = "turn"
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = "reasoning_content"
    extra_back: bool = True
    think_tags: bool = False
    kept_fields: frozenset[str] = frozenset(
        {"reasoning_details", "thinking_blocks", "extra_content", "thought_signature"}
    )
    variants: tuple[Variant, ...] = ()

    def of_model(self, model: str | None) -> Profile:
        """The profile of one of the server's models."""
        for variant in self.variants:
            if re.search(variant.models, model or "", re.IGNORECASE):
                return replace(self, **variant.flags)
        return self

    def with_flags(self, flags: Mapping[str, Any]) -> Profile:
        """The profile with flags that hold for all of the server's models.

        Raises:
            TypeError: there is no such flag.
        """
        variants = tuple(
            Variant(variant.models, {name: value for name, value in variant.flags.items() if name not in flags})
            for variant in self.variants
        )
        return replace(self, **{"variants": variants, **flags})


FLAGS = tuple(flag.name for flag in fields(Profile) if flag.name != "variants")
"""The names of the flags."""
