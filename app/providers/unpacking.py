"""Bodies of answers that were compressed, though nobody asked for it."""

from __future__ import annotations

import zlib

from app.chat import ModelProtocolError

_PIECE = 2**18
"""Bytes that are unpacked at a time: a small answer can hold a very large one."""


class Unpacking:
    """Unpacks a compressed body piece by piece."""

    def __init__(self) -> None:
        self._packed = b""
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, as its beginning says

    def add(self, packed: bytes) -> None:
        """Take more of it."""
        self._packed += packed

    def rest(self) -> bytes:
        """The next piece of what was taken; empty where there is none.

        Raises:
            ModelProtocolError: it cannot be unpacked.
        """
        if not self._packed:
            return b""
        try:
            piece = self._inflate.decompress(self._packed, _PIECE)
        except zlib.error:
            raise ModelProtocolError(
                "The model server's answer is compressed and cannot be unpacked.", code="truncated"
            ) from None
        self._packed = self._inflate.unconsumed_tail
        return piece
