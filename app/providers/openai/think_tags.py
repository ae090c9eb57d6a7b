"""Reasoning that a model writes into its text between `<think>` and `</think>`."""

from __future__ import annotations

from collections.abc import Iterator

from app.providers.openai.parts import Part

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTags:
    """Parts text and reasoning, also where a tag is cut over two pieces.

    Only a text that begins with the tag is parted: later on, a tag is something the answer speaks of.
    """

    def __init__(self) -> None:
        self._held: list[str] = []
        self._state = "before"

    def feed(self, piece: str) -> Iterator[Part]:
        """What can be told apart by now."""
        self._held.append(piece)
        if self._state == "before" and piece.isspace():
            return  # not joined piece by piece: white space may go on for long
        text = "".join(self._held)
        self._held.clear()
        if self._state == "before":
            begun = text.lstrip()
            if begun.startswith(_OPEN):
                self._state = "thinking"
                text = begun[len(_OPEN) :]
            elif _OPEN.startswith(begun):
                self._held, text = [text], ""
            else:
                self._state = "after"
        if self._state == "thinking":
            thought, tag, text = text.partition(_CLOSE)
            if tag:
                self._state = "after"
            else:
                keep = _beginning_of_tag(thought)
                self._held, thought = [thought[len(thought) - keep :]], thought[: len(thought) - keep]
            if thought:
                yield Part("reasoning", thought)
        if text:
            yield Part("text", text)

    def close(self) -> Iterator[Part]:
        """What was held back for a tag that never came whole."""
        if held := "".join(self._held):
            yield Part("reasoning" if self._state == "thinking" else "text", held)
            self._held.clear()


def _beginning_of_tag(text: str) -> int:
    return next((length for length in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:length])), 0)
