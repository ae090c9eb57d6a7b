"""Dates, times and time zones in a sentence. Nothing here knows what day it is: the same text reads the same always."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from typing import Literal, NamedTuple
from zoneinfo import available_timezones


class Moment(NamedTuple):
    """A date, a time, both, or a word for a day; `value` is in the notation of ISO 8601, the word as written."""

    kind: Literal["datetime", "date", "time", "day"]
    value: str
    start: int
    end: int


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?"
_DATETIME = re.compile(rf"\b(\d{{4}}-\d\d-\d\d)(?:T|\s+(?:at\s+)?)({_CLOCK})(?:\.\d{{1,9}})?(Z|[+-]\d\d:\d\d)?\b")
_DATES = tuple(
    re.compile(rf"(?<![\w-]){pattern}(?!\w)", re.IGNORECASE)
    for pattern in (
        r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)",
        r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})",
        rf"(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?(?P<m>{_MONTH})\.?,?\s(?P<y>\d{{4}})",
        rf"(?P<m>{_MONTH})\.?\s(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<y>\d{{4}})",
    )
)
_TIME = re.compile(
    rf"\b(?:(?P<clock>{_CLOCK})|(?P<hour>1[0-2]|0?[1-9])(?=\s?[ap]\.?m))(?:\s?(?P<half>[ap])\.?m\b)?", re.IGNORECASE
)
_NOON = re.compile(r"\b(?:noon|midnight)\b", re.IGNORECASE)
_DAY = re.compile(
    r"\b(?:today|tomorrow|tonight|yesterday|(?:next\s)?(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b", re.IGNORECASE
)
_NOON_HOUR = 12


def moments(text: str) -> Iterator[Moment]:
    """All dates and times in a text; of two that overlap the first told is the longer one."""
    for match in _DATETIME.finditer(text):
        yield Moment("datetime", f"{match[1]}T{_clock(match[2])}:00"[:19] + (match[3] or ""), *match.span())
    for pattern in _DATES:
        for match in pattern.finditer(text):
            if day := _date(match):
                yield Moment("date", day, *match.span())
    for match in _TIME.finditer(text):
        yield Moment("time", _time(match), *match.span())
    for match in _NOON.finditer(text):
        yield Moment("time", "12:00" if match[0].lower() == "noon" else "00:00", *match.span())
    for match in _DAY.finditer(text):
        yield Moment("day", match[0], *match.span())


def _date(match: re.Match[str]) -> str | None:
    month = match["m"]
    number = int(month) if month.isdigit() else _MONTHS.index(month[:3].lower()) + 1
    try:
        return date(int(match["y"]), number, int(match["d"])).isoformat()
    except ValueError:  # such as 2024-02-30
        return None


def _clock(text: str) -> str:
    return text if text.index(":") > 1 else f"0{text}"


def _time(match: re.Match[str]) -> str:
    text = _clock(match["clock"] or f"{match['hour']}:00")
    if not match["half"]:
        return text
    hour = int(text[:2]) % _NOON_HOUR + (_NOON_HOUR if match["half"].lower() == "p" else 0)
    return f"{hour:02}{text[2:]}"


_AREAS = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
_ELSEWHERE = {
    "bangalore": "Asia/Kolkata",
    "barcelona": "Europe/Madrid",
    "beijing": "Asia/Shanghai",
    "bombay": "Asia/Kolkata",
    "boston": "America/New_York",
    "cape town": "Africa/Johannesburg",
    "delhi": "Asia/Kolkata",
    "geneva": "Europe/Zurich",
    "germany": "Europe/Berlin",
    "hamburg": "Europe/Berlin",
    "india": "Asia/Kolkata",
    "japan": "Asia/Tokyo",
    "kyoto": "Asia/Tokyo",
    "miami": "America/New_York",
    "milan": "Europe/Rome",
    "mumbai": "Asia/Kolkata",
    "munich": "Europe/Berlin",
    "new delhi": "Asia/Kolkata",
    "norway": "Europe/Oslo",
    "osaka": "Asia/Tokyo",
    "rio de janeiro": "America/Sao_Paulo",
    "san francisco": "America/Los_Angeles",
    "seattle": "America/Los_Angeles",
    "são paulo": "America/Sao_Paulo",
    "uk": "Europe/London",
    "washington": "America/New_York",
}
"""Places that are asked for and are no name in the time zone database."""


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    known = sorted(available_timezones())
    zones = {zone.lower(): zone for zone in known}
    for zone in known:
        area, _, rest = zone.partition("/")
        if area in _AREAS and rest:
            zones.setdefault(rest.rpartition("/")[2].replace("_", " ").lower(), zone)
    return zones | {name: zone for name, zone in _ELSEWHERE.items() if zone.lower() in zones}


def zone_of(place: str) -> str | None:
    """The time zone of a place (`Tokyo` is in `Asia/Tokyo`) or of a zone's own name in any case; None = not known."""
    return _zones().get(" ".join(place.lower().split()))
