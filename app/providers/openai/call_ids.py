"""Ids of calls in the form that a server takes. One id always becomes the same one, so calls and results still meet."""

from __future__ import annotations

import hashlib
import re

from app.providers.profile import Profile

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FITS = {"at_most_40": re.compile(r".{1,40}", re.DOTALL), "exactly_9": re.compile(r"[A-Za-z0-9]{9}")}
_LENGTH = {"at_most_40": 40, "exactly_9": 9}


def written_id(call_id: str, profile: Profile) -> str:
    """The id as it stands if the server takes it, else a digest of it."""
    form = profile.call_ids
    if form == "any" or _FITS[form].fullmatch(call_id):
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest(), "big")
    digits = []
    for _ in range(_LENGTH[form]):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(digits)
