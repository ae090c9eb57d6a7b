"""One text of an answer, growing by the pieces a model server sends."""

from __future__ import annotations

from collections.abc import Iterable

from app.chat.text import well_formed_text
from app.providers.scrubbing import StreamMask

_HIGH_SURROGATES = range(0xD800, 0xDC00)


class TextChannel:
    """Joins pieces into a text that can be written as UTF-8 and holds no secret.

    A character outside the basic plane may be cut over two pieces: its first half waits for the second.

    Args:
        secrets: see `StreamMask`.
    """

    __slots__ = ("_half", "_masks", "_pieces")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._masks = tuple(map(StreamMask, secrets))
        self._half = ""
        self._pieces: list[str] = []

    def feed(self, piece: str) -> str:
        """What may be passed on now, which may be empty or hold the end of an earlier piece."""
        if self._half:
            piece, self._half = self._half + piece, ""
        if not piece.isascii():
            if ord(piece[-1]) in _HIGH_SURROGATES:
                piece, self._half = piece[:-1], piece[-1]
            piece = well_formed_text(piece)
        for mask in self._masks:
            piece = mask.feed(piece)
        if piece:
            self._pieces.append(piece)
        return piece

    def close(self) -> str:
        """The rest that waited for more."""
        if not self._half and not self._masks:
            return ""
        rest, self._half = well_formed_text(self._half), ""
        for mask in self._masks:
            rest = mask.feed(rest) + mask.close()
        if rest:
            self._pieces.append(rest)
        return rest

    @property
    def text(self) -> str:
        """All that was passed on."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return "".join(self._pieces)

    def __bool__(self) -> bool:
        return bool(self._pieces or self._half)
