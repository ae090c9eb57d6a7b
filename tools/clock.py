"""Dates and times: small synchronous tools with dates as parameters, and a result that is a record.

A parameter of type `date` reaches the function as a date: what the model wrote was checked and converted before.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from app.tooling import ToolFailed, ToolParam, tool

_MONTHS = 12


@dataclass(frozen=True, slots=True)
class ZonedTime:
    """The time in a zone.

    Attributes:
        zone: the zone's name.
        time: date, time and offset from UTC.
        weekday: the day of the week, in English.
    """

    zone: str
    time: datetime
    weekday: str


@tool
def current_time(
    zone: Annotated[str, ToolParam(description="IANA name of the time zone, such as Asia/Tokyo")] = "UTC",
) -> ZonedTime:
    """Tell the current date, day of the week and time in a time zone."""
    now = datetime.now(_zone(zone)).replace(microsecond=0)
    return ZonedTime(zone, now, f"{now:%A}")


@tool(idempotent=True)
def days_between(
    start: Annotated[date, ToolParam(description="The first date")],
    end: Annotated[date, ToolParam(description="The second date")],
) -> int:
    """Count the days from one date to another; negative where the second date is the earlier one."""
    return (end - start).days


@tool(idempotent=True)
def add_to_date(
    start: Annotated[date, ToolParam(description="The date to count from")],
    days: Annotated[int, ToolParam(description="Days to add")] = 0,
    weeks: Annotated[int, ToolParam(description="Weeks to add")] = 0,
    months: Annotated[int, ToolParam(description="Months to add")] = 0,
    years: Annotated[int, ToolParam(description="Years to add")] = 0,
) -> date:
    """Tell the date that lies some days, weeks, months or years after another, or before it where they are negative.

    Years and months are added first; a day that the month does not have becomes its last one.
    """
    try:
        return _months_after(start, years * _MONTHS + months) + timedelta(days=days, weeks=weeks)
    except (ValueError, OverflowError) as error:
        raise ToolFailed("The date would lie outside of the years 1 to 9999.") from error


def _months_after(start: date, months: int) -> date:
    years, month = divmod(start.year * _MONTHS + start.month - 1 + months, _MONTHS)
    if not date.min.year <= years <= date.max.year:
        raise OverflowError
    return date(years, month + 1, min(start.day, monthrange(years, month + 1)[1]))


def _zone(name: str) -> tzinfo:
    if name.upper() == "UTC":
        return UTC  # known even where no time zone database is installed
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ToolFailed(f"There is no time zone {name!r}. {_hint(name)}") from error


def _hint(name: str) -> str:
    """Zones that may have been meant: `Tokyo` and `tokio` both lead to Asia/Tokyo."""
    wanted = name.replace(" ", "_").lower()
    known = {zone.rpartition("/")[2].lower(): zone for zone in sorted(available_timezones())}
    near = [known[match] for match in get_close_matches(wanted.rpartition("/")[2], known, n=3, cutoff=0.7)]
    return f"Did you mean {' or '.join(near)}?" if near else "Use an IANA name such as Europe/Oslo."
