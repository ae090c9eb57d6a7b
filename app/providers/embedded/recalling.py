"""What the user said of themselves earlier: the one thing of a conversation that the demo model knows without tools."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.chat import Message, UserMessage

_ASKED = re.compile(
    r"\b(?:what|who|which|where|when|how\s+old|know|remember|tell\s+me)\b.*?\bmy\s+(?P<thing>\w+(?:\s(?!is\b|was\b)\w+)?)"
    r"(?:\s+(?:is|was))?\s*[?.!]*$",
    re.IGNORECASE,
)
_WHO = re.compile(r"\bwho\s+am\s+i\b", re.IGNORECASE)
_LAST = re.compile(r"\bwhat\s+(?:did|have)\s+i\s+(?:just\s+)?(?:say|said|ask|asked|tell|told)\b", re.IGNORECASE)
_VALUE = r"(?P<value>[^.!?;,\n]{1,80})"
_NAMES = re.compile(
    r"\b(?i:call\s+me|i\s+am|i['\N{RIGHT SINGLE QUOTATION MARK}]m)\s+(?P<value>[A-Z][\w'-]*(?:\s[A-Z][\w'-]*)*)"
)
_READ = 1000  # characters of a message


def recalled(messages: Sequence[Message]) -> str | None:
    """The answer to `What is my name?` and the like.

    Args:
        messages: the conversation; the last message of the user is the question.

    Returns:
        What the user said of it, or that they did not; None where the last message asks for nothing of the kind.
    """
    *earlier, question = [message.content[:_READ] for message in messages if isinstance(message, UserMessage)] or [""]
    if _LAST.search(question):
        return f"You said: {earlier[-1]}" if earlier else "You have said nothing else in this conversation."
    asked = _ASKED.search(question)
    thing = "name" if _WHO.search(question) else asked["thing"].lower() if asked else None
    if thing is None:
        return None
    fact = re.compile(rf"\bmy\s+{re.escape(thing)}\s+(?:is|was|are)\s+{_VALUE}", re.IGNORECASE)
    for said in reversed(earlier):
        told = fact.search(said) or (_NAMES.search(said) if thing == "name" else None)
        if told:
            return f"You said that your {thing} is {told['value'].strip()}."
    return f"You have not told me your {thing} in this conversation."
