"""Requests that say certain words do not reach the model.

Differs from Spring AI: the answer says by its finish reason, `content_filter`, that it is not the model's.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from app.chat import (
    AssistantMessage,
    CallNext,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    ConfigurationError,
    FinishReason,
    TextDelta,
    Usage,
    UserMessage,
    passes_deltas,
)


class SafeguardAdvisor:
    """Answers in the model's place where a user message holds a sensitive word or fits a pattern.

    Such an answer has no rounds, as no model was called. Outside of a memory (the default) it is not remembered.

    Args:
        words: what must not be said. Upper and lower case, and the wide and composed forms of letters, are the same.
        patterns: regular expressions, searched in the text as it was sent; those given as text ignore case.
        message: the answer.
        whole_words: whether a word counts only where no letters or digits touch it: "arms" is not in
            "farms". Switch it off for languages that are written without spaces.
        order: see `Advisor.order`.

    Raises:
        ConfigurationError: there is nothing to look for, a word is blank, or a pattern does not compile.
    """

    DEFAULT_ORDER = 100

    def __init__(
        self,
        words: Iterable[str] = (),
        *,
        patterns: Iterable[str | re.Pattern[str]] = (),
        message: str = "I cannot answer that, as it touches on something sensitive. Please rephrase your message.",
        whole_words: bool = True,
        order: int = DEFAULT_ORDER,
    ) -> None:
        self._words = _any_of(words, whole_words=whole_words)
        self._patterns = tuple(_compiled(pattern) for pattern in patterns)
        if self._words is None and not self._patterns:
            raise ConfigurationError("a SafeguardAdvisor needs words or patterns to look for")
        self._message = message
        self.order = order

    @passes_deltas
    def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Answer itself, or leave the request to the rest of the chain. See `Advisor.advise`."""
        if any(isinstance(said, UserMessage) and self._is_sensitive(said.content) for said in request.messages):
            return self._answer(request)
        return call_next(request)

    def _is_sensitive(self, text: str) -> bool:
        if self._words is not None and self._words.search(_folded(text)):
            return True
        return any(pattern.search(text) for pattern in self._patterns)

    async def _answer(self, request: ChatRequest) -> ChatEvents:
        if request.stream:
            yield TextDelta(self._message)
        message = AssistantMessage(self._message)
        nothing = Usage(0, 0, 0, 0, 0)
        yield Completed(ChatResponse(message, FinishReason.CONTENT_FILTER, nothing, generated=(message,)))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _any_of(words: Iterable[str], *, whole_words: bool) -> re.Pattern[str] | None:
    if isinstance(words, str):
        raise ConfigurationError("the words of a SafeguardAdvisor are a list of texts, not one text")
    folded = [_folded(word).strip() for word in words]
    if not all(folded):
        raise ConfigurationError("a word of a SafeguardAdvisor is blank, which would block every message")
    if not folded:
        return None
    alternatives = "|".join(map(re.escape, folded))
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)" if whole_words else alternatives)


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE) if isinstance(pattern, str) else pattern
    except re.error as error:
        raise ConfigurationError(f"{pattern!r} is not a regular expression: {error}") from error
